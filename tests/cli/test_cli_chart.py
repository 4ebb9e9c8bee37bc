"""``planner chart`` and ``planner report``: what may be asked, and the files that come of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.charts.draw import PLAN_CHARTS
from planner.cli.chart import KINDS
from planner.cli.common.subjects import KINDS as PRINTED


def test_a_chart_of_a_file_is_a_picture(run, deployment):
    outcome = run("chart", "memory", deployment, "-o", "memory.svg", "-o", "memory.json")
    assert (outcome.code, outcome.out) == (0, "memory.svg\nmemory.json\n")
    assert "Memory of one GPU" in Path("memory.svg").read_text("utf-8")
    assert "vega-lite" in json.loads(Path("memory.json").read_text("utf-8"))["$schema"]


def test_json_is_the_specification(run, deployment):
    found = json.loads(run("chart", "timeline", deployment, "--json").out)
    assert (found["kind"], found["chart"]) == ("chart", "timeline")
    assert found["vega_lite"]["title"]["text"] == "Launch timeline"


def test_a_stored_plan_is_drawn_and_reported(run, deployment):
    plan = json.loads(run("plan", deployment, "--json", "--no-advice").out)["plan_id"]
    found = run("chart", "batch", plan[:6], "--json", "--theme", "dark")
    assert json.loads(found.out)["vega_lite"]["config"]["background"] != "#ffffff"
    report = run("report", plan[:6])
    assert report.out.startswith("## small chat: ")
    assert "| kernel | block |" in report.out


def test_a_report_of_a_file_is_one_page(run, deployment):
    outcome = run("report", deployment, "-o", "plan.html")
    assert outcome.code == 0
    assert outcome.out.startswith("plan.html: 0.")
    page = Path("plan.html").read_bytes()
    assert page.count(b"<figure ") == len(PLAN_CHARTS)
    assert len(page) < 3e6


def test_two_names_are_a_comparison(run, deployment):
    Path("wide.yaml").write_text(
        Path(deployment).read_text("utf-8").replace("batch: 4", "batch: 8")
    )
    run("report", deployment, "wide.yaml", "-o", "change.md")
    assert "small chat against small chat" in Path("change.md").read_text("utf-8")
    found = json.loads(run("chart", "diff", deployment, "wide.yaml", "--json").out)
    assert found["vega_lite"]["title"]["text"] == "What changed"


def test_what_commands_print_is_read_back(run, deployment):
    """A plan, two plans and several GPUs: the report of the JSON is that of the file."""
    for words in (
        ("plan", deployment, "--no-save"),
        ("diff", deployment, "--gpu", "rtx-4090,l40s"),
    ):
        Path("printed.json").write_text(run(*words, "--json").out, encoding="utf-8")
        again = run("report", "printed.json")
        same = run("report", deployment, *(words[2:] if words[0] == "diff" else ()))
        assert again.code == same.code == 0
        assert again.out == same.out


def test_a_sweep_is_reported_with_what_tells_its_rows_apart(run, deployment):
    words = ("sweep", deployment, "--over", "batch=1:2,tp=5|1", "--json")
    Path("swept.json").write_text(run(*words).out, encoding="utf-8")
    told = run("report", "swept.json").out
    assert told.startswith("## Sweep of 4 deployments\n\n4 rows, 2 fit, 2 are wrong\n")
    assert "| tensor | batch | step ms |" in told


@pytest.mark.parametrize("kind", PRINTED)
def test_half_of_what_a_command_printed_is_told(run, deployment, kind):
    Path("half.json").write_text(f'{{"format": 1, "kind": "{kind}"}}', encoding="utf-8")
    half = run("report", "half.json")
    assert half.code == 2
    assert f"the file is no whole {kind}" in half.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("chart", "memory", "chat.yaml"), "a chart needs a file (as in -o memory.svg"),
        (("chart", "memory", "chat.yaml", "-o", "x.gif"), "names no format of a chart"),
        (("chart", "diff", "chat.yaml", "-o", "x.svg"), "no chart of kind diff|name two plans"),
        (("chart", "front", "chat.yaml", "-o", "x.svg"), "choose --json"),
        (("chart", "gpus", "chat.yaml", "-o", "x.svg"), "GPUs with --gpu"),
        (("chart", "block", "chat.yaml", "--block", "layr", "--json"), "did you mean 'layer'"),
        (("report", "chat.yaml", "-o", "x.pdf"), "let the name end in .html or .md"),
        (("report", "a", "b", "c"), "one plan, or two to compare"),
        (("report", "a", "b", "--gpu", "l40s"), "name one file"),
        (("report", "old.json"), "is of format 2, not 1"),
        (("report", "half.json"), "no whole plan"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_hint(run, deployment, words, said):
    Path("old.json").write_text('{"format": 2, "kind": "plan"}')
    Path("half.json").write_text('{"format": 1, "kind": "plan"}')
    outcome = run(*words)
    assert outcome.code == 2
    assert any(part in outcome.err for part in said.split("|")), outcome.err


def test_the_kinds_of_a_plan_are_those_that_are_drawn():
    assert set(PLAN_CHARTS) < set(KINDS)
