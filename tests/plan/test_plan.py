"""The plan as a value: identity, totals, memory verdicts, workloads, money, JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.diff import diff, side_by_side
from planner.plan.types import Plan
from planner.plan.values import plain, restore
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()


def question(**fields: str):
    base = {
        "model": "qwen2.5-7b-instruct",
        "gpu": "rtx-4090",
        "step": "{decode: {batch: 16, context: 4096}}",
    }
    text = "".join(f"{name}: {value}\n" for name, value in (base | fields).items() if value)
    return ask(load_text(text, "deploy.yaml"), CATALOG)


def plan(**fields: str) -> Plan:
    return assemble(question(**fields))


PLAN = plan()


def test_planning_twice_gives_the_same_plan_to_the_bit():
    assert plan() == PLAN


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"model": "qwen2.5-14b-instruct"}, "model"),
        ({"precision": "{kv_cache: fp8}"}, "precision"),
        ({"gpu": "l40s"}, "device"),
        ({"backend": "{name: vllm, flags: {enforce_eager: true}}"}, "backend"),
        ({"step": "{decode: {batch: 17, context: 4096}}"}, "workload"),
        ({"parallel": "{data: 2}"}, "parallel"),
    ],
)
def test_one_change_moves_one_part_of_the_identity(change, part):
    """A larger GPU also changes flag defaults, so the backend part may move with the device."""
    changed = plan(**change)
    moved = {name for name in PLAN.parts if PLAN.parts[name] != changed.parts[name]}
    assert part in moved
    assert moved <= {part, "backend"}
    assert changed.plan_id != PLAN.plan_id


@pytest.mark.parametrize("change", [{"name": "another"}, {"price": "9 USD/h"}])
def test_names_and_prices_are_no_part_of_the_identity(change):
    assert plan(**change).plan_id == PLAN.plan_id


def test_naming_a_default_changes_nothing():
    """The engine's own defaults written out ask the same question."""
    backend = '{name: vllm, version: "0.26", flags: {enforce_eager: false}}'
    assert plan(backend=backend).plan_id == PLAN.plan_id


def test_a_plan_survives_json():
    text = json.dumps(plain(PLAN), allow_nan=False)
    assert plain(restore(Plan, json.loads(text))) == json.loads(text)


def test_whole_model_intensity_reconciles_with_its_kernels():
    """Byte-weighted mean of the kernels' FLOP/byte is total FLOPs over total bytes."""
    flops = sum(k.repeat * k.matmul_flops for k in PLAN.kernels)
    moved = sum(k.repeat * k.hbm_bytes for k in PLAN.kernels)
    weighted = sum(
        k.repeat * k.hbm_bytes * (k.matmul_flops / k.hbm_bytes) for k in PLAN.kernels if k.hbm_bytes
    )
    assert PLAN.totals.flops_per_byte == pytest.approx(flops / moved)
    assert weighted / moved == pytest.approx(flops / moved)


def test_batch_one_decode_sits_at_one_flop_per_byte():
    """The seed: decode is about 1, though attention alone is about 7."""
    single = plan(step="{decode: {batch: 1, context: 512}}")
    assert single.totals.flops_per_byte == pytest.approx(1.0, abs=0.02)
    attention = next(n for n in single.nodes if n.id == "attention")
    # Q and O (2·28·128 elements) beside K and V (2·512·4·128): 7 · 512/(512 + 7).
    assert attention.flops_per_byte == pytest.approx(7 * 512 / 519)


def test_the_step_is_fixed_costs_plus_rooflines():
    """Full graph: the replay, every graph node and every kernel's roofline, plus kernels outside."""
    inside = sum(k.repeat * k.time_s for k in PLAN.kernels)
    assert PLAN.step.time_s == pytest.approx(inside + PLAN.step.fixed_s["replay_s"], rel=1e-3)


def test_the_bare_roofline_has_no_interval_and_is_the_lower_bound():
    bare = assemble(ask(question().deployment, CATALOG, "roofline"))
    assert (bare.step.low_s, bare.step.high_s) == (None, None)
    assert {kernel.evidence for kernel in bare.kernels} == {"datasheet"}
    assert bare.step.time_s < PLAN.step.time_s
    moved = {n for n in bare.parts if bare.parts[n] != PLAN.parts[n]}
    assert moved == {"cost_model", "calibration"}


def test_the_interval_holds_the_prediction():
    assert PLAN.step.low_s < PLAN.step.time_s < PLAN.step.high_s
    for kernel in PLAN.kernels:
        assert kernel.low_s <= kernel.time_s * 1.1
        assert kernel.high_s >= kernel.time_s * 0.9


def test_no_kernel_beats_its_own_roofline():
    for kernel in PLAN.kernels:
        assert kernel.time_s - kernel.fixed_s >= kernel.roofline_s * (1 - 1e-12)


def test_composites_are_not_counted_twice():
    shares = sum(n.share for n in PLAN.nodes if not n.composite)
    assert shares == pytest.approx(1.0)
    parts = [n for n in PLAN.nodes if n.id.startswith("attention.")]
    attention = next(n for n in PLAN.nodes if n.id == "attention")
    assert attention.matmul_flops == sum(n.matmul_flops for n in parts)
    assert attention.hbm_bytes < sum(n.hbm_bytes for n in parts)


def test_a_model_too_large_says_what_would_fit():
    """61 GiB of weights: 30.5 a GPU over two is too much for 24 GiB, 15.3 over four leaves room."""
    big = plan(model="qwen2.5-32b-instruct", step="{decode: {batch: 4, context: 4096}}")
    assert not big.memory.fits
    assert big.memory.missing_bytes > 0
    assert "parallel.tensor=4" in big.memory.nearest_fit
    assert any("does not fit" in note for note in big.notes)


def test_an_engine_without_weight_only_fp8_is_told_to_multiply_in_it_too():
    """14.8e9 parameters: 27.5 GiB in BF16 and half of that in FP8, on a GPU of 24 GiB."""
    text = (
        "model: qwen3-14b\ngpu: rtx-4090\nbackend: {name: tensorrt-llm}\n"
        "step: {decode: {batch: 1, context: 1024}}\n"
    )
    fits = assemble(ask(load_text(text, "d.yaml", "deployment"), CATALOG)).memory.nearest_fit
    assert "precision.weights=fp8 --set precision.activations=fp8" in fits
    assert "precision.weights=fp8" not in fits


@pytest.mark.parametrize("change", range(6))
def test_every_nearest_fit_does_fit(change):
    text = "{decode: {batch: 64, context: 4096}}"
    tight = plan(step=text)
    assert not tight.memory.fits
    if change >= len(tight.memory.nearest_fit):
        return
    from planner.spec.load import build
    from planner.spec.overrides import apply
    from planner.spec.source import compose
    from planner.spec.types import DeploymentSpec

    data, document = compose(
        f"model: qwen2.5-7b-instruct\ngpu: rtx-4090\nstep: {text}\n", "deploy.yaml"
    )
    data, document = apply(data, document, [tight.memory.nearest_fit[change]])
    assert assemble(ask(build(DeploymentSpec, data, document), CATALOG)).memory.fits


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(64, 16_384))
def test_the_largest_batch_fits_and_one_more_does_not(batch, context):
    found = plan(step=f"{{decode: {{batch: {batch}, context: {context}}}}}")
    most = found.memory.max_batch
    assert found.memory.fits == (batch <= most)
    longest = found.memory.max_context
    assert found.memory.fits == (context <= longest)


def test_data_replicas_share_the_batch():
    """32 sequences over two replicas plan as 16 on each: the same step, twice the GPUs."""
    two = plan(step="{decode: {batch: 32, context: 4096}}", parallel="{data: 2}", price="1 USD/h")
    assert two.step.time_s == PLAN.step.time_s
    assert two.cost.gpus == 2
    assert two.cost.per_million_tokens == pytest.approx(2 / 3600 * two.step.time_s / 32 * 1e6)


def test_tensor_parallel_halves_the_weights_of_a_rank():
    one = plan(model="llama-3.1-8b-instruct", gpu="h100-sxm")
    two = plan(model="llama-3.1-8b-instruct", gpu="h100-sxm", parallel="{tensor: 2}")
    # All but the norms (65 of 4096 elements, replicated) is cut in two.
    norms = 65 * 4096 * 2
    assert two.memory.weights_bytes == pytest.approx((one.memory.weights_bytes - norms) / 2 + norms)
    assert two.model == one.model
    assert any(k.link_bytes for k in two.kernels)


def test_tensor_parallel_that_does_not_divide_is_refused_at_its_place():
    with pytest.raises(SpecError) as caught:
        plan(model="qwen3-14b", gpu="h100-sxm", parallel="{tensor: 3}")
    fault = caught.value.faults[0]
    assert (fault.where.line, fault.where.file) == (4, "deploy.yaml")
    assert "40 heads of 128" in fault.message or "40" in fault.message


def test_fp8_on_a_gpu_without_it_is_weight_only_and_said():
    ampere = plan(
        model="llama-3.1-8b-instruct",
        gpu="a100-80gb-sxm",
        precision="{weights: fp8, activations: fp8}",
    )
    assert {n.dtype for n in ampere.nodes if n.op == "linear"} == {"bf16"}
    assert any("no fp8 matrix rate" in note for note in ampere.notes)


def test_mixed_steps_count_tokens_and_sequences_apart():
    """31 decodes and a chunk of 481 tokens: 512 rows for the GEMMs, 32 for the LM head."""
    mixed = plan(
        step="{mixed: [{count: 31, new_tokens: 1, kv_tokens: 1024}, "
        "{count: 1, new_tokens: 481, kv_tokens: 481}]}"
    )
    flops = {n.id: n.matmul_flops for n in mixed.nodes}
    assert flops["o_proj"] == 2 * 512 * 3584 * 3584
    assert flops["lm_head"] == 2 * 32 * 3584 * 152_064
    pairs = 31 * 1024 + 481 * 482 // 2
    assert flops["attention"] == 4 * 28 * 128 * pairs


def test_a_static_batch_is_prefill_plus_growing_decode():
    found = plan(step="", workload="{batch: 8, input: 512, output: 128}")
    work = found.workload
    assert work.latency_s == pytest.approx(work.ttft_s + 127 * work.tpot_s)
    assert work.output_tokens_per_s == pytest.approx(8 * 128 / work.latency_s)
    # 2048 tokens a step on a 24 GB card: four prompts of 512 at a time.
    assert work.prefill_steps == 2
    first = plan(step="{decode: {batch: 8, context: 513}}").step.time_s
    last = plan(step="{decode: {batch: 8, context: 639}}").step.time_s
    exposed_s = 0.16e-3  # vLLM schedules beside the GPU: of the host's work this alone shows
    assert first < work.tpot_s - exposed_s < last


def test_an_output_of_one_token_is_its_prefill():
    work = plan(step="", workload="{batch: 1, input: 64, output: 1}").workload
    assert work.tpot_s == 0
    assert work.latency_s == work.ttft_s


def test_a_diff_names_the_part_and_the_speed_up():
    other = plan(precision="{kv_cache: fp8}")
    change = diff(PLAN, other)
    assert "precision" in {c.part for c in change.parts}
    assert change.speed_up == pytest.approx(PLAN.step.time_s / other.step.time_s)
    assert not change.result_only


def test_a_diff_of_a_plan_with_itself_is_empty():
    change = diff(PLAN, PLAN)
    assert change.parts == change.flips == change.groups == ()
    assert change.speed_up == 1


def test_side_by_side_gives_the_ratios_to_follow():
    """H100 over RTX 4090: 3350/1008 of the bandwidth, 989.4/165.2 of the BF16 rate."""
    gpus = ("rtx-4090", "h100-sxm")
    columns = side_by_side(
        {name: plan(gpu=name) for name in gpus}, {name: CATALOG.find("gpu", name) for name in gpus}
    )
    assert columns[0].speed_up == 1
    assert columns[1].bandwidth_ratio == pytest.approx(3350 / 1008)
    assert columns[1].peak_ratio == pytest.approx(989.4 / 165.2, rel=1e-3)
    # Decode follows bandwidth: both GPUs reach much the same share of theirs.
    assert columns[1].speed_up == pytest.approx(columns[1].bandwidth_ratio, rel=0.15)


def test_a_graph_that_is_no_llm_plans_too():
    spec = load_text(
        "model: specs/models/small-cnn.yaml\ngpu: rtx-4090\nbackend: {name: pytorch-eager}\n"
        "step: {shapes: {batch: 64}}\n",
        "deploy.yaml",
    )
    found = assemble(ask(spec, CATALOG))
    assert found.step.tokens is None
    assert found.memory.fits
    assert found.memory.kv_bytes == 0
    assert math.isfinite(found.step.time_s)


def test_binding_no_dim_of_a_graph_is_a_fault_not_a_traceback():
    spec = load_text(
        "model: specs/models/small-cnn.yaml\ngpu: rtx-4090\nbackend: {name: pytorch-eager}\n"
        "step: {shapes: {btach: 64}}\n",
        "deploy.yaml",
    )
    with pytest.raises(SpecError) as caught:
        assemble(ask(spec, CATALOG))
    assert "batch" in str(caught.value)
    assert caught.value.faults[0].where.line == 4


def test_an_llm_step_for_a_cnn_is_a_fault():
    spec = load_text(
        "model: specs/models/small-cnn.yaml\ngpu: rtx-4090\nbackend: {name: pytorch-eager}\n"
        "step: {decode: {batch: 1, context: 1}}\n",
        "deploy.yaml",
    )
    with pytest.raises(SpecError) as caught:
        assemble(ask(spec, CATALOG))
    assert caught.value.faults[0].where.line == 4
