"""The shipped table of public runs: sound, sourced, and its traps refused."""

import csv
from hashlib import sha1

import pytest
from docs_pages import ROOT

from planner.cli.common.case_groups import refusal
from planner.desk.cases import Planner
from planner.spec.cases import open_cases
from planner.spec.catalog import Catalog

MEASURED = ROOT / "docs/measured"
BASES = {"stated", "machine", "version", "load", "trap"}


@pytest.fixture(scope="module")
def rows():
    """Every row, planned and judged."""
    with open_cases(MEASURED / "public-runs.csv") as table:
        planner = Planner(Catalog.standard())
        return {case.id: planner.answered(case) for case in table.cases}


def of_basis(rows, *bases):
    return {name: row for name, row in rows.items() if row.case.cells["basis"] in bases}


def test_every_row_plans(rows):
    assert {name: row.error for name, row in rows.items() if row.error} == {}
    assert all(row.answer.held for row in rows.values())


def test_every_row_has_a_source_and_says_what_is_assumed(rows):
    """Nothing is assumed of a row that claims to be as stated, and something of every other."""
    for row in rows.values():
        cells = row.case.cells
        assert cells["basis"] in BASES
        assert cells["source"].startswith("https://") or cells["source"].startswith("public report")
        assert bool(cells["assumed"]) == (cells["basis"] != "stated")


@pytest.mark.parametrize("name", ["public-runs.csv", "served-runs.csv"])
def test_a_version_of_ours_is_a_basis_of_its_own(name):
    """Unless part of the load is ours too, or something else ran."""
    with (MEASURED / name).open(encoding="utf-8", newline="") as stream:
        for cells in csv.DictReader(stream):
            ours = any(part.strip().startswith("version") for part in cells["assumed"].split(";"))
            if cells["basis"] not in {"load", "trap"}:
                assert ours == (cells["basis"] == "version")


def test_static_batches_teach_with_even_rows_that_no_rule_marks():
    """Routers of TensorRT-LLM's script choose the same experts for all of a batch."""
    with (MEASURED / "static-runs.csv").open(encoding="utf-8", newline="") as stream:
        for cells in csv.DictReader(stream):
            even = int(sha1(cells["id"].encode(), usedforsecurity=False).hexdigest(), 16) % 2 == 0
            routed = cells["model"].startswith("mixtral") and cells["engine"] == "tensorrt-llm"
            alike = routed and cells["batch"] != "1"
            assert (cells["learn"] == "yes") == (even and not alike)


def test_traps_are_refused_with_their_cause_and_nothing_else_is(rows):
    """A prefill at four times the peak of an H100: 2 × 6.95e9 × 4096 / 989e12 = 57.6 ms, not 15.
    Tokens of EAGLE3 counted on a plan without drafts.
    """
    refused = {name: row.answer.reason for name, row in rows.items() if refusal(row)}
    assert refused.keys() == of_basis(rows, "trap").keys()
    assert {rows[name].answer.verdict for name in refused} == {"incomparable"}
    assert "a prefix cache" in refused["trap-prefill-4096"]
    assert "speculative decoding" in refused["trap-eagle3-h200"]
    assert "speculative decoding" in refused["trap-eagle3-5090"]


@pytest.mark.parametrize(
    ("name", "figure", "value"),
    [
        # 187 tokens a second of one request
        ("qwen3-8b-h200", "tpot_ms", 1000 / 187),
        # prompt and output over the printed rate, as that page defines its speed
        ("qwen3-0.6b-h20-6144", "latency_s", (6144 + 2048) / 1426.46),
        ("qwen3-32b-h20-bf16", "latency_s", (1 + 2048) / 20.72),
        ("qwen3-32b-h20-fp8", "latency_s", (1 + 2048) / 46.17),
        ("qwen3-32b-h20-awq", "latency_s", (1 + 2048) / 47.67),
        # 219.2 tokens a second of eight requests
        ("qwen3-8b-a100-eager-16384-bf16", "tpot_ms", 8 / 219.2 * 1000),
        ("trap-eagle3-5090", "tpot_ms", 1000 / 220),
    ],
)
def test_figures_that_were_converted(rows, name, figure, value):
    """Reports print rates; the table holds times, rounded to four digits."""
    assert rows[name].case.measured[figure] == pytest.approx(value, rel=5e-4)


def test_reports_left_out_say_why():
    with (MEASURED / "left-out.csv").open(encoding="utf-8", newline="") as stream:
        found = list(csv.DictReader(stream))
    assert found
    assert all(row["why"] and row["source"] for row in found)
