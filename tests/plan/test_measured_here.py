"""Calibrations measured here: host times, efficiencies and whole runs, as plans use them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from planner.capture.decide import fixed_costs
from planner.plan.advice import advise
from planner.plan.assemble import assemble
from planner.plan.load import decode
from planner.plan.prepare import prepare
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

DEPLOYMENT = """\
name: measured
model: qwen2.5-0.5b-instruct
gpu: h100-sxm
parallel: {{tensor: {tensor}}}
backend: {{name: {engine}}}
{rest}
"""
STEP = "step: {decode: {batch: 8, context: 1024}}"
HEAD = """\
kind: calibration
name: {name}
title: a machine of ours
gpu: {gpu}
backend: {engine}
date: "2026-11-30"
script: by hand
evidence: measured-here
"""
OVERLAY = "h100-sxm-vllm-runs"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "calibrations").mkdir()
    return tmp_path


def write(folder: Path, body: str, name=OVERLAY, gpu="h100-sxm", engine="vllm") -> None:
    text = HEAD.format(name=name, gpu=gpu, engine=engine) + body
    (folder / "calibrations" / f"{name}.yaml").write_text(text, encoding="utf-8")


def question(folder=None, *, tensor=1, engine="vllm", rest=STEP, cost_model="calibrated"):
    text = DEPLOYMENT.format(tensor=tensor, engine=engine, rest=rest)
    catalog = Catalog.standard((folder,) if folder else ())
    return ask(load_text(text, "deploy.yaml", "deployment"), catalog, cost_model)


def plan(folder=None, **changes):
    return assemble(question(folder, **changes))


# --- which calibration --------------------------------------------------------------------------


@pytest.mark.parametrize(("gpu", "engine"), [("h200-sxm", "vllm"), ("h100-sxm", "sglang")])
def test_another_gpu_or_engine_changes_nothing(folder, gpu, engine):
    write(folder, "host: {step: 1 ms}\n", gpu=gpu, engine=engine)
    assert plan(folder) == plan()


def test_the_fields_decide_not_the_name_of_the_file(folder):
    write(folder, "host: {step: 1 ms}\n", name="whatever")
    assert plan(folder).step.time_s == pytest.approx(plan().step.time_s + 1e-3)


def test_an_overlay_keeps_the_kernel_constants_that_ship(folder):
    write(folder, "host: {step: 1 ms}\n")
    found, before = plan(folder), plan()
    assert [k.time_s for k in found.kernels] == [k.time_s for k in before.kernels]
    assert "h100-sxm-vllm (calibrated)" in found.described["calibration"]
    assert f"{OVERLAY} (measured-here)" in found.described["calibration"]


def test_an_overlay_is_a_part_of_the_plans_identity(folder):
    write(folder, "host: {step: 1 ms}\n")
    found, before = plan(folder), plan()
    moved = {part for part in found.parts if found.parts[part] != before.parts[part]}
    assert moved == {"calibration"}


def test_the_bare_roofline_asks_no_calibration(folder):
    write(folder, "host: {step: 1 ms}\n")
    assert plan(folder, cost_model="roofline") == plan(cost_model="roofline")


def test_a_named_calibration_adjusts_whatever_its_gpu(folder):
    write(folder, "host: {step: 1 ms}\n", gpu="h200-sxm")
    named = f"{STEP}\ncalibration: {OVERLAY}"
    assert plan(folder, rest=named).step.time_s == pytest.approx(plan().step.time_s + 1e-3)


def test_a_calibration_named_by_its_path_is_that_calibration(folder):
    write(folder, "host: {step: 1 ms}\n", gpu="h200-sxm")
    path = folder / "calibrations" / f"{OVERLAY}.yaml"
    named = f"{STEP}\ncalibration: {path}"
    assert plan(rest=named).step.time_s == pytest.approx(plan().step.time_s + 1e-3)


def test_of_two_overlays_the_one_of_whole_runs_counts_first(folder):
    runs = (
        "runs: {count: 5, kinds: [decode], shortest: 1 ms, longest: 9 ms, "
        "q10: -0.1, q50: 0.0, q90: 0.1}\n"
    )
    write(folder, "host: {step: 1 ms, launch: 9 us}\n", name="a-machine")
    write(folder, f"host: {{step: 2 ms}}\n{runs}")
    costs = prepare(question(folder)).adjusted
    assert costs.host_s == {"step": 2e-3, "launch": 9e-6}
    assert OVERLAY in costs.sources["step"]
    assert "a-machine" in costs.sources["launch"]


def test_kernels_measured_here_come_before_those_that_ship(folder):
    entry = """\
kernels:
  elementwise.stream:
    source: ours
    rows: {read: 40, kept: 40, fitted: 40, held: 0}
    constants: {t0_s: 50 us}
    residuals: {rows: 40, q10: -0.1, q50: 0.0, q90: 0.1}
    errors: {rows: 40, median: 0.1, mean: 0.1, bias: 0.0, coverage: 0.8}
"""
    write(folder, entry)
    found = plan(folder)
    streams = [k for k in found.kernels if k.evidence == "measured-here"]
    assert streams
    assert all(k.fixed_s > 49.9e-6 for k in streams)
    assert {k.evidence for k in found.kernels} == {"measured-here", "calibrated"}


# --- fixed costs --------------------------------------------------------------------------------


def test_step_and_sequence_times_add_to_every_mode_and_rule_set(folder):
    """1 ms a step and 20 us for each of 8 sequences: 1.16 ms, whatever runs."""
    write(folder, "host: {step: 1 ms, sequence: 20 us}\n")
    found, before = plan(folder).step, plan().step
    more = 1e-3 + 8 * 20e-6
    assert found.time_s == pytest.approx(before.time_s + more)
    for mode, time in found.modes.items():
        assert time.time_s == pytest.approx(before.modes[mode].time_s + more)
    for name, row in found.rule_sets.items():
        assert row.time_s == pytest.approx(before.rule_sets[name].time_s + more)
    assert found.fixed_s["step_s"] == 1e-3
    assert found.fixed_s["sequence_s"] == pytest.approx(20e-6)
    assert OVERLAY in found.fixed_sources["sequence"]


def test_fixed_costs_without_overlay_name_the_documented_ones_alone():
    assert set(plan().step.fixed_s) == {"launch_s", "replay_s", "kernel_s", "graph_node_s"}


def test_a_static_batch_pays_them_in_each_of_its_steps(folder):
    """4 prompts of 512 share one prefill step, then 31 decode steps: 32 × (1 ms + 4 × 50 us)."""
    rest = "workload: {batch: 4, input: 512, output: 32}"
    write(folder, "host: {step: 1 ms, sequence: 50 us}\n")
    found, before = plan(folder, rest=rest).workload, plan(rest=rest).workload
    assert before.prefill_steps == 1
    assert found.ttft_s == pytest.approx(before.ttft_s + 1.2e-3)
    assert found.tpot_s == pytest.approx(before.tpot_s + 1.2e-3)
    assert found.latency_s == pytest.approx(before.latency_s + 32 * 1.2e-3)


def test_a_step_of_no_sequences_pays_for_the_step_alone():
    """A graph that is no LLM has no sequences."""
    prepared = prepare(question())
    costs = fixed_costs(prepared.engine("decode"))
    assert costs.beyond_s(None) == costs.step_s == 0.0


def test_advice_weighs_gains_against_the_whole_step(folder):
    """A second of host time in each step leaves no flag anything worth showing."""
    write(folder, "host: {step: 1 s}\n")
    shown = [row for row in advise(question(folder)) if "backend.flags" in row.change]
    assert shown == []


@pytest.mark.parametrize("engine", ["vllm", "pytorch-eager"])
def test_measured_costs_stand_in_for_documented_ones(folder, engine):
    write(folder, "host: {launch: 50 us, kernel: 3 us}\n", engine=engine)
    found = plan(folder, engine=engine).step
    assert found.fixed_s["launch_s"] == pytest.approx(50e-6)
    assert found.fixed_s["kernel_s"] == pytest.approx(3e-6)
    assert found.modes["eager"].time_s > plan(engine=engine).step.modes["eager"].time_s


def test_what_the_deployment_says_of_its_own_host_still_counts_first(folder):
    write(folder, "host: {launch: 50 us}\n")
    found = plan(folder, rest=f"{STEP}\nhost: {{launch: 7 us}}").step
    assert found.fixed_s["launch_s"] == 7e-6
    assert found.fixed_sources["launch"] == "the deployment's host.launch"


def test_each_launch_of_a_collective_takes_longer_by_its_time(folder):
    write(folder, "host: {collective: 10 us}\n")
    found, before = plan(folder, tensor=2), plan(tensor=2)
    linked = [k for k in found.kernels if k.link_bytes]
    assert linked
    same = {(k.block, k.nodes): k for k in before.kernels}
    for kernel in found.kernels:
        more = 10e-6 * kernel.launches if kernel.link_bytes else 0.0
        assert kernel.time_s == pytest.approx(same[kernel.block, kernel.nodes].time_s + more)
    assert plan(folder).step.time_s == plan().step.time_s


# --- efficiency ---------------------------------------------------------------------------------


def test_an_efficiency_multiplies_work_and_leaves_floors(folder):
    write(folder, "efficiency: {gemm: 1.5}\n")
    found, before = plan(folder), {(k.block, k.name): k for k in plan().kernels}
    here = [k for k in found.kernels if k.evidence == "measured-here"]
    assert {k.name for k in here} >= {"o_proj", "lm_head"}
    for kernel in here:
        was = before[kernel.block, kernel.name]
        assert kernel.fixed_s == pytest.approx(was.fixed_s)
        work_s = kernel.time_s - kernel.fixed_s
        assert work_s == pytest.approx(1.5 * (was.time_s - was.fixed_s))


def test_all_is_every_family_without_a_ratio_of_its_own(folder):
    write(folder, "efficiency: {all: 1.2, attention: 1.0}\n")
    assert prepare(question(folder)).adjusted.efficiency == {
        "gemm": 1.2, "attention": 1.0, "moe": 1.2, "elementwise": 1.2, "collective": 1.2,
    }  # fmt: skip


def test_no_efficiency_takes_a_kernel_below_its_roofline(folder):
    write(folder, "efficiency: {all: 0.01}\n")
    for kernel in plan(folder).kernels:
        assert kernel.time_s - kernel.fixed_s >= kernel.roofline_s * (1 - 1e-12)


def test_ones_and_noughts_change_no_time(folder):
    write(folder, "host: {step: 0 s, sequence: 0 s}\nefficiency: {all: 1.0}\n")
    assert plan(folder).step.modes == plan().step.modes


# --- intervals ----------------------------------------------------------------------------------

RUNS = (
    "runs: {{count: {count}, kinds: [{kind}], shortest: {shortest}, longest: 1 s, "
    "q10: -0.1, q50: 0.0, q90: 0.2}}\n"
)


def test_enough_runs_of_such_steps_make_the_interval(folder):
    write(folder, RUNS.format(count=5, kind="decode", shortest="100 us"))
    step = plan(folder).step
    assert step.low_s == pytest.approx(step.time_s * math.exp(-0.1))
    assert step.high_s == pytest.approx(step.time_s * math.exp(0.2))


@pytest.mark.parametrize(
    ("count", "kind", "shortest"),
    [(4, "decode", "100 us"), (5, "prefill", "100 us"), (5, "decode", "500 ms")],
)
def test_few_runs_or_other_steps_leave_the_wider_interval(folder, count, kind, shortest):
    write(folder, RUNS.format(count=count, kind=kind, shortest=shortest))
    step, kernels = plan(folder).step, plan().step
    assert step.low_s == min(kernels.low_s, step.time_s * math.exp(-0.1))
    assert step.high_s == max(kernels.high_s, step.time_s * math.exp(0.2))


def test_an_efficiency_makes_borrowed_constants_no_surer(folder):
    """RTX 4090 has no constants of its own: a ratio of 1 leaves its interval as it was."""
    chat = DEPLOYMENT.format(tensor=1, engine="vllm", rest=STEP).replace("h100-sxm", "rtx-4090")
    deployment = load_text(chat, "deploy.yaml", "deployment")
    write(folder, "efficiency: {all: 1.0}\n", gpu="rtx-4090")
    before = assemble(ask(deployment, Catalog.standard())).step
    found = assemble(ask(deployment, Catalog.standard((folder,)))).step
    assert (found.low_s, found.high_s) == (before.low_s, before.high_s)


def test_runs_of_another_version_are_told(folder):
    runs = RUNS.format(count=5, kind="decode", shortest="100 us").rstrip().removesuffix("}")
    write(folder, f'{runs}, versions: ["0.1"]}}\n')
    assert any("vLLM 0.1" in note for note in plan(folder).notes)


def test_runs_of_a_patch_of_the_version_are_its_own(folder):
    runs = RUNS.format(count=5, kind="decode", shortest="100 us").rstrip().removesuffix("}")
    version = prepare(question()).engine("decode").version
    write(folder, f'{runs}, versions: ["{version}.3"]}}\n')
    assert plan(folder).notes == plan().notes


def test_decode_of_more_sequences_pays_more(folder):
    write(folder, "host: {sequence: 20 us}\n")
    prepared = prepare(question(folder))
    costs = fixed_costs(prepared.engine("decode"), None, prepared.adjusted)
    assert costs.beyond_s(decode(16, 512).sequences) == pytest.approx(16 * 20e-6)
