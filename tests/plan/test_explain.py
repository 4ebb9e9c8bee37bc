"""`planner.plan.explain`: every figure of a kernel's row follows from the terms above it."""

import math
from functools import cache

import pytest

from planner.errors import UsageError
from planner.plan.explain import explain, label, named
from planner.plan.prepare import prepare
from planner.plan.rows import kernel_rows
from planner.plan.solve import solve_step
from planner.serving.plan import plan_question, planned_step
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

SMALL = "model: qwen2.5-0.5b-instruct\ngpu: rtx-4090\n"
DEPLOYMENTS = {
    "decode": SMALL + "step: {decode: {batch: 4, context: 1000}}",
    "eager": SMALL + "backend: {name: vllm, flags: {enforce_eager: true}}\n"
    "step: {prefill: {batch: 2, tokens: 300}}",
    "users": SMALL + "workload: {concurrency: 4, input: 100, output: 20}",
    "two nodes": "model: llama-3.3-70b-instruct\ngpu: h100-sxm\nparallel: {tensor: 16}\n"
    "nodes: 2\nnetwork: {bandwidth: 50 GB/s, latency: 10 us}\n"
    "step: {decode: {batch: 8, context: 512}}",
    "experts": "model: deepseek-v2-lite\ngpu: h100-sxm\nparallel: {tensor: 2}\n"
    "step: {decode: {batch: 4, context: 512}}",
}


@cache
def solved(name, cost_model="calibrated", more=()):
    """A deployment's plan and the step that it shows."""
    question = ask(
        load_text("name: a\n" + DEPLOYMENTS[name], "a.yaml", "deployment"),
        Catalog.standard(more),
        cost_model,
    )
    plan = plan_question(question)
    return plan, solve_step(prepare(question), planned_step(question, plan), modes=())


def close(value):
    """Equal but for the order of additions."""
    return pytest.approx(value, rel=1e-9, abs=1e-18)


@pytest.mark.parametrize("cost_model", ["calibrated", "roofline"])
@pytest.mark.parametrize("name", [n for n in DEPLOYMENTS if n != "experts"])
def test_every_row_of_a_plan_follows_from_its_terms(name, cost_model):
    """FLOPs, bytes, roofline, work, start, time, share and interval, each added up by hand."""
    plan, step = solved(name, cost_model)
    assert kernel_rows(step) == plan.kernels
    for row in plan.kernels:
        found = explain(step, row)
        _check(found, row)


def _check(found, row):
    nodes = found.nodes
    assert sum(n.matmul_flops for n in nodes) == close(row.matmul_flops)
    assert sum(n.vector_flops for n in nodes) == close(row.vector_flops)
    private = sum(n.weight_bytes + n.cache_bytes + n.scratch_bytes for n in nodes)
    assert private + sum(t.hbm_bytes for t in found.tensors) == close(row.hbm_bytes)
    assert sum(n.link_bytes for n in nodes) == close(row.link_bytes)
    matmul_s = sum(n.matmul_flops / n.peak_flops_per_s for n in nodes if n.matmul_dtype)
    vector_s = row.vector_flops / found.vector_flops_per_s
    memory_s = row.hbm_bytes / found.bandwidth_bytes_per_s
    network_s = row.link_bytes / found.link_bytes_per_s if row.link_bytes else 0.0
    assert max(matmul_s, vector_s, memory_s, network_s) == close(row.roofline_s)
    counted_s = sum(m.counted_s for m in found.models) + found.beyond_s
    assert found.core_s in (close(counted_s), close(row.roofline_s))
    assert found.core_s >= counted_s * (1 - 1e-9)
    start_s = found.floor_s + found.starts * found.start_s - found.held_s
    if found.starts:
        assert max(0.0, start_s) + found.starts * found.collective_s == close(row.fixed_s)
    assert row.fixed_s + found.core_s == close(row.time_s)
    assert row.repeat * row.time_s / found.busy_s == close(row.share)
    if found.log_low is not None:
        assert row.time_s * math.exp(found.log_low) == close(row.low_s)
        assert row.time_s * math.exp(found.log_high) == close(row.high_s)


@pytest.mark.parametrize("name", ["experts"])
def test_latent_attention_and_experts_add_up_too(name):
    """Their models are asked several times for one kernel."""
    plan, step = solved(name)
    found = [explain(step, row) for row in plan.kernels]
    for each in found:
        _check(each, each.kernel)
    assert {m.family for each in found for m in each.models} >= {"moe", "mla_decode", "gemm"}


def test_a_projection_is_the_product_of_its_sides():
    """Qwen2.5-0.5B: hidden 896, MLP 4864; 4 sequences."""
    plan, step = solved("decode")
    found = explain(step, named(plan.kernels, "down_proj")[0])
    (node,) = found.nodes
    assert node.arithmetic == "2 × 4,864 × 4 × 896"
    assert node.matmul_flops == 2 * 4864 * 4 * 896
    assert node.weight_bytes == 4864 * 896 * 2
    assert {(t.way, t.shape, t.hbm_bytes) for t in found.tensors} == {
        ("read", "4 × 4,864", 4 * 4864 * 2),
        ("written", "4 × 896", 4 * 896 * 2),
    }
    # RTX 4090: 165.2 TFLOP/s of dense BF16, 1008 GB/s
    assert found.matmul_s == close(2 * 4864 * 4 * 896 / 165.2e12)
    assert found.memory_s == close((4864 * 896 + 4 * 4864 + 4 * 896) * 2 / 1008e9)


def test_a_streaming_kernel_is_its_printed_formula():
    """t = t0 + u·row_bytes + (memory^p + blocks^p)^(1/p), with the printed constants and shape."""
    plan, step = solved("decode")
    row = next(row for row in plan.kernels if row.nodes == ("input_norm",))
    found = explain(step, row)
    (model,) = found.models
    assert "t = t0 + u·row_bytes + (memory^p + blocks^p)^(1/p)" in model.formula
    value = {each.name: each.value for each in model.constants}
    asked = model.shape
    # 4 rows of 896 read and written, and the weights, in BF16
    assert asked["read_bytes"] + asked["write_bytes"] == (2 * 4 * 896 + 896) * 2 == row.hbm_bytes
    memory_s = row.hbm_bytes / (value["eta"] * 1008e9)
    blocks_s = asked["rows"] * value["block_s"] / 128  # multiprocessors of an RTX 4090
    both_s = (memory_s ** value["p"] + blocks_s ** value["p"]) ** (1 / value["p"])
    serial_s = value["serial_s_per_byte"] * row.hbm_bytes / asked["rows"]
    assert value["t0_s"] + serial_s + both_s == close(model.time_s)
    assert model.time_s - value["t0_s"] == close(model.counted_s)
    # it is a node of a graph, whose start the constant holds
    assert value["t0_s"] + model.counted_s == close(row.time_s)


def test_a_calibration_of_another_gpu_is_named_with_its_evidence():
    plan, step = solved("decode")
    (model,) = explain(step, named(plan.kernels, "o_proj")[0]).models
    assert (model.source, model.gpu, model.evidence) == ("l40s-vllm: gemm.bf16", "l40s", "class")


def test_what_crosses_nodes_is_no_kernel_model_s():
    """An all-reduce over two nodes has a part that only bandwidth and latency tell."""
    plan, step = solved("two nodes")
    found = explain(step, named(plan.kernels, "o_proj.all_reduce")[0])
    # at least one message of 10 us each way between the nodes
    assert found.beyond_s > 2 * 10e-6
    assert sum(m.counted_s for m in found.models) + found.beyond_s == close(found.core_s)


def test_the_bare_roofline_asks_no_model():
    plan, step = solved("decode", "roofline")
    found = explain(step, named(plan.kernels, "o_proj")[0])
    assert found.models == ()
    assert found.core_s == found.roofline_s
    assert found.log_low is None


def test_whole_runs_on_this_machine_multiply_the_work(tmp_path):
    """A calibration of the very GPU and engine that says GEMMs take half as long again."""
    folder = tmp_path / "calibrations"
    folder.mkdir()
    (folder / "mine.yaml").write_text(
        "kind: calibration\nname: mine\ntitle: mine\ngpu: rtx-4090\nbackend: vllm\n"
        'script: by hand\ndate: "2026-11-30"\nevidence: measured-here\n'
        "efficiency: {gemm: 1.5}\n",
        encoding="utf-8",
    )
    plan, step = solved("decode", more=(tmp_path,))
    found = explain(step, named(plan.kernels, "down_proj")[0])
    assert found.efficiency == 1.5
    assert found.core_s == close(1.5 * sum(m.counted_s for m in found.models))
    assert found.fixed_s + found.core_s == close(found.kernel.time_s)


def test_kernels_are_named_by_rule_engine_node_and_block():
    plan, _ = solved("decode")
    rows = plan.kernels
    merged = named(rows, "gate_proj")
    assert merged == named(rows, "gate-up-merge") == named(rows, "MergedColumnParallelLinear")
    assert merged == named(rows, "layer/up_proj")
    assert len(named(rows, "input_norm")) > 1
    assert named(rows, "attention")[0].nodes[0] == "attention.scores"


def test_of_several_the_costliest_comes_first_and_each_can_be_named_alone():
    plan, _ = solved("decode")
    found = named(plan.kernels, "input_norm")
    assert [row.share for row in found] == sorted((r.share for r in found), reverse=True)
    for row in found:
        assert named(plan.kernels, label(row)) == (row,)


def test_a_misspelt_kernel_is_met_with_the_nearest():
    plan, _ = solved("decode")
    with pytest.raises(UsageError, match="did you mean 'gate_proj'"):
        named(plan.kernels, "gateproj")
    with pytest.raises(UsageError, match="no kernel or node 'xyzzy'"):
        named(plan.kernels, "xyzzy")
