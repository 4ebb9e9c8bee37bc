"""`planner calibrate spread`: from tables of runs to wider intervals."""

import csv
import json
import math

import pytest

NAMES = ("id", "report", "model", "gpu", "workload.batch", "workload.input", "workload.output")
FIGURES = ("measured.tpot_ms", "measured.ttft_ms")


@pytest.fixture
def table(tmp_path):
    """Writes so many reports of one run each, all of one deployment."""

    def write(reports: int, others: int = 0) -> str:
        file = tmp_path / "runs.csv"
        with file.open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow([*NAMES, *FIGURES])
            for each in range(reports + others):
                card = "rtx-4090" if each < reports else "mi300x"
                load = ("qwen2.5-0.5b-instruct", card, 1, 128, 16)
                rows.writerow([f"run{each}", f"report{each}", *load, 20, 50])
        return str(file)

    return write


def test_a_spread_is_written_and_read_by_plans(run, table, tmp_path, deployment):
    """All reports say the same, so their ratio is the width: an interval of a step without any of
    its own would reach just to it; with one it reaches further.
    """
    folder = tmp_path / "mine"
    words = ("calibrate", "spread", table(5), "--out", str(folder / "spreads"))
    document = json.loads(run(*words, "--date", "2026-11-30", "--json").out)
    wide = document["figures"]["pace"]["width"]
    assert document["figures"]["pace"]["reports"] == 5
    assert document["figures"]["pace"]["left_out"] == 1
    plans = [
        json.loads(run("plan", deployment, "--json", "--no-advice", *words).out)
        for words in ((), ("--catalog", str(folder)))
    ]
    shipped, mine = (plan["step"] for plan in plans)
    assert mine["scatter"] == "5 reports of whole runs"
    assert mine["time_s"] == shipped["time_s"]
    assert math.log(mine["high_s"] / mine["time_s"]) > wide
    assert plans[0]["plan_id"] != plans[1]["plan_id"]


def test_cards_of_a_maker_without_measured_kernels_have_a_spread_of_their_own(run, table, tmp_path):
    """Their runs widen no other's interval, and the other's reports say nothing of them. Both
    kinds' widths are what brings the interval out to the one measured time.
    """
    apart = json.loads(run("calibrate", "spread", table(5), "--dry-run", "--json").out)
    folder = tmp_path / "mine"
    words = ("calibrate", "spread", table(5, 5), "--out", str(folder / "spreads"), "--json")
    both = json.loads(run(*words, "--date", "2026-11-30").out)
    assert both["figures"] == apart["figures"]
    assert "amd" not in both["vendors"]
    assert both["others"]["pace"]["reports"] == 5
    assert apart["others"] == {}
    card = tmp_path / "amd.yaml"
    card.write_text(
        "model: qwen2.5-0.5b-instruct\ngpu: mi300x\nbackend: {name: vllm}\n"
        "workload: {batch: 1, input: 128, output: 16}\n"
    )
    plan = json.loads(
        run("plan", str(card), "--json", "--no-advice", "--catalog", str(folder)).out
    )["step"]
    reach = math.log(plan["high_s"] / plan["time_s"])
    assert reach > both["others"]["pace"]["width"]


def test_the_text_says_what_each_figure_is_of(run, table):
    outcome = run("calibrate", "spread", table(5), "--dry-run")
    assert outcome.code == 0
    assert "steps, tokens, requests, throughput" in outcome.out
    assert "not written (dry run)" in outcome.out


def test_too_few_reports_are_refused_with_a_hint(run, table):
    outcome = run("calibrate", "spread", table(4), "--dry-run")
    assert outcome.code == 2
    assert "figures of pace are in 4 reports" in outcome.err
    assert "column report" in outcome.err
