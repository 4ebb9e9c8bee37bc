"""The shipped tables of served runs: sound, sourced, and the spread that is drawn from them."""

import csv
import json

import pytest
from docs_pages import ROOT

from planner.cli.common.spreading import gathered
from planner.spec.cases import open_cases

MEASURED = ROOT / "docs/measured"
FILE = MEASURED / "served-runs.csv"
BASES = {"stated", "machine", "version", "load"}


@pytest.fixture(scope="module")
def cases():
    with open_cases(FILE) as table:
        return list(table.cases)


def test_every_row_is_a_deployment_with_figures(cases):
    assert [case.id for case in cases if case.deployment is None or not case.measured] == []
    assert len({case.id for case in cases}) == len(cases)


def test_no_run_stands_twice(cases):
    """Reports are independent of each other, so that none may bring another's figures."""
    figures: dict[str, set[str]] = {}
    for case in cases:
        told = {name: cell for name, cell in case.cells.items() if name.startswith("measured.")}
        if sum(map(bool, told.values())) > 1:
            figures.setdefault(str(sorted(told.items())), set()).add(case.id)
    assert [rows for rows in figures.values() if len(rows) > 1] == []


def test_every_row_has_a_source_and_says_what_is_assumed(cases):
    for case in cases:
        cells = case.cells
        assert cells["basis"] in BASES
        assert cells["report"]
        assert cells["source"].startswith("https://") or cells["source"].startswith("public report")
        assert bool(cells["assumed"]) == (cells["basis"] != "stated")


def test_what_may_be_of_the_test_data_is_learnt_from_by_no_spread(cases):
    """InferenceX's runs are what accuracy of serving is told by."""
    assert not [case.id for case in cases if "InferenceX" in case.cells["source"]]
    told = {case.cells["case"] for case in cases if case.cells["learn"] == "no"}
    assert told == {"A040"}


def test_the_page_is_of_these_rows(cases):
    document = json.loads((MEASURED / "served-runs.json").read_text())
    assert [row["id"] for row in document["rows"]] == [case.id for case in cases]
    assert not [row["id"] for row in document["rows"] if row["error"]]


def test_rows_are_left_out_of_a_spread_with_the_reason(tmp_path):
    """One row of each kind: kept, guessed (judged alone), no run of its plan, said not to be learnt
    from, and wrong.
    """
    names = ["id", "report", "basis", "learn", "model", "gpu", "step.decode.batch"]
    names += ["step.decode.context", "measured.step_ms"]
    plan = ("qwen2.5-0.5b-instruct", "h100-sxm", "1", "512")
    rows = [
        ("kept", "r", "stated", "", *plan, "3"),
        ("guessed", "r", "load", "", *plan, "3"),
        ("trap", "r", "trap", "", *plan, "3"),
        ("told", "r", "stated", "no", *plan, "3"),
        ("wrong", "r", "stated", "", "nothing", *plan[1:], "3"),
    ]
    file = tmp_path / "runs.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([names, *rows])
    found, skipped = gathered([file], [])
    assert [each.told for each in found] == ["in full", "in part"]
    assert [each["id"] for each in skipped] == ["trap", "told", "wrong"]
    assert "unknown model" in skipped[-1]["reason"]
