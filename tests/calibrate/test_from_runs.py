"""Learning from whole runs: real plans, runs of a machine of known overheads, the file written."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from planner.calibrate.choice import LEAST
from planner.calibrate.from_runs import learn, with_calibration
from planner.calibrate.overheads import ALL, SCALES, STEP
from planner.calibrate.runs_file import _quantiles, _student_tenth, text, write
from planner.calibrate.steps import figure_steps, figure_wall, step_parts
from planner.calibrate.whole_runs import Recorded, base_question, figures, gather
from planner.cost.adjust import FAMILIES
from planner.errors import UsageError
from planner.plan.assemble import assemble
from planner.plan.expected import cost, expected
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.runs import Metric, Run, Source
from planner.plan.workload import decode_steps
from planner.spec.again import deployment_again
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Measured as Lender
from planner.spec.question import ask
from planner.spec.types import Workload

CATALOG = Catalog.standard()
DEPLOYMENT = """\
name: small
model: qwen2.5-0.5b-instruct
gpu: h100-sxm
backend: {{name: {engine}}}
parallel: {{tensor: {tensor}}}
price: 2.5 USD/h
host: {{launch: 4.5 us}}
{load}
"""
MACHINE = """\
kind: calibration
name: machine
title: a machine of known overheads
gpu: h100-sxm
backend: {engine}
date: "2026-11-30"
script: by hand
host: {{step: 700 us, sequence: 9 us}}
efficiency: {{all: 1.12}}
"""


def question(load, engine="vllm", tensor=1, catalog=CATALOG):
    given = DEPLOYMENT.format(engine=engine, tensor=tensor, load=load)
    return ask(load_text(given, "deploy.yaml", "deployment"), catalog)


def decode(batch, context=1024):
    return f"step: {{decode: {{batch: {batch}, context: {context}}}}}"


def static(batch, prompt=512, output=64):
    return f"workload: {{batch: {batch}, input: {prompt}, output: {output}}}"


def machine(engine="vllm"):
    return load_text(MACHINE.format(engine=engine), "machine.yaml", "calibration")


def on(asked, spec):
    """The plan on a machine of known overheads: what it would measure."""
    lender = Lender(spec, asked.gpu.architecture, asked.gpu.capability)
    return assemble(replace(asked, calibrations=(lender, *asked.calibrations)))


def recorded(plan, *metrics, run_id="r", **context):
    run = Run(Source("value", "hand", "0" * 64, 1), tuple(metrics), {}, context)
    return Recorded(run_id, plan, run, "2026-11-30")


def ran(asked, spec, name="step", times=1.0, run_id="r"):
    """A run of a plan on a machine."""
    value = next(e.value for e in expected(on(asked, spec)) if e.metric == name)
    return recorded(assemble(asked), Metric(name, "mean", value * times), run_id=run_id)


BATCHES = (1, 4, 16, 64)


def learnt(runs, catalog=CATALOG):
    return learn(runs, catalog, date="2026-11-30", script="learn {gpu} {engine}")


# --- figures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["vllm", "pytorch-eager"])
@pytest.mark.parametrize(
    ("load", "names"),
    [
        (decode(4), ["step"]),
        (decode(4), ["tpot"]),
        ("step: {prefill: {batch: 2, tokens: 512}}", ["step"]),
        (static(4), ["latency", "tpot"]),
        (static(2, output=1), ["latency"]),
        (static(3, output=2), ["output_throughput"]),
        (static(2, prompt=20_000, output=4), ["total_throughput", "tpot"]),
    ],
)
def test_a_figures_steps_add_up_to_what_the_plan_predicts(engine, load, names):
    plan = assemble(question(load, engine))
    predicted = {e.metric: e.value for e in expected(plan)}
    run = recorded(plan, *(Metric(name, "mean", predicted[name]) for name in names))
    cells, skipped = gather([run], CATALOG)
    assert skipped == []
    data = figures(cells["h100-sxm", engine])
    again, _ = data.predict((), np.zeros(0))
    # a throughput of W tokens stands for the seconds of its latency
    seconds = [
        predicted[name] if "throughput" not in name else plan.workload.latency_s for name in names
    ]
    assert again == pytest.approx(seconds)
    assert data.measured_s == pytest.approx(again)
    assert data.share == pytest.approx([1 / len(names)] * len(names))


@pytest.mark.parametrize(
    ("load", "engine", "off"),
    [(decode(4), "vllm", 1e-9), (static(4), "vllm", 1e-9), (decode(64), "pytorch-eager", 0.02)],
)
def test_what_is_learnt_on_parts_is_what_a_plan_makes_of_it(load, engine, off):
    """Ratio, step and sequence time tried on parts, and the same in a calibration of a plan.

    Where the host is behind, parts see the work through one slope: within 2 %.
    """
    asked = question(load, engine)
    name = "latency" if asked.deployment.workload else "step"
    cells, _ = gather([ran(asked, machine(engine), name)], CATALOG)
    data = figures(cells["h100-sxm", engine])
    z = np.array(
        [math.log(1.12) / SCALES[ALL], 700e-6 / SCALES[STEP], 9e-6 / SCALES["host.sequence"]]
    )
    found, _ = data.predict((ALL, STEP, "host.sequence"), z)
    assert found == pytest.approx(data.measured_s, rel=max(off, 1e-6))


def test_a_step_of_a_batch_holds_the_loop_of_its_engine_and_a_lone_step_does_not():
    """vLLM 0.6: 2.5 ms and 20 us a sequence, 2.58 ms at four, on every decode step."""
    asked = ask(
        load_text(
            f"model: qwen2.5-0.5b-instruct\ngpu: h100-sxm\n"
            f"backend: {{name: vllm, version: '0.6'}}\n{static(4, output=2)}\n",
            "deploy.yaml",
        ),
        CATALOG,
    )
    prepared = prepare(asked)
    ((load, _),) = figure_steps(prepared, "tpot")
    alone = step_parts(prepared, load, figure_wall(prepared, "step"))
    inside = step_parts(prepared, load, figure_wall(prepared, "tpot"))
    assert inside.time_s - alone.time_s == pytest.approx(2.58e-3)
    assert inside.slope == pytest.approx(alone.slope)


def test_experts_are_a_family_of_their_own():
    given = f"model: olmoe-1b-7b\ngpu: h100-sxm\nbackend: {{name: vllm}}\n{decode(4)}\n"
    asked = ask(load_text(given, "deploy.yaml"), CATALOG)
    parts = step_parts(prepare(asked), step_load(asked.deployment))
    assert FAMILIES.index("moe") in parts.family


def test_weights_of_decode_steps_add_up_to_all_of_them():
    for output in (2, 3, 4, 6, 64, 1000):
        steps = decode_steps(2, Workload(batch=2, input=100, output=output))
        assert sum(count for _, count in steps) == pytest.approx(output - 1)
    assert decode_steps(2, Workload(batch=2, input=100, output=1)) == []


def test_a_deployment_is_asked_again_with_its_quantities():
    asked = question(decode(4))
    plan = assemble(asked)
    again = deployment_again(plan.deployment, "plan")
    assert again.model_dump() == asked.deployment.model_dump()
    assert assemble(base_question(plan, CATALOG)) == plan


# --- which runs ---------------------------------------------------------------------------------


def test_runs_of_one_plan_are_repeats_and_their_median_counts():
    asked = question(decode(4))
    runs = [ran(asked, machine(), times=t, run_id=str(t)) for t in (1.0, 1.04, 5.0)]
    (measured,) = gather(runs, CATALOG)[0]["h100-sxm", "vllm"]
    assert [run.run_id for run in measured.recorded] == ["1.0", "1.04", "5.0"]
    real = on(asked, machine()).step.time_s
    assert measured.value("step") == pytest.approx(1.04 * real)
    # distances of the logs from their median: log 1.04, 0, log(5/1.04); the middle is log 1.04
    assert measured.spread == pytest.approx(1.4826 * math.log(1.04) / math.sqrt(3))


def test_runs_that_say_nothing_of_their_plan_are_left_out_and_listed():
    plan = assemble(question(decode(4)))
    step_s = plan.step.time_s
    runs = [
        recorded(plan, Metric("step", "mean", step_s), run_id="other", gpu="NVIDIA A100"),
        recorded(plan, Metric("step", "mean", step_s / 10), run_id="impossible"),
        recorded(plan, Metric("ttft", "mean", 1.0), run_id="ttft"),
        recorded(plan, Metric("step", "p99", step_s), run_id="p99"),
        recorded(
            plan, Metric("tpot", "mean", step_s), run_id="served", **{"workload.concurrency": 4}
        ),
    ]
    cells, skipped = gather(runs, CATALOG)
    assert cells == {}
    reasons = {each.run_id: each.reason for each in skipped}
    assert "device" in reasons["other"]
    assert "roofline" in reasons["impossible"]
    assert "predicts none of it" in reasons["ttft"]
    assert "no mean or median" in reasons["p99"] or "predicts" in reasons["p99"]
    assert "prefills of other requests" in reasons["served"]


def test_a_plan_that_cannot_be_made_again_is_listed():
    plan = assemble(question(decode(4)))
    gone = replace(plan, deployment={**plan.deployment, "model": "gone"})
    _, skipped = gather([recorded(gone, Metric("step", "mean", 1e-3))], CATALOG)
    assert "cannot be made again" in skipped[0].reason
    assert "gone" in skipped[0].reason


# --- learning -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    """What four batches on the machine teach."""
    runs = [ran(question(decode(b)), machine(), run_id=f"r{b}") for b in BATCHES]
    return learnt(runs).learnt[0]


def test_runs_left_out_are_predicted_better_than_before(found):
    """As planned a step of 2 ms is 30 to 50 % off: 0.7 ms, 9 us a sequence, 12 % of the work."""
    assert found.errors.before > 0.2
    assert found.errors.left_out < 0.25 * found.errors.before
    assert found.errors.after <= found.errors.left_out


def test_the_file_says_what_it_was_made_of(found):
    spec = load_text(text(found.calibration), "x.yaml", "calibration")
    assert spec.model_dump() == found.calibration.model_dump()
    assert (spec.gpu, spec.backend, spec.evidence) == ("h100-sxm", "vllm", "measured-here")
    assert spec.script == "learn h100-sxm vllm"
    assert spec.runs.ids == ("r1", "r4", "r16", "r64")
    assert spec.runs.count == len(BATCHES)
    assert spec.runs.dates == ("2026-11-30",)
    assert spec.runs.kinds == ("decode",)
    assert spec.runs.shortest < spec.runs.longest


def test_a_plan_with_the_file_is_nearer_to_a_batch_never_run(found):
    asked = question(decode(32))
    real = on(asked, machine()).step.time_s
    before, after = assemble(asked).step, on(asked, found.calibration).step
    assert abs(math.log(real / after.time_s)) < 0.3 * abs(math.log(real / before.time_s))
    assert after.low_s < real < after.high_s


def test_what_was_learnt_is_told_by_parameter(found):
    assert {p.name for p in found.parameters} == set(found.terms)
    for parameter in found.parameters:
        assert parameter.low <= parameter.value <= parameter.high
    assert found.tried[0].terms == ()


def test_after_is_what_the_plan_predicts_with_the_file(found):
    first = found.runs[0]
    asked = question(decode(1))
    assert first.after == pytest.approx(first.measured / on(asked, found.calibration).step.time_s)
    assert first.before == pytest.approx(first.measured / first.predicted)


def test_what_was_learnt_before_is_not_learnt_upon(found, tmp_path):
    """Plans made with the file teach the same again."""
    write(tmp_path / "calibrations", found.calibration)
    catalog = Catalog.standard((tmp_path,))
    runs = []
    for batch in BATCHES:
        stored = assemble(question(decode(batch), catalog=catalog))
        assert "host.step" not in found.terms or "step_s" in stored.step.fixed_s
        real = ran(question(decode(batch)), machine(), run_id=f"r{batch}")
        runs.append(replace(real, plan=stored))
    again = learnt(runs, catalog).learnt[0].calibration
    assert again.model_dump() == found.calibration.model_dump()


def test_figures_of_another_overlay_are_kept_under_what_is_learnt(tmp_path):
    """A file of the machine's own 700 us and 12 %: runs there teach no more, and lose nothing."""
    (tmp_path / "calibrations").mkdir()
    (tmp_path / "calibrations" / "machine.yaml").write_text(MACHINE.format(engine="vllm"))
    catalog = Catalog.standard((tmp_path,))
    runs = [ran(question(decode(b)), machine(), times=1.3, run_id=f"r{b}") for b in BATCHES]
    spec = learnt(runs, catalog).learnt[0].calibration
    real = on(question(decode(32)), machine()).step.time_s * 1.3
    write(tmp_path / "calibrations", spec)
    again = assemble(question(decode(32), catalog=Catalog.standard((tmp_path,)))).step.time_s
    assert again == pytest.approx(real, rel=0.06)
    assert spec.efficiency or spec.host


def test_plans_that_are_right_get_an_interval_and_nothing_else():
    runs = [
        recorded(plan, Metric("step", "mean", plan.step.time_s), run_id=str(b))
        for b in (1, 2, 8, 32, 128)
        for plan in [assemble(question(decode(b)))]
    ]
    spec = learnt(runs).learnt[0].calibration
    assert spec.host is None
    assert spec.efficiency == {}
    step = on(question(decode(4)), spec).step
    # five runs that are right and two at 5 %: 5 % · √(2/7), Student's with 6 degrees, √(1 + 1/5)
    half = 0.05 * math.sqrt(2 / 7) * 1.440 * math.sqrt(1.2)
    assert step.low_s == pytest.approx(step.time_s * math.exp(-half), rel=1e-3)
    assert step.high_s == pytest.approx(step.time_s * math.exp(half), rel=1e-3)


@pytest.mark.parametrize("count", [1, LEAST - 1])
def test_too_few_plans_say_what_would_help(count):
    runs = [ran(question(decode(8, c)), machine()) for c in (512, 2048)[:count]]
    result = learnt(runs)
    assert result.learnt == ()
    (lacking,) = result.lacking
    assert lacking.plans == count
    assert "another batch" in lacking.hint
    assert "another parallel.tensor" in lacking.hint
    assert ("another context" in lacking.hint) == (count == 1)


def test_gpus_and_engines_are_learnt_apart():
    runs = [ran(question(decode(b)), machine()) for b in BATCHES]
    runs += [ran(question(decode(b), "sglang"), machine("sglang")) for b in BATCHES[:2]]
    result = learnt(runs)
    assert [(e.gpu, e.backend) for e in result.learnt] == [("h100-sxm", "vllm")]
    assert [(e.gpu, e.backend) for e in result.lacking] == [("h100-sxm", "sglang")]


def test_static_batches_teach_what_steps_do():
    runs = [ran(question(static(b)), machine(), "latency", run_id=f"r{b}") for b in BATCHES]
    found = learnt(runs).learnt[0]
    asked = question(static(32))
    real = on(asked, machine()).workload.latency_s
    again = on(asked, found.calibration).workload.latency_s
    assert again == pytest.approx(real, rel=0.05)
    assert set(found.calibration.runs.kinds) == {"prefill", "decode"}


def test_a_throughput_counts_as_the_time_of_its_tokens():
    asked = question(static(8))
    run = ran(asked, machine(), "output_throughput")
    (measured,) = gather([run], CATALOG)[0]["h100-sxm", "vllm"]
    ratio = on(asked, machine()).workload.latency_s / assemble(asked).workload.latency_s
    assert measured.ratios["output_throughput"] == pytest.approx((ratio,))
    assert measured.value("output_throughput") == pytest.approx(run.run.metrics[0].value)
    assert cost("output_throughput", measured.value("output_throughput")) > 0


def test_an_overlay_is_put_before_the_calibrations_of_a_plan(found):
    (measured,) = gather([ran(question(decode(4)), machine())], CATALOG)[0]["h100-sxm", "vllm"]
    asked = with_calibration(measured.question, found.calibration)
    assert asked.calibrations[0].calibration == found.calibration


# --- files and numbers --------------------------------------------------------------------------


def test_a_file_that_is_not_from_runs_is_not_written_over(found, tmp_path):
    file = tmp_path / "h100-sxm-vllm-runs.yaml"
    other = MACHINE.format(engine="vllm").replace("name: machine", "name: h100-sxm-vllm-runs")
    file.write_text(other, encoding="utf-8")
    with pytest.raises(UsageError, match="was not made from runs"):
        write(tmp_path, found.calibration)
    assert file.read_text(encoding="utf-8") == other


def test_a_folder_that_cannot_be_is_told(found, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        write(tmp_path / "file", found.calibration)


@pytest.mark.parametrize(
    ("freedom", "tenth"), [(4, 1.533), (5, 1.476), (6, 1.440), (9, 1.383), (30, 1.310)]
)
def test_students_quantiles_are_those_of_the_tables(freedom, tenth):
    """Any table of Student's t at 0.90, one-sided."""
    assert _student_tenth(freedom) == pytest.approx(tenth, rel=0.01)


def test_the_interval_of_a_further_run_holds_the_runs_seen():
    logs = np.array([-0.02, 0.0, 0.01, 0.03, 0.02])
    low, middle, high = _quantiles(logs)
    assert middle == pytest.approx(0.01)
    assert low < logs.min()
    assert high > logs.max()
