"""Plans of models with latent attention: which form runs, whose constants, memory over ranks."""

from __future__ import annotations

import pytest

from planner.cost.kernels import mla
from planner.cost.latent import latent_shapes
from planner.ops.latent_attention import LatentHeads
from planner.ops.types import Load, SequenceGroup
from planner.plan.assemble import assemble
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.solve import solve_step
from planner.plan.types import Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
FP8 = "{weights: fp8, activations: fp8}"
DECODE, PREFILL = "{decode: {batch: 8, context: 4096}}", "{prefill: {batch: 1, tokens: 2048}}"
MIXED = (
    "{mixed: [{count: 8, new_tokens: 1, kv_tokens: 4096}, "
    "{count: 1, new_tokens: 512, kv_tokens: 1024}]}"
)


def question(**fields: str):
    """A decode step of DeepSeek-V2-Lite under vLLM on an H100, fields replaced by YAML texts."""
    base = {
        "model": "deepseek-v2-lite",
        "gpu": "h100-sxm",
        "step": DECODE,
        "backend": "{name: vllm}",
    }
    text = "".join(f"{name}: {value}\n" for name, value in (base | fields).items())
    return ask(load_text(text, "deploy.yaml"), CATALOG)


def plan(**fields: str) -> Plan:
    return assemble(question(**fields))


def attention_kernels(found: Plan) -> set[str]:
    """Rules that ran latent attention in the repeated layers."""
    return {
        str(row.rule)
        for row in found.kernels
        if row.rule and row.block == "layer" and row.rule.startswith("mla-")
    } - {"mla-rope-kv-write"}


# --- the form a step runs ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "rules", "absent"),
    [
        (DECODE, {"mla-decode-flash-attention"}, {"kv_b_proj", "prefill_keys"}),
        (PREFILL, {"mla-prefill-flash-attention-3"}, {"q_absorb", "v_absorb"}),
        (MIXED, {"mla-decode-flash-attention", "mla-prefill-flash-attention-3"}, set()),
    ],
)
def test_a_plan_holds_the_kernels_of_its_step_alone(step, rules, absent):
    found = plan(step=step)
    assert attention_kernels(found) == rules
    nodes = {row.id for row in found.nodes}
    launched = {node for row in found.kernels for node in row.nodes}
    assert not absent & nodes
    assert not absent & launched


def test_both_projections_to_latents_are_one_gemm():
    found = plan(model="deepseek-v3", gpu="h200-sxm", parallel="{tensor: 8}", precision=FP8)
    (row,) = (row for row in found.kernels if row.rule == "qkv-a-merge" and row.block == "layer")
    assert set(row.nodes) == {"q_a_proj", "kv_a_proj_with_mqa"}


@pytest.mark.parametrize(
    ("gpu", "backend", "decode"),
    [
        ("h100-sxm", '{name: vllm, version: "0.10"}', "mla-decode-flashmla"),
        ("h100-sxm", "{name: vllm}", "mla-decode-flash-attention"),
        ("b200-sxm", '{name: vllm, version: "0.10"}', "mla-decode-cutlass"),
        ("b200-sxm", "{name: vllm}", "mla-decode-flashinfer"),
        ("a100-80gb-sxm", "{name: vllm}", "mla-decode-triton"),
        ("h100-sxm", "{name: sglang}", "mla-decode-fa3"),
        ("b200-sxm", "{name: sglang}", "mla-decode-trtllm"),
        ("l40s", "{name: sglang}", "mla-decode-triton"),
        ("h100-sxm", "{name: tensorrt-llm}", "mla-decode-flashmla"),
        ("b200-sxm", "{name: tensorrt-llm}", "mla-decode-generated"),
        ("l40s", "{name: tensorrt-llm}", "mla-decode-mmha"),
    ],
)
def test_engines_run_their_own_decode_kernel(gpu, backend, decode):
    assert attention_kernels(plan(gpu=gpu, backend=backend)) == {decode}


@pytest.mark.parametrize("backend", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("step", [DECODE, PREFILL])
def test_sparse_models_run_one_form_in_both_phases(backend, step):
    found = plan(
        model="deepseek-v3.2",
        gpu="h200-sxm",
        parallel="{tensor: 8}",
        precision=FP8,
        backend=f"{{name: {backend}}}",
        step=step,
    )
    assert attention_kernels(found) == {"mla-sparse"}
    assert {"index_scores", "index_select", "q_absorb"} <= {row.id for row in found.nodes}


# --- ledgers -----------------------------------------------------------------------------------


def test_the_row_of_decode_attention_shows_its_intensity():
    """8 sequences over 4,096 keys, 16 heads: 2·16·1088·32,768 FLOPs; latents once, Q and O."""
    found = plan()
    (row,) = (r for r in found.nodes if r.id == "decode_attention" and r.block == "layer")
    keys = 8 * 4096
    assert row.matmul_flops == 2 * 16 * (576 + 512) * keys
    assert row.hbm_bytes == keys * 576 * 2 + 8 * 16 * (576 + 512) * 2
    limit = 2 * 16 * 1088 / 1152
    assert row.flops_per_byte == pytest.approx(limit, rel=0.01)


def test_fused_prompts_read_queries_keys_and_values_and_write_once():
    """2,048 tokens, 16 heads: Q and K of 192, V and O of 128, in BF16."""
    found = plan(step=PREFILL)
    (row,) = (r for r in found.nodes if r.id == "prefill_attention" and r.block == "layer")
    assert row.matmul_flops == 2 * 16 * (192 + 128) * 2048 * 2049 / 2
    assert row.hbm_bytes == 2048 * 16 * (2 * 192 + 2 * 128) * 2


# --- time --------------------------------------------------------------------------------------


def test_a_kernel_of_decode_takes_what_the_kernel_model_says():
    """FlashAttention 3 on H100 under SGLang: its own constants, less the write of the latents."""
    found = plan(backend="{name: sglang}")
    (row,) = (r for r in found.kernels if r.rule == "mla-decode-fa3" and r.block == "layer")
    assert row.evidence == "calibrated"
    asked = question(backend="{name: sglang}")
    prepared = prepare(asked)
    fitted = prepared.constants.latent_attention(mla.DECODE, "fa3", "bf16")
    assert fitted.source == "h100-sxm-sglang: mla_decode.fa3.bf16"
    shape = mla.MlaShape(8.0, 1.0, 4096.0, 16)
    modelled = mla.DECODE.time_s("fa3.bf16", shape, prepared.device, fitted.values)
    solved = solve_step(prepared, step_load(asked.deployment), modes=())
    in_graph = solved.fixed.graph_node_s
    # between the modelled time less one streaming kernel, and with the start of a graph's node
    assert modelled - 5e-6 < row.time_s < modelled + in_graph + 2e-6


def test_prompts_and_decode_are_shapes_of_their_own():
    load = Load((SequenceGroup(4, 1, 1000), SequenceGroup(2, 64, 100), SequenceGroup(1, 1, 10)))
    absorbed = LatentHeads(16, 576, 512, 64, "decode")
    expanded = LatentHeads(16, 192, 128, 64, "prefill")
    model, shapes = latent_shapes(absorbed, load)
    assert model is mla.DECODE
    assert [(s.batch, s.new_tokens, s.kv_tokens) for s in shapes] == [(4, 1, 1000), (1, 1, 10)]
    model, shapes = latent_shapes(expanded, load)
    assert model is mla.PREFILL
    assert shapes == (mla.MlaShape(2.0, 64.0, 100.0, 16, rope_dim=64, head_dim=128, value_dim=128),)


def test_drafts_share_the_latents_of_their_sequence():
    load = Load((SequenceGroup(5, 4, 1000, verified=True),))
    _, (shape,) = latent_shapes(LatentHeads(16, 576, 512, 64, "decode"), load)
    assert (shape.batch, shape.new_tokens, shape.kv_tokens) == (5, 4, 1000)


def test_each_token_of_a_sparse_prompt_is_a_sequence_of_its_own():
    """100 tokens without context see 50.5 keys in the mean."""
    load = Load((SequenceGroup(2, 100, 100),))
    _, (shape,) = latent_shapes(LatentHeads(16, 576, 512, 64, "all", 2048), load)
    assert (shape.batch, shape.new_tokens, shape.kv_tokens) == (200, 1, 50.5)


def test_values_may_be_wider_than_keys():
    """GLM-4.7-Flash: keys of 192 + 64, values of 256."""
    shape = mla.MlaShape(1.0, 64.0, 64.0, 20, head_dim=192, value_dim=256)
    wide = mla.expanded(shape)
    assert (wide.head_dim, wide.value_dim) == (256, 256)


# --- memory ------------------------------------------------------------------------------------


def test_tensor_parallelism_does_not_divide_the_cache():
    """Each of 8 ranks holds 70,272 bytes a token; a data replica holds its own sequences alone."""
    fields = {"model": "deepseek-v3", "gpu": "h200-sxm", "precision": FP8}
    eight = plan(**fields, parallel="{tensor: 8}", step="{decode: {batch: 64, context: 4096}}")
    assert eight.memory.kv_bytes_per_token == 61 * 576 * 2
    assert eight.memory.kv_bytes == 64 * 4096 * 70_272
    replicas = plan(
        model="deepseek-v2-lite",
        parallel="{data: 8}",
        step="{decode: {batch: 64, context: 4096}}",
    )
    assert replicas.memory.kv_bytes == 8 * 4096 * 27 * 576 * 2


def test_deepseek_v3_in_fp8_needs_more_than_eight_times_80_gb():
    """671 GB over 8 ranks is 84 GB of weights on each."""
    found = plan(model="deepseek-v3", gpu="h100-sxm", parallel="{tensor: 8}", precision=FP8)
    assert not found.memory.fits
    assert found.memory.weights_bytes > 83e9
    assert plan(
        model="deepseek-v3", gpu="h200-sxm", parallel="{tensor: 8}", precision=FP8
    ).memory.fits
