"""`planner record`, `accept`, `baseline` and `history`: one store from plan to verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

STATIC = """\
name: static chat
model: qwen2.5-0.5b-instruct
gpu: rtx-4090
workload: {batch: 4, input: 512, output: 64}
"""


@pytest.fixture
def planned(run, deployment):
    """A stored plan of a decode step: its JSON."""
    return json.loads(run("plan", deployment, "--no-advice", "--json").out)


@pytest.fixture
def static(run, deployment):
    """A stored plan of a static batch: its JSON."""
    Path("static.yaml").write_text(STATIC, encoding="utf-8")
    return json.loads(run("plan", "static.yaml", "--no-advice", "--json").out)


@pytest.fixture
def record(run):
    """Records and gives the id of the run."""

    def _record(plan, *words):
        outcome = run("record", plan["plan_id"], *words, "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)["run_id"]

    return _record


def step(plan, times: float) -> str:
    """A multiple of the plan's step, as a user types it."""
    return f"{plan['step']['time_s'] * times * 1e3:.6f} ms"


def latencies(name: str, seconds: float) -> str:
    """A file of `vllm bench latency` with 20 measurements, each 0.01 % after the other."""
    values = [seconds * (1 + i * 1e-4) for i in range(20)]
    percentiles = {"10": values[2], "25": values[5], "50": values[10], "75": values[15]}
    percentiles |= {"90": values[18], "99": values[19]}
    content = {"avg_latency": sum(values) / 20, "latencies": values, "percentiles": percentiles}
    Path(name).write_text(json.dumps(content), encoding="utf-8")
    return name


def test_a_figure_is_recorded_with_its_circumstances_from_the_plan(run, planned):
    words = ("record", planned["plan_id"][:6], "--value", "12.3ms", "--metric", "step", "--json")
    document = json.loads(run(*words).out)
    assert document["kind"] == "run"
    assert document["plan_id"] == planned["plan_id"]
    assert document["metrics"] == [
        {"name": "step", "statistic": "mean", "value": pytest.approx(0.0123), "unit": "s"}
    ]
    assert document["context"]["gpu"] == "rtx-4090"
    assert document["new"] is True
    assert len(document["source"]["sha256"]) == 64


def test_recording_twice_is_a_no_op_that_says_so(run, planned):
    words = ("record", planned["plan_id"], "--value", "12.3ms")
    first, second = run(*words), run(*words)
    assert "recorded, plan" in first.out
    assert "already known, plan" in second.out
    assert second.code == 0
    times = [json.loads(run(*words, "--json").out)["recorded_at"] for _ in range(2)]
    assert times[0] == times[1]


def test_one_amount_of_two_metrics_is_two_runs(record, planned):
    ids = {record(planned, "--value", "12ms", "--metric", name) for name in ("step", "tpot")}
    assert len(ids) == 2


def test_a_file_is_recorded_by_its_content_and_kept_whole(run, static, tmp_path):
    from planner.store.database import open_store

    file = latencies("result.txt", 0.3)
    document = json.loads(run("record", static["plan_id"], file, "--json").out)
    assert document["source"]["format"] == "vllm_bench_latency"
    assert document["samples"] == {"latency": 20}
    with open_store(str(tmp_path / "plans.db")) as store:
        assert store.run(document["run_id"]).raw == Path(file).read_bytes()


def test_what_contradicts_the_plan_is_refused_naming_the_part(run, planned):
    outcome = run("record", planned["plan_id"], "--value", "9ms", "--set", "parallel.tensor=4")
    assert outcome.code == 2
    assert "parallel: parallel.tensor is 4, not 1" in outcome.err
    assert json.loads(run("history", "--json").out)["rows"] == []


def test_what_is_set_is_part_of_the_run(run, planned):
    words = ("record", planned["plan_id"], "--value", "9ms", "--set", "driver=580.65", "--json")
    document = json.loads(run(*words).out)
    assert document["context"]["driver"] == "580.65"
    assert "said by hand: driver = 580.65" in document["notes"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "record takes a file or --value"),
        (("x.json", "--value", "1ms"), "record takes a file or --value"),
        (("absent.json",), "absent.json cannot be read: No such file or directory"),
        (("--value", "12"), "a time needs its unit"),
        (("--value", "12ms", "--metric", "speed"), "speed"),
        (("--value", "12ms", "--set", "gpu"), "'gpu' is no PATH=VALUE"),
        (("chat.yaml",), "no known measurement format"),
    ],
)
def test_a_question_put_wrong_ends_with_2_and_one_sentence(run, planned, words, message):
    outcome = run("record", planned["plan_id"], *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(
    ("times", "expected"),
    [(1.0, ("pass", 0)), (3.0, ("regress", 1)), (0.01, ("incomparable", 2))],
)
def test_a_verdict_and_its_exit_code(run, record, planned, times, expected):
    """A step as planned, three times as long, and a hundred times faster than planned."""
    outcome = run("accept", record(planned, "--value", step(planned, times)), "--json")
    document = json.loads(outcome.out)
    assert document["kind"] == "verdict"
    assert (document["verdict"], outcome.code) == expected
    assert document["against"] == f"plan {planned['plan_id']}"
    assert document["ratio"] == pytest.approx(times, rel=1e-3)
    assert document["reason"]
    assert {"interval", "p_value"} <= document.keys()


def test_a_verdict_in_words(run, record, planned):
    shown = run("accept", record(planned, "--value", step(planned, 3)))
    assert shown.code == 1
    assert f"against plan {planned['plan_id']}: regress" in shown.out
    assert "slower than the 80 % interval of the prediction" in shown.out


def test_the_baseline_of_the_plan_is_found_and_decides(run, record, static):
    """Measurements of 20 batches: 8 % more is a regression that the plan alone may not see."""
    seconds = static["workload"]["latency_s"]
    first = record(static, latencies("first.json", seconds))
    assert run("baseline", "set", "main", first[:8], "--by", "ci").code == 0
    same = run("accept", record(static, latencies("same.json", seconds * 1.001)), "--json")
    slow = run("accept", record(static, latencies("slow.json", seconds * 1.08)), "--json")
    fast = run("accept", record(static, latencies("fast.json", seconds / 1.08)), "--json")
    found = [json.loads(outcome.out) for outcome in (same, slow, fast)]
    assert [each["verdict"] for each in found] == ["pass", "regress", "improve"]
    assert [same.code, slow.code, fast.code] == [0, 1, 0]
    assert found[1]["against"] == "baseline main"
    assert found[1]["p_value"] < 1e-6
    assert found[1]["others"][0]["against"] == f"plan {static['plan_id']}"


def test_too_few_samples_end_with_2(run, record, planned):
    """Two single figures, 8 % apart."""
    run("baseline", "set", "main", record(planned, "--value", step(planned, 1.0)))
    slow = record(planned, "--value", step(planned, 1.08))
    outcome = run("accept", slow, "--baseline", "main", "--json")
    assert (json.loads(outcome.out)["verdict"], outcome.code) == ("too_few_samples", 2)


def test_a_baseline_of_another_plan_is_incomparable_naming_the_part(run, record, planned, static):
    """Named, it decides; unnamed, it is not looked at."""
    run("baseline", "set", "main", record(static, latencies("first.json", 0.3)))
    mine = record(planned, "--value", step(planned, 1.0))
    named = run("accept", mine, "--baseline", "main", "--json")
    assert named.code == 2
    assert json.loads(named.out)["reason"].startswith("workload: ")
    assert run("accept", mine).code == 0


def test_a_baseline_that_nobody_named_and_that_says_nothing_leaves_it_to_the_plan(
    run, record, planned
):
    """One is of a step, the other of a gap between tokens."""
    run("baseline", "set", "main", record(planned, "--value", step(planned, 1.0)))
    gap = record(planned, "--value", step(planned, 3.0), "--metric", "tpot")
    assert run("accept", gap, "--baseline", "main").code == 2
    outcome = run("accept", gap, "--json")
    document = json.loads(outcome.out)
    assert (document["verdict"], outcome.code) == ("regress", 1)
    assert document["others"][0]["against"] == "baseline main"


def test_baselines_are_listed_and_shown_with_what_they_superseded(run, record, planned):
    first, second = (record(planned, "--value", value) for value in ("9ms", "8ms"))
    run("baseline", "set", "main", first, "--by", "ann")
    row = json.loads(run("baseline", "set", "main", second, "--by", "bob", "--json").out)
    assert (row["kind"], row["run_id"], row["set_by"]) == ("baseline", second, "bob")
    listed = json.loads(run("baseline", "list", "--json").out)["baselines"]
    assert [each["run_id"] for each in listed] == [second]
    shown = json.loads(run("baseline", "show", "main", "--json").out)["baselines"]
    assert [(each["run_id"], each["set_by"]) for each in shown] == [(second, "bob"), (first, "ann")]
    assert shown[0]["supersedes"] == shown[1]["baseline_id"]
    assert first in run("baseline", "show", "main").out
    assert first not in run("baseline", "list").out


def test_an_unknown_run_or_baseline_ends_with_2(run, record, planned):
    mine = record(planned, "--value", "9ms")
    assert run("accept", "zzz").code == 2
    assert run("accept", mine, "--baseline", "nightly").code == 2
    assert "no baseline is named 'nightly'" in run("accept", mine, "--baseline", "nightly").err
    assert run("baseline", "show", "nightly").code == 2
    assert run("baseline", "set", "main", "zzz").code == 2


def test_history_shows_predicted_and_measured_the_newest_first(run, record, planned, static):
    older = record(planned, "--value", step(planned, 1.0))
    newer = record(planned, "--value", step(planned, 2.0))
    other = record(static, latencies("first.json", 0.3))
    run("baseline", "set", "main", older)
    rows = json.loads(run("history", "--plan", planned["plan_id"][:6], "--json").out)["rows"]
    assert [row["run_id"] for row in rows] == [newer, older]
    assert [row["ratio"] for row in rows] == pytest.approx([2.0, 1.0], rel=1e-3)
    assert rows[0]["predicted"] == planned["step"]["time_s"]
    assert [row["baseline"] for row in rows] == [None, "main"]
    by_baseline = json.loads(run("history", "--baseline", "main", "--json").out)["rows"]
    assert by_baseline == rows
    whole = run("history")
    assert {older, newer, other, "main"} <= set(whole.out.split())
    assert len(json.loads(run("history", "--limit", "1", "--json").out)["rows"]) == 1


def test_history_of_nothing_says_how_to_record(run, planned):
    assert "planner record PLAN FILE" in run("history").out
    assert run("history", "--plan", planned["plan_id"], "--baseline", "main").code == 2


def test_history_shows_runs_whose_plan_is_not_in_the_store(run, record, planned, tmp_path):
    """As after taking runs alone into another database: nothing is predicted of them."""
    from planner.store.database import open_store

    mine = record(planned, "--value", "9ms")
    with open_store(str(tmp_path / "plans.db")) as store, open_store("other.db") as other:
        other.save_run(store.run(mine))
    (row,) = json.loads(run("history", "--db", "other.db", "--json").out)["rows"]
    assert (row["run_id"], row["predicted"]) == (mine, None)
    assert row["measured"] == pytest.approx(0.009)
    assert run("accept", mine, "--db", "other.db").code == 2


def test_history_is_a_chart_and_a_report_of_its_own(run, record, planned):
    """Of a plan, of a baseline, of all, and of what `history --json` printed: the same picture."""
    run("baseline", "set", "main", record(planned, "--value", step(planned, 1.0)))
    plan = planned["plan_id"]
    of_all = run("chart", "history", "--json", "--theme", "dark")
    spec = json.loads(of_all.out)["vega_lite"]
    assert spec["title"]["text"] == "Measured and predicted over time"
    assert spec["config"]["background"] != "#ffffff"
    Path("runs.json").write_text(run("history", "--json").out, encoding="utf-8")
    for words in ((plan[:6],), ("--baseline", "main"), ("runs.json",)):
        assert run("chart", "history", *words, "--json", "--theme", "dark").out == of_all.out
    run("report", "runs.json", "-o", "runs.html")
    run("report", plan[:6], "-o", "plan.html")
    for page in map(Path, ("runs.html", "plan.html")):
        assert 'aria-label="Measured and predicted over time"' in page.read_text(encoding="utf-8")
    assert "### Recorded runs" in run("report", plan[:6]).out
    for kind, said in (("history", "one plan, or of one baseline"), ("memory", "kind history")):
        outcome = run("chart", kind, plan, "--baseline", "main", "--json")
        assert (outcome.code, said in outcome.err) == (2, True)


def test_history_is_drawn_beside_the_table(run, record, planned):
    record(planned, "--value", step(planned, 1.0))
    outcome = run("history", "--chart", "history.svg")
    assert outcome.code == 0
    assert outcome.out.endswith("\nchart: history.svg\n")
    assert "Time of a step, mean" in Path("history.svg").read_text(encoding="utf-8")
    as_json = run("history", "--chart", "history.json", "--json")
    assert len(json.loads(as_json.out)["rows"]) == 1
    assert "vega-lite" in Path("history.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("history.gif", "history.gif names no format of a chart"),
        ("no/history.png", "no/history.png cannot be written: No such file or directory"),
    ],
)
def test_a_chart_that_cannot_be_drawn_ends_with_2(run, record, planned, file, message):
    record(planned, "--value", step(planned, 1.0))
    outcome = run("history", "--chart", file)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err


def test_a_chart_of_nothing_ends_with_2(run, planned):
    outcome = run("history", "--chart", "history.html")
    assert outcome.code == 2
    assert "no recorded run matches" in outcome.err
    assert not Path("history.html").exists()


def test_a_chart_without_its_packages_says_what_to_install(run, record, planned, monkeypatch):
    record(planned, "--value", step(planned, 1.0))
    monkeypatch.setitem(sys.modules, "altair", None)
    outcome = run("history", "--chart", "history.html")
    assert outcome.code == 2
    assert "altair is not installed (pip install 'inference-planner[charts]')" in outcome.err
    assert run("history").code == 0


def test_three_runs_have_a_trend(run, record, planned):
    for times in (1.0, 1.1, 2.0):
        record(planned, "--value", step(planned, times))
    assert "▁▂█" in run("history").out  # 0.1 / 1.0 of 7 blocks up is the first above the lowest
