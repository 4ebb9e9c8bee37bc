"""Measured kernels against a plan: Llama 3.1 8B on an H100, 32 layers, batch 8."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import UsageError
from planner.plan.assemble import assemble
from planner.plan.kernel_groups import possible
from planner.plan.kernel_match import match
from planner.plan.runs import KernelStep, KernelTime, Metric, Run, Source, TracedSteps
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

LAYERS = 32
SOURCE = Source("torch_trace", "PyTorch profiler", "ab" * 32, 100)
US = 1e-6
GEMM = "nvjet_tst_64x8_64x16_4x1_v_bz_TNT"
NORM = "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0"
NAMES = {
    "embed_tokens": "void at::native::vectorized_gather_kernel<16, long>",
    "input_norm": NORM,
    "qkv-merge": GEMM,
    "rope": "triton_poi_fused_add_cat_index_mul_split_sub_unsqueeze_view_1",
    "kv_cache_write": "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>",
    "flash-attention-3": "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90>>",
    "o_proj": GEMM,
    "gate-up-merge": GEMM,
    "down_proj": GEMM,
    "lm_head": GEMM,
    "select_last": "void at::native::index_elementwise_kernel<128, 4>",
    "sampling": "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<ArgMaxOps<float>>>",
}
"""As vLLM calls the kernels, by the plan's; those that Inductor fused go by their nodes."""
FUSED = {"act": "triton_poi_fused_mul_silu_slice_2", "attention_residual": NORM}
FUSED |= {"mlp_residual": NORM}


@cache
def plan():
    text = """
model: llama-3.1-8b-instruct
gpu: h100-sxm
backend: {name: vllm, version: "0.26"}
step: {decode: {batch: 8, context: 1100}}
"""
    return assemble(ask(load_text(text, "deploy.yaml"), Catalog.standard()))


def trace_name(row):
    return FUSED[row.nodes[0]] if row.name == "inductor" else NAMES[row.name]


def launched(times_s=None):
    """One step in order: each kernel once, as long as planned or as ``times_s`` says by position."""
    given_s = times_s or {}
    return [
        KernelStep(trace_name(row), given_s.get(kernel, row.time_s))
        for each in plan().order
        for kernel in each.kernels * each.times
        for row in [plan().kernels[kernel]]
    ]


def run(sequence=(), kernels=None, steps=10, wall_s=None):
    """A run of some steps; totals are those of the sequence unless given."""
    totals = {}
    for one in sequence:
        calls, time_s = totals.get(one.name, (0, 0.0))
        totals[one.name] = (calls + steps, time_s + steps * one.time_s)
    kernels = kernels or tuple(KernelTime(name, *both) for name, both in totals.items())
    busy_s = sum(one.time_s for one in sequence) or None
    traced = TracedSteps(steps, steps, "argmax", tuple(sequence), wall_s, busy_s)
    return Run(SOURCE, (), kernels=kernels, traced=traced)


def row_of(found, *nodes):
    (row,) = [row for row in found.rows if row.nodes == nodes]
    return row


def test_the_plan_keeps_its_order_of_execution():
    """Every kernel as often as it repeats; embedding first, sampling last; 32 × qkv … down."""
    places = [kernel for each in plan().order for kernel in each.kernels * each.times]
    rows = plan().kernels
    assert {kernel: places.count(kernel) for kernel in places} == {
        kernel: row.repeat for kernel, row in enumerate(rows)
    }
    assert rows[places[0]].name == "embed_tokens"
    assert rows[places[-1]].name == "sampling"
    gemms = [rows[kernel].name for kernel in places if trace_name(rows[kernel]) == GEMM]
    assert gemms == ["qkv-merge", "o_proj", "gate-up-merge", "down_proj"] * LAYERS + ["lm_head"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(1e-6, 1e-3), min_size=16, max_size=16))
def test_in_order_every_kernel_finds_its_own_time_whatever_it_took(times_s):
    """Five kernels are called nvjet and four triton_red: order alone tells them apart."""
    given_s = dict(enumerate(times_s))
    found = match(run(launched(given_s)), plan())
    assert found.ordered
    assert not found.unmatched
    assert not found.missing
    for row in found.rows:
        (kernel,) = row.kernels
        assert row.found == row.planned == plan().kernels[kernel].repeat
        assert row.each_s == pytest.approx(given_s[kernel])
        assert row.measured_s == pytest.approx(row.planned * given_s[kernel])
        assert row.difference_s == pytest.approx(row.measured_s - row.predicted_s)
    off = [abs(row.difference_s) for row in found.rows]
    assert off == sorted(off, reverse=True)
    assert sum(row.measured_s for row in found.rows) == pytest.approx(found.kernels_s)


def test_a_kernel_as_planned_is_inside_and_one_three_times_as_long_is_not():
    position = next(n for n, row in enumerate(plan().kernels) if row.name == "down_proj")
    planned_s = plan().kernels[position].time_s
    found = match(run(launched({position: 3 * planned_s})), plan())
    worst = found.rows[0]
    assert worst.nodes == ("down_proj",)
    assert worst.ratio == pytest.approx(3)
    assert worst.inside is False
    assert worst.difference_s == pytest.approx(LAYERS * 2 * planned_s)
    assert row_of(found, "o_proj").inside is True


def test_strangers_stay_unmatched_and_what_did_not_run_is_missing():
    """A memset of 5 us in each layer, and no KV-cache write: as a fused kernel would have it."""
    sequence = []
    for one in launched():
        if "reshape_and_cache" in one.name:
            sequence.append(KernelStep("Memset (Device)", 5 * US))
        else:
            sequence.append(one)
    found = match(run(sequence), plan())
    (stranger,) = found.unmatched
    assert (stranger.name, stranger.launches) == ("Memset (Device)", LAYERS)
    assert stranger.time_s == pytest.approx(LAYERS * 5 * US)
    assert stranger.share == pytest.approx(LAYERS * 5 * US / found.kernels_s)
    assert [row.nodes for row in found.missing] == [("kv_cache_write",)]
    assert found.matched_share == pytest.approx(1 - stranger.share)


def test_a_split_kernel_is_one_occurrence_of_two_launches():
    """Attention splits KV and combines: 32 occurrences, 64 launches, both times its own."""
    sequence = []
    for one in launched():
        sequence.append(one)
        if "FlashAttnFwdSm90" in one.name:
            sequence.append(KernelStep("void flash::FlashAttnFwdCombine<8, 256>", 3 * US))
    found = match(run(sequence), plan())
    attention = [row for row in found.rows if row.nodes[0] == "attention.scores"]
    assert (attention[0].found, attention[0].launches) == (LAYERS, 2 * LAYERS)
    assert attention[0].each_s == pytest.approx(attention[0].predicted_each_s + 3 * US)


def test_step_gap_and_totals_are_of_one_step():
    """The plan counts three launches for the sampler, of which one ran: two fewer."""
    sequence = launched()
    found = match(run(sequence, wall_s=0.009), plan())
    kernels_s = sum(one.time_s for one in sequence)
    assert found.step_s == 0.009
    assert found.gap_s == pytest.approx(0.009 - kernels_s)
    assert found.predicted_busy_s == pytest.approx(kernels_s)
    assert (found.launches, found.planned_launches) == (len(sequence), len(sequence) + 2)


EL = "void at::native::vectorized_elementwise_kernel<4, at::native::{}>".format
ADD, EPS, RSQRT = EL("CUDAFunctor_add<bf16>"), EL("CUDAFunctorOnSelf_add"), EL("rsqrt_kernel_cuda")
SILU, NEG, POW = EL("silu_kernel"), EL("neg_kernel_cuda"), EL("pow_tensor_scalar_kernel_impl")
MUL, COPY = EL("BinaryFunctor<MulFunctor>"), EL("bfloat16_copy_kernel_cuda")
MEAN, CAT = "void at::native::reduce_kernel<512, MeanOps<float>>", "CatArrayBatchedCopy<2u>"
EAGER_NORM = [COPY, POW, MEAN, EPS, RSQRT, MUL, COPY, MUL]
EAGER_ROPE = [MUL, NEG, CAT, MUL, ADD] * 2
ANGLES = [GEMM, CAT, EL("cos_kernel"), EL("sin_kernel")]
FLASH = "void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>"
EAGER_LAYER = [*EAGER_NORM, GEMM, GEMM, GEMM, *EAGER_ROPE]
EAGER_LAYER += ["void index_copy_kernel_impl<2>"] * 2 + [FLASH, GEMM, ADD, *EAGER_NORM]
EAGER_LAYER += [GEMM, SILU, GEMM, MUL, GEMM, ADD]
EAGER_STEP = ["void vectorized_gather_kernel<16>", *ANGLES, *EAGER_LAYER * LAYERS]
EAGER_STEP += [*EAGER_NORM, GEMM, COPY, "void reduce_kernel<ArgMaxOps>"]
"""Llama of transformers, op by op (modeling_llama.py): up is computed after silu."""


def test_an_eager_step_of_hundreds_of_launches_a_name_is_laid_out_op_by_op():
    """42 launches a layer; adds, norms and RoPE share their names. All but the angles' few match."""
    text = "{model: llama-3.1-8b-instruct, gpu: h100-sxm, backend: {name: pytorch-eager}, "
    text += "step: {decode: {batch: 8, context: 1100}}}"
    eager = assemble(ask(load_text(text, "deploy.yaml"), Catalog.standard()))
    found = match(run([KernelStep(name, US) for name in EAGER_STEP]), eager)
    once = {"embed_tokens": 1, "lm_head": 1, "final_norm": 8, "sampling": 2}
    layer = {"q_proj": 1, "up_proj": 1, "act": 1, "act_mul": 1, "rope": 10, "kv_cache_write": 2}
    layer |= {"attention_residual": 1, "mlp_residual": 1, "post_attention_norm": 8, "down_proj": 1}
    for node, launches in once.items():
        assert (row_of(found, node).found, row_of(found, node).launches) == (1, launches)
    for node, launches in layer.items():
        row = row_of(found, node)
        assert (row.found, row.launches) == (LAYERS, LAYERS * launches), node
    assert sum(row.launches for row in found.unmatched) <= len(ANGLES)


def totals(**calls_and_us):
    return tuple(KernelTime(name, calls, us * US) for name, (calls, us) in calls_and_us.items())


def test_without_order_kernels_of_one_name_are_one_row():
    """100 steps: GEMMs 32 times each, 4 of them, in two names; 128 a step belong to one row."""
    kernels = totals(nvjet_a=(9600, 9600 * 30), nvjet_b=(3200, 3200 * 20), nvjet_c=(100, 100 * 350))
    found = match(run(kernels=kernels, steps=100), plan())
    assert (found.ordered, found.steps) == (False, 100)
    joint = row_of(
        found, "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"
    )
    assert (joint.planned, joint.found, joint.launches) == (4 * LAYERS, None, 4 * LAYERS)
    assert joint.measured_s == pytest.approx((9600 * 30 + 3200 * 20) / 100 * US)
    assert joint.each_s is None
    head = row_of(found, "lm_head")
    assert head.each_s == pytest.approx(350 * US)


def test_steps_without_order_follow_from_the_repeats_of_the_plan():
    """What runs 32 times a step ran 3,200 times: 100 steps, whatever a stray kernel says."""
    kernels = totals(nvjet_a=(12800, 12800 * 30), reshape_and_cache=(3200, 6400), stray=(7, 7))
    found = match(run(kernels=kernels, steps=7), plan())
    assert found.steps == 100
    assert row_of(found, "kv_cache_write").each_s == pytest.approx(2 * US)


def test_layers_are_not_taken_for_steps():
    """3,200 calls of GEMMs alone: 100 steps of four GEMMs a layer, not 3,200 of an LM head."""
    found = match(run(kernels=totals(nvjet_a=(3200, 3200 * 30)), steps=3200), plan())
    assert found.steps == 100


def test_a_plan_stored_without_its_order_is_matched_without():
    old = replace(plan(), order=())
    found = match(run(launched()), old)
    assert not found.ordered
    assert "plan it again" in found.notes[0]


def test_a_step_measured_by_ranges_alone_counts():
    kernels = totals(nvjet_a=(12800, 12800 * 30), nvjet_c=(100, 35000))
    sole = replace(run(kernels=kernels), metrics=(Metric("step", "median", 0.007),))
    found = match(sole, plan())
    assert found.step_s == 0.007
    assert found.gap_s == pytest.approx(0.007 - (128 * 30 + 350) * US)


def test_half_a_model_is_noted():
    """Two of 32 layers: the kernels of a layer ran 2 times."""
    sequence = launched()
    layer = (len(sequence) - 4) // LAYERS
    found = match(run([*sequence[: 1 + 2 * layer], *sequence[-3:]]), plan())
    assert row_of(found, "down_proj").found == 2
    assert any("another model" in note for note in found.notes)


def test_a_run_without_kernels_is_refused_with_a_hint():
    with pytest.raises(UsageError, match="holds no kernels"):
        match(Run(SOURCE, ()), plan())


def test_kernels_of_something_else_are_refused():
    with pytest.raises(UsageError, match="no kernel of the plan"):
        match(Run(SOURCE, (), kernels=totals(conv=(10, 10))), plan())


@st.composite
def counted(draw):
    rows = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3)), min_size=1, max_size=4))
    return draw(st.integers(1, 25)), rows


@given(counted())
def test_a_kernel_is_possible_where_some_choice_adds_up(case):
    """Against every choice of launches of every kernel."""
    calls, rows = case
    kernels = [
        replace(plan().kernels[0], repeat=repeat, launches=launches) for repeat, launches in rows
    ]
    fits = range(len(rows))
    choices = [
        choice
        for choice in itertools.product(*(range(launches + 1) for _, launches in rows))
        if sum(rows[at][0] * times for at, times in enumerate(choice)) == calls
    ]
    expected = tuple(at for at in fits if any(choice[at] for choice in choices))
    assert possible(calls * 7, 7, list(fits), kernels) == expected
    assert possible(calls * 7 + 1, 7, list(fits), kernels) == ()
