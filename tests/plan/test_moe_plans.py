"""Whole plans of mixtures of experts, held against rooflines by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.types import KernelRow, NodeRow, Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
H100_BYTES_PER_S = 3.35e12


def plan(**fields: str) -> Plan:
    base = {"gpu": "h100-sxm", "step": "{decode: {batch: 16, context: 2048}}"}
    text = "".join(f"{name}: {value}\n" for name, value in (base | fields).items())
    return assemble(ask(load_text(text, "deploy.yaml"), CATALOG))


def qwen(**fields: str) -> Plan:
    return plan(model="qwen3-30b-a3b", **fields)


def node(found: Plan, name: str) -> NodeRow:
    return next(row for row in found.nodes if row.id == name)


def kernel(found: Plan, name: str) -> KernelRow:
    return next(row for row in found.kernels if name in row.nodes)


def test_mixtral_on_two_h100_is_near_its_roofline():
    """Batch 16 touches 8·(1 − (6/8)¹⁶) = 7.92 of 8 experts. A rank reads half of everything.

    Experts 44.6 GB, attention 1.3 GB, LM head 0.13 GB and KV 2.1 GB: 14.4 ms at 3.35 TB/s. The
    experts' kernel takes 0.75 to 1 of the bandwidth, launches and all-reduces take the rest.
    """
    touched = 8 * (1 - (6 / 8) ** 16)
    experts = 32 * touched * 3 * 4096 * 14_336 * 2 / 2
    attention = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024) * 2 / 2
    head = 32_000 * 4096 * 2 / 2
    cache = 16 * 2048 * 131_072 / 2
    floor_s = (experts + attention + head + cache) / H100_BYTES_PER_S
    found = plan(model="mixtral-8x7b", parallel="{tensor: 2}")
    assert node(found, "experts").weight_bytes * 32 == pytest.approx(experts)
    assert found.totals.roofline_s == pytest.approx(floor_s, rel=0.02)
    assert floor_s < found.step.time_s < 1.45 * floor_s
    assert found.memory.fits


def test_qwen3_30b_on_one_h100_is_near_its_roofline():
    """82.4 of 128 experts of 4.7 M weights in 48 layers: 37.3 GB of 61 GB, and the rest once."""
    touched = 128 * (1 - (120 / 128) ** 16)
    experts = 48 * touched * 3 * 2048 * 768 * 2
    attention = 48 * (2 * 2048 * 4096 + 2 * 2048 * 512 + 128 * 2048) * 2
    head = 151_936 * 2048 * 2
    cache = 16 * 2048 * 48 * 2 * 4 * 128 * 2
    floor_s = (experts + attention + head + cache) / H100_BYTES_PER_S
    found = qwen()
    assert found.totals.roofline_s == pytest.approx(floor_s, rel=0.02)
    assert floor_s < found.step.time_s < 1.45 * floor_s
    assert found.memory.weights_bytes == pytest.approx(30_532_122_624 * 2)


def test_active_parameters_are_those_of_the_graph():
    """All but 120 of 128 experts in 48 layers: 3.35 billion."""
    found = qwen()
    assert found.model.parameters == 30_532_122_624
    assert found.model.active_parameters == 30_532_122_624 - 48 * 120 * 3 * 2048 * 768


def test_a_large_batch_is_bound_by_compute():
    """A prefill of 8,192 tokens: 65,536 pairs, 512 an expert, beyond the ridge of 295."""
    found = qwen(step="{prefill: {batch: 1, tokens: 8192}}")
    assert kernel(found, "experts").bound == "compute"
    assert kernel(found, "experts").matmul_flops == 2 * 8192 * 8 * 3 * 2048 * 768


def test_expert_and_tensor_parallelism_hold_as_much_and_read_as_much():
    """A rank of 4 holds 32 experts or a quarter of each of 128; by chance it reads as much."""
    whole, cut = qwen(parallel="{tensor: 4, expert: 4}"), qwen(parallel="{tensor: 4}")
    assert whole.memory.weights_bytes == cut.memory.weights_bytes
    for name in ("weight_bytes", "matmul_flops"):
        by_experts = getattr(node(whole, "experts"), name)
        assert by_experts == pytest.approx(getattr(node(cut, "experts"), name))


def test_attention_replicas_share_one_set_of_experts():
    """4 replicas of 16 sequences: experts see 64 tokens, attention 16; each has its own KV."""
    found = qwen(parallel="{data: 4, expert: 4}", step="{decode: {batch: 64, context: 2048}}")
    alone = qwen()
    assert node(found, "experts").matmul_flops == 2 * 64 * 8 / 4 * 3 * 2048 * 768
    assert node(found, "attention").matmul_flops == node(alone, "attention").matmul_flops
    assert found.memory.kv_bytes == alone.memory.kv_bytes
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    assert found.memory.weights_bytes == pytest.approx(alone.memory.weights_bytes - 3 / 4 * experts)
    assert found.cost.gpus == 4
    assert {"experts.dispatch", "experts.combine"} <= {row.id for row in found.nodes}


def test_deepep_sends_tokens_where_a_gather_sends_all():
    """3 others × 64 rows of 4,096 + 256 bytes gathered; with DeepEP 8 of 128 miss a rank seldom."""
    fields = {
        "parallel": "{data: 4, expert: 4}",
        "step": "{decode: {batch: 256, context: 2048}}",
    }
    gathered = qwen(**fields)
    assert node(gathered, "experts.dispatch").link_bytes == 3 * 64 * (4096 + 256)
    assert kernel(gathered, "experts.dispatch").engine_name == "AgRsAll2AllManager.dispatch"
    flags = "{name: vllm, flags: {all2all_backend: deepep_low_latency}}"
    sent = qwen(backend=flags, **fields)
    assert node(sent, "experts.dispatch").link_bytes < 3 * 64 * (4096 + 64)
    assert kernel(sent, "experts.dispatch").engine_name == "DeepEP dispatch"


def test_popular_experts_make_a_rank_slower():
    """The busiest of 8 ranks computes more than an eighth of a prefill's pairs."""
    fields = {"parallel": "{tensor: 8, expert: 8}", "step": "{prefill: {batch: 1, tokens: 8192}}"}
    even = qwen(experts="{load: balanced}", **fields)
    chance = qwen(**fields)
    skewed = qwen(experts="{load: power-law, alpha: 1.2}", **fields)
    assert even.step.time_s < chance.step.time_s < skewed.step.time_s


def test_how_experts_are_chosen_is_part_of_the_workload():
    """Uniform is what is meant where nothing is said."""
    usual = qwen()
    assert qwen(experts="{load: uniform}").plan_id == usual.plan_id
    other = qwen(experts="{load: power-law}")
    moved = {part for part in usual.parts if usual.parts[part] != other.parts[part]}
    assert moved == {"workload"}


def test_shared_experts_add_no_all_reduce_of_their_own():
    """GLM-4.5-Air on 4 GPUs: after attention and after the experts, as in a dense layer."""
    found = plan(model="glm-4.5-air", parallel="{tensor: 4}")
    reduces = [row.id for row in found.nodes if row.op == "all_reduce" and row.block == "layer"]
    assert reduces == ["o_proj.all_reduce", "experts_sum.all_reduce"]


def test_sglang_runs_a_shared_expert_as_one_more_routed_expert():
    """Unless told not to, or with several expert ranks."""
    fields = {"model": "glm-4.5-air", "parallel": "{tensor: 4}"}
    fused = plan(backend="{name: sglang}", **fields)
    assert kernel(fused, "experts").rule == "shared-expert-fusion"
    flags = "{name: sglang, flags: {disable_shared_experts_fusion: true}}"
    assert kernel(plan(backend=flags, **fields), "experts").rule is None
    spread = plan(backend="{name: sglang}", model="glm-4.5-air", parallel="{tensor: 4, expert: 4}")
    assert kernel(spread, "experts").rule is None


@pytest.mark.parametrize(
    ("gpu", "model", "engine_name"),
    [
        ("h100-sxm", "qwen3-30b-a3b", "fused_experts (TritonExperts)"),
        ("b200-sxm", "qwen3-30b-a3b", "TrtLlmBf16Experts"),
        ("h100-sxm", "gpt-oss-20b", "OAITritonExperts (triton_kernels)"),
        ("b200-sxm", "gpt-oss-20b", "FlashInfer TRTLLM experts"),
        ("l40s", "gpt-oss-20b", "MarlinExperts"),
    ],
)
def test_vllm_picks_the_kernel_by_gpu_and_format(gpu, model, engine_name):
    assert kernel(plan(gpu=gpu, model=model), "experts").engine_name == engine_name


def test_an_eager_step_launches_each_kernel_of_the_experts():
    """Top-k, alignment and sorting, two grouped GEMMs, activation, sum: seven; in a graph one chain.

    Captured, the floor is the chain's own; launched, every kernel starts on its own.
    """
    captured = kernel(qwen(), "experts")
    eager = kernel(qwen(backend="{name: vllm, flags: {enforce_eager: true}}"), "experts")
    assert captured.launches == eager.launches == 7
    assert eager.fixed_s > captured.fixed_s
    assert eager.time_s - eager.fixed_s == pytest.approx(captured.time_s - captured.fixed_s)


@pytest.mark.parametrize(
    ("parallel", "said"),
    [
        ("{tensor: 2, expert: 2}", "Llama"),
        ("{data: 2, expert: 2}", "Llama"),
    ],
)
def test_a_dense_model_has_no_experts_to_share_out(parallel, said):
    with pytest.raises(SpecError, match="no routed experts to share out") as caught:
        plan(model="llama-3.1-8b-instruct", parallel=parallel)
    assert said.lower() in str(caught.value).lower()


def test_sixty_experts_do_not_divide_over_eight_ranks():
    """Qwen1.5-MoE."""
    with pytest.raises(SpecError, match="60 experts do not divide over 8 ranks"):
        plan(model="qwen1.5-moe-a2.7b", parallel="{tensor: 8, expert: 8}")


@settings(max_examples=15, deadline=None)
@given(batch=st.integers(1, 200), more=st.integers(1, 200))
def test_more_sequences_never_take_less_time(batch, more):
    """No kernel of the layer gets quicker with a larger batch; nor do experts read less."""
    small, large = (
        qwen(step=f"{{decode: {{batch: {n}, context: 512}}}}") for n in (batch, batch + more)
    )
    assert node(small, "experts").weight_bytes <= node(large, "experts").weight_bytes
    assert kernel(small, "experts").time_s <= kernel(large, "experts").time_s * (1 + 1e-9)


def test_what_would_fit_keeps_experts_on_all_ranks():
    """Qwen3-235B takes 470 GB: 2 GPUs of 80 GB with 2 expert ranks do not do; 8 with 8 would."""
    found = plan(model="qwen3-235b-a22b", parallel="{tensor: 2, expert: 2}")
    assert not found.memory.fits
    assert "parallel.tensor=8 --set parallel.expert=8" in found.memory.nearest_fit
