"""Charts of served loads: users, rates and static batches along both axes, with their limits."""

from __future__ import annotations

import functools

import drawn
import pytest

from planner.charts.served import served_chart
from planner.charts.sweep import sweep_chart
from planner.serving.around import around
from planner.serving.open import serve_rate
from planner.serving.plan import plan_question
from planner.spec.load import load_text
from planner.spec.question import ask

TEXT = """\
name: served
model: qwen2.5-7b-instruct
gpu: rtx-4090
workload: {{ {}, input: 1024, output: 256 }}
"""
LOADS = {"users": "concurrency: 8", "rate": "rate: 1", "batch": "batch: 8"}


@functools.cache
def asked(load: str):
    """The chat as it is served."""
    return ask(load_text(TEXT.format(LOADS[load]), "served.yaml", "deployment"), drawn.CATALOG)


@functools.cache
def plan(load: str):
    """Its plan."""
    return plan_question(asked(load))


@functools.cache
def found(load: str, axis: str):
    """What is drawn of it."""
    return around(asked(load), plan(load), axis, points=6)


@pytest.mark.parametrize("axis", ["batch", "context"])
@pytest.mark.parametrize("load", LOADS)
def test_a_curve_passes_through_the_plan(load, axis):
    """At its own place a sweep says what the plan says."""
    along = found(load, axis)
    place = along.values.index(along.here)
    serving, static = plan(load).serving, plan(load).workload
    if serving:
        wanted = (serving.ttft_s.value, serving.tpot_s.value, serving.output_tokens_per_s.value)
    else:
        wanted = (static.ttft_s, static.tpot_s, static.output_tokens_per_s)
    got = [e[place].value for e in (along.ttft_s, along.tpot_s, along.tokens_per_s)]
    assert got == pytest.approx(list(wanted), rel=1e-6)
    assert along.fits[place]


@pytest.mark.parametrize("axis", ["batch", "context"])
@pytest.mark.parametrize("load", LOADS)
def test_what_fits_ends_at_the_limit(load, axis):
    along = found(load, axis)
    assert along.limit is not None
    assert along.values[0] < along.here < along.limit < along.values[-1]
    for value, fits in zip(along.values, along.fits, strict=True):
        assert fits == (value <= along.limit)
    assert along.limit_by == ("rate" if load == "rate" else "kv")


def test_the_limit_of_users_is_what_the_engine_has_room_for():
    assert found("users", "batch").limit == plan("users").serving.most_running


def test_the_limit_of_a_rate_is_saturation_and_of_prompts_the_last_that_is_served():
    """A hundredth more of a prompt, and the rate is no longer served."""
    assert found("rate", "batch").limit == serve_rate(asked("rate")).saturation_per_s
    longest = int(found("rate", "context").limit)
    saturated = []
    for prompt in (longest, int(longest * 1.02)):
        text = TEXT.format(LOADS["rate"]).replace("1024", str(prompt))
        one = serve_rate(ask(load_text(text, "x.yaml", "deployment"), drawn.CATALOG))
        saturated.append(one.rate_per_s >= one.saturation_per_s)
    assert saturated == [False, True]


@pytest.mark.parametrize("load", LOADS)
def test_a_chart_says_units_limits_and_intervals(load):
    spec = sweep_chart(plan(load), found(load, "batch"), theme="dark").to_dict()
    titles = drawn.titles(spec)
    assert sum(title.startswith("time to first token, ") for title in titles) == 1
    assert sum(title.startswith("time per output token, ") for title in titles) == 1
    assert "output tokens/s" in titles
    said = {row["said"].partition(":")[0] for row in drawn.rows(spec) if "said" in row}
    assert ("saturated" if load == "rate" else "KV cache full") in said
    assert any("M*" in each for each in said) == (load != "rate")
    assert served_chart(plan(load), found(load, "context")).to_dict()
    assert all(row["ttft_low"] < row["ttft_high"] for row in drawn.rows(spec) if "ttft_low" in row)
