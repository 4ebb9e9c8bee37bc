"""JSON: strict, complete, and back again."""

import json
from datetime import UTC, datetime

import pytest
from report_plans import SPECS, plan, question

from planner.plan.advice import Advice, advise
from planner.plan.types import Plan
from planner.plan.values import restore
from planner.report.document import plan_document, to_json


def reject(word: str) -> None:
    raise AssertionError(word)


def read(text: str) -> dict:
    """The object, where NaN and Infinity are no JSON."""
    return json.loads(text, parse_constant=reject)


@pytest.mark.parametrize("spec", SPECS)
def test_a_plan_comes_back_as_it_was(spec):
    document = read(to_json("plan", plan_document(plan(spec))))
    assert restore(Plan, document) == plan(spec)


def test_advice_comes_back_as_it_was():
    found = advise(question())
    document = read(to_json("plan", plan_document(plan(), found)))
    assert tuple(restore(Advice, row) for row in document["advice"]) == found


def test_a_plan_has_the_fields_that_the_format_promises():
    document = read(to_json("plan", plan_document(plan())))
    assert document["format"] == 1
    assert document["kind"] == "plan"
    assert document["advice"] is None
    assert len(document["plan_id"]) == 12
    assert {"time_s", "low_s", "high_s", "modes"} <= document["step"].keys()
    assert all(document["step"]["modes"][m]["time_s"] > 0 for m in ("eager", "piecewise", "full"))
    amounts = {"fits", "weights_bytes", "kv_bytes", "kv_tokens", "capacity_bytes"}
    assert amounts <= document["memory"].keys()
    model = {"parameters", "active_parameters", "kv_bytes_per_token"}
    assert model <= document["model"].keys()
    node = {"id", "block", "repeat", "matmul_flops", "vector_flops", "hbm_bytes", "flops_per_byte"}
    node |= {"ridge_flops_per_byte", "bound", "crossing_tokens"}
    assert all(node <= row.keys() for row in document["nodes"])
    kernel = {"name", "block", "repeat", "nodes", "hbm_bytes", "time_s", "bound", "evidence"}
    assert all(kernel <= row.keys() for row in document["kernels"])


def test_an_infinite_ratio_is_null():
    values = {"a": float("inf"), "b": [float("nan"), 1.5], "c": {"d": -float("inf")}}
    document = read(to_json("ratios", values))
    assert document == {
        "format": 1,
        "kind": "ratios",
        "a": None,
        "b": [None, 1.5],
        "c": {"d": None},
    }


def test_a_time_is_iso_8601():
    when = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    assert read(to_json("plans", {"at": when}))["at"] == "2026-11-30T12:00:00+00:00"


def test_names_of_any_alphabet_are_plain_ascii_in_the_text():
    text = to_json("x", {"name": "Qwen 宽 ×"})
    assert text.isascii()
    assert read(text)["name"] == "Qwen 宽 ×"
