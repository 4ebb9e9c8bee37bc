"""`planner calibrate from-runs`: from recorded runs to plans that are nearer to them."""

from __future__ import annotations

import json
import math

import pytest

from planner.spec.load import load_file

BATCHES = (1, 8, 32, 64, 128)


@pytest.fixture
def planned(run, deployment):
    """The plan of a batch, kept in the store unless told otherwise."""

    def _planned(batch, *words, file=deployment):
        sets = ("--set", f"step.decode.batch={batch}", "--no-advice", "--json")
        return json.loads(run("plan", file, *sets, *words).out)

    return _planned


def real_s(plan):
    """A machine 10 % slower than planned, with a millisecond of host time in each step."""
    return 1.1 * plan["step"]["time_s"] + 1e-3


@pytest.fixture
def record(run, planned):
    """Records a run of each batch on that machine."""

    def _record(*batches, times=1.0):
        for batch in batches:
            plan = planned(batch)
            value = f"{times * real_s(plan)} s"
            assert run("record", plan["plan_id"], "--value", value, "--metric", "step").code == 0

    return _record


def test_from_recorded_runs_to_a_nearer_plan(run, planned, record, tmp_path):
    record(*BATCHES)
    folder = str(tmp_path / "team")
    (tmp_path / "team").mkdir()
    outcome = run("calibrate", "from-runs", "--catalog", folder, "--json")
    assert outcome.code == 0
    document = json.loads(outcome.out)
    (learnt,) = document["learnt"]
    assert learnt["errors"]["left_out"] < 0.2 * learnt["errors"]["before"]
    assert learnt["file"] == f"{folder}/calibrations/rtx-4090-vllm-runs.yaml"

    fresh = 16
    real, before = real_s(planned(fresh, "--no-save")), planned(fresh, "--no-save")["step"]
    after = planned(fresh, "--no-save", "--catalog", folder)
    step = after["step"]
    assert abs(math.log(real / step["time_s"])) < 0.1 * abs(math.log(real / before["time_s"]))
    # five runs: their errors alone make the interval
    assert step["low_s"] == pytest.approx(step["time_s"] * math.exp(learnt["interval"]["q10"]))
    assert step["high_s"] == pytest.approx(step["time_s"] * math.exp(learnt["interval"]["q90"]))
    assert "rtx-4090-vllm-runs (measured-here)" in after["described"]["calibration"]
    if any(name.startswith("efficiency") for name in learnt["terms"]):
        assert "measured-here" in {kernel["evidence"] for kernel in after["kernels"]}


def test_a_dry_run_writes_nothing(run, record, tmp_path):
    record(*BATCHES[:3])
    outcome = run("calibrate", "from-runs", "--dry-run")
    assert outcome.code == 0
    assert "not written (dry run)" in outcome.out
    assert not (tmp_path / "calibrations").exists()


def test_the_table_shows_each_plan_before_left_out_and_after(run, planned, record, tmp_path):
    record(*BATCHES[:4])
    outcome = run("calibrate", "from-runs", "--out", str(tmp_path / "out"))
    assert outcome.code == 0
    for batch in BATCHES[:4]:
        plan = planned(batch, "--no-save")
        line = next(row for row in outcome.out.splitlines() if plan["plan_id"] in row)
        assert "qwen2.5-0.5b-instruct" in line
        assert f"{real_s(plan) / plan['step']['time_s']:.2f}" in line
    assert "80 % interval of a step from these runs" in outcome.out
    assert (tmp_path / "out" / "rtx-4090-vllm-runs.yaml").exists()


def test_runs_of_some_plans_alone(run, planned, record, tmp_path):
    record(*BATCHES)
    ids = [planned(batch, "--no-save")["plan_id"] for batch in BATCHES[:3]]
    words = [word for each in ids for word in ("--plan", each[:8])]
    outcome = run("calibrate", "from-runs", *words, "--json", "--date", "2026-11-30")
    (learnt,) = json.loads(outcome.out)["learnt"]
    assert {row["plan_id"] for row in learnt["runs"]} == set(ids)
    spec = load_file(tmp_path / "calibrations" / "rtx-4090-vllm-runs.yaml")
    assert all(f"--plan {each[:8]}" in spec.script for each in ids)
    assert spec.date == "2026-11-30"


@pytest.mark.parametrize("words", [("--gpu", "h100-sxm"), ("--engine", "sglang")])
def test_other_gpus_and_engines_are_left_out(run, record, words):
    record(*BATCHES[:3])
    outcome = run("calibrate", "from-runs", *words)
    assert outcome.code == 2
    assert outcome.err == "no recorded run to learn from (`planner record PLAN FILE` keeps one)\n"


def test_too_few_runs_end_with_2_and_what_would_help(run, record):
    record(8, 32)
    outcome = run("calibrate", "from-runs")
    assert outcome.code == 2
    assert "3 plans with runs are needed" in outcome.err
    assert "rtx-4090 under vllm has runs of 2 plans" in outcome.err
    assert "another context" in outcome.err
    assert "another batch" not in outcome.err


def test_runs_that_cannot_be_are_listed_beside_what_was_learnt(run, record, planned):
    record(*BATCHES[:3])
    plan = planned(4)
    impossible = f"{plan['step']['time_s'] / 20} s"
    kept = json.loads(run("record", plan["plan_id"], "--value", impossible, "--json").out)
    outcome = run("calibrate", "from-runs", "--dry-run")
    assert outcome.code == 0
    assert f"{kept['run_id']}: " in outcome.out
    skipped = json.loads(run("calibrate", "from-runs", "--dry-run", "--json").out)["skipped"]
    assert [each["run_id"] for each in skipped] == [kept["run_id"]]


def test_only_runs_that_cannot_be_end_with_2(run, planned):
    plan = planned(4)
    run("record", plan["plan_id"], "--value", f"{plan['step']['time_s'] / 20} s")
    outcome = run("calibrate", "from-runs")
    assert outcome.code == 2
    assert "none of 1 recorded runs can be learnt from" in outcome.err


def test_plans_that_used_the_file_teach_the_same_again(run, planned, record, tmp_path):
    record(*BATCHES)
    (tmp_path / "team").mkdir()
    words = ("calibrate", "from-runs", "--catalog", str(tmp_path / "team"), "--json")
    first = json.loads(run(*words).out)
    plan = planned(1, "--catalog", str(tmp_path / "team"))
    value = f"{real_s(planned(1, '--no-save'))} s"
    assert run("record", plan["plan_id"], "--value", value).code == 0
    again = json.loads(run(*words).out)
    assert len(again["learnt"][0]["runs"]) == len(BATCHES)
    assert again["learnt"][0]["parameters"] == first["learnt"][0]["parameters"]


TABLE = """\
id,model,gpu,step.decode.batch,step.decode.context,measured.step_ms
{rows}
"""


def test_a_table_of_cases_teaches_as_recorded_runs_do(run, planned, record, tmp_path):
    rows = [
        f"b{batch},qwen2.5-0.5b-instruct,rtx-4090,{batch},1024,"
        f"{1e3 * real_s(planned(batch, '--no-save'))!r}"
        for batch in BATCHES
    ]
    (tmp_path / "runs.csv").write_text(TABLE.format(rows="\n".join(rows)), encoding="utf-8")
    words = ("calibrate", "from-runs", "--dry-run", "--json")
    from_table = json.loads(run(*words, "--source", "runs.csv").out)["learnt"][0]
    assert [row["run_ids"] for row in from_table["runs"]] == [[f"b{batch}"] for batch in BATCHES]
    record(*BATCHES)
    recorded = json.loads(run(*words).out)["learnt"][0]
    for one, other in zip(from_table["parameters"], recorded["parameters"], strict=True):
        assert one.pop("name") == other.pop("name")
        assert one == pytest.approx(other, rel=1e-6)


def test_faults_of_a_table_are_told_at_their_places(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "a,no-model,rtx-4090,1,1024,2.0\nb,qwen2.5-0.5b-instruct,rtx-4090,x,1024,2.0"
    (tmp_path / "runs.csv").write_text(TABLE.format(rows=rows), encoding="utf-8")
    outcome = run("calibrate", "from-runs", "--source", "runs.csv")
    assert outcome.code == 2
    assert "runs.csv:2:" in outcome.err
    assert "runs.csv:3:" in outcome.err
