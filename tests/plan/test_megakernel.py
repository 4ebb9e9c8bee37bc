"""The step as one persistent kernel: by hand, beside other groupings, in pipelines, over links."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.messages import Message, hop_s
from planner.graph.types import Block, Node
from planner.ops.collective import Send
from planner.ops.types import Formats
from planner.plan.assemble import assemble
from planner.plan.megakernel import chain
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask


def question(model: str, gpu: str, step: str, more: str = "", cost_model="calibrated"):
    text = f"model: {model}\ngpu: {gpu}\nstep: {step}\n{more}"
    return ask(load_text(text, "deploy.yaml", "deployment"), Catalog.standard(), cost_model)


@cache
def sets(model: str, gpu: str, step: str, more: str = ""):
    return assemble(question(model, gpu, step, more)).step


def starts(step):
    """What a step takes before its kernels, and each of them besides: in a graph, or launched."""
    fixed = step.fixed_s
    yield fixed["replay_s"], fixed["graph_node_s"]
    yield fixed["launch_s"], fixed["kernel_s"]


def test_a_decode_step_reads_weights_and_caches_once():
    """Llama-3.1-8B, 16 sequences of 4096 tokens on an H100 with 3350 GB/s.

    Weights 8,030,261,248, less the embedding's 128,256 × 4096 but for 16 rows; 131,072 B of K and V
    a token, read for 16 × 4096 and written for 16; in each of 32 layers 16 rows of a rotation table
    of 128 numbers. Two bytes each. One kernel is launched, or replayed as a graph of one node.
    """
    step = sets("llama-3.1-8b-instruct", "h100-sxm", "{decode: {batch: 16, context: 4096}}")
    weights = 2 * (8_030_261_248 - 128_256 * 4096 + 16 * 4096)
    cache_bytes = 131_072 * (16 * 4096 + 16)
    table = 2 * 32 * 16 * 128
    fixed = min(start + each for start, each in starts(step))
    expected = (weights + cache_bytes + table) / 3350e9 + fixed
    assert step.rule_sets["megakernel"].time_s == pytest.approx(expected, rel=1e-6)
    assert step.rule_sets["megakernel"].kernels == 1
    assert step.rule_sets["blocks"].kernels == 1 + 32 + 1


@pytest.mark.parametrize(
    ("model", "gpu", "step", "more"),
    [
        ("llama-3.1-8b-instruct", "h100-sxm", "{decode: {batch: 16, context: 4096}}", ""),
        ("llama-3.1-8b-instruct", "h100-sxm", "{prefill: {batch: 1, tokens: 4096}}", ""),
        (
            "llama-3.3-70b-instruct",
            "h100-sxm",
            "{decode: {batch: 64, context: 1024}}",
            "parallel: {tensor: 4}\nprecision: {weights: fp8}\n",
        ),
        ("qwen3-30b-a3b", "h100-sxm", "{decode: {batch: 16, context: 4096}}", ""),
        (
            "qwen2.5-7b-instruct",
            "rtx-4090",
            "{decode: {batch: 16, context: 4096}}",
            "backend: {name: vllm, flags: {enforce_eager: true}}\n",
        ),
    ],
)
def test_no_grouping_beats_fewer_larger_kernels(model, gpu, step, more):
    rows = sets(model, gpu, step, more).rule_sets
    times = [rows[name].time_s for name in ("megakernel", "blocks", "ideal", "flags", "engine")]
    assert times == sorted(times)


@given(
    st.sampled_from(["llama-3.2-1b-instruct", "olmoe-1b-7b"]),
    st.sampled_from(["h100-sxm", "rtx-4090", "mi300x"]),
    st.sampled_from([(1, 1, 1), (8, 1, 1), (2, 3, 1), (4, 1, 4), (8, 2, 2)]),
    st.sampled_from(["{decode: {batch: 1, context: 1}}", "{decode: {batch: 48, context: 2048}}"]),
    st.sampled_from(["", "backend: {name: vllm, flags: {enforce_eager: true}}\n"]),
)
@settings(max_examples=many(8, 300), deadline=None)
def test_no_layout_and_no_flag_beats_them(model, gpu, ranks, step, more):
    """The ideal groupings are no slower than any flags, even where these turn graphs on."""
    tensor, pipeline, data = ranks
    expert = f", expert: {tensor * data}" if "moe" in model and data > 1 else ""
    more += f"parallel: {{tensor: {tensor}, pipeline: {pipeline}, data: {data}{expert}}}\n"
    if tensor * pipeline * data > 8:
        more += "nodes: 2\nnetwork: {bandwidth: 50 GB/s, latency: 20 us}\n"
    rows = sets(model, gpu, step, more).rule_sets
    names = ("megakernel", "blocks", "ideal", "flags", "engine")
    for lower, upper in pairwise(rows[name].time_s for name in names):
        assert lower <= upper * (1 + 1e-12)


TP8 = "parallel: {tensor: 8}\nprecision: {weights: fp8}\n"
ONE = "{decode: {batch: 1, context: 1024}}"


def test_hops_of_all_reduces_hide_behind_memory():
    """Llama-3.3-70B over eight GPUs: a sum behind the embedding, two in each of 80 layers, and the
    gather of logits. One hop of NVLink each.
    """
    step = sets("llama-3.3-70b-instruct", "h100-sxm", ONE, TP8)
    limit = step.rule_sets["megakernel"]
    assert limit.messages == 1 + 2 * 80 + 1
    assert limit.parts_s["latency"] == pytest.approx(162 * 0.47e-6)
    assert limit.bound == "memory"
    assert limit.exposed_s == 0
    fixed = min(start + each for start, each in starts(step))
    assert limit.time_s == pytest.approx(limit.parts_s["memory"] + fixed)


def test_hops_between_nodes_are_the_limit():
    """The same over two nodes with 20 us between them. A sum of 8192 numbers of two bytes moves
    2 · 1/2 of a quarter of it between nodes; a gather of 128,256 numbers half of a quarter.
    """
    more = TP8 + "nodes: 2\nnetwork: {bandwidth: 50 GB/s, latency: 20 us}\n"
    step = sets("llama-3.3-70b-instruct", "h100-sxm", ONE, more)
    limit = step.rule_sets["megakernel"]
    assert limit.bound == "latency"
    assert limit.exposed_s == pytest.approx(162 * 20e-6 - limit.parts_s["memory"])
    moved = 161 * 2 * 8192 / 4 + 2 * 128_256 / 2 / 4
    assert limit.parts_s["network"] == pytest.approx(moved / 50e9)
    fixed = min(start + each for start, each in starts(step))
    assert limit.time_s == pytest.approx(162 * 20e-6 + fixed)


def test_tokens_go_to_experts_and_back():
    """OLMoE: 16 layers, each with a dispatch and a combine between two replicas on two nodes."""
    more = (
        "parallel: {data: 2, expert: 2}\nnodes: 2\nnetwork: {bandwidth: 50 GB/s, latency: 20 us}\n"
    )
    limit = sets("olmoe-1b-7b", "h100-sxm", ONE, more).rule_sets["megakernel"]
    assert limit.messages == 16 * 2
    assert limit.parts_s["latency"] == pytest.approx(32 * 20e-6)


def test_the_bare_roofline_counts_no_hops():
    asked = question(
        "llama-3.2-1b-instruct", "h100-sxm", ONE, "parallel: {tensor: 8}\n", "roofline"
    )
    rows = assemble(asked).step.rule_sets
    assert "latency" not in rows["megakernel"].parts_s
    assert rows["megakernel"].time_s <= rows["ideal"].time_s


def test_messages_side_by_side_take_one_hop():
    """x goes to a and to b, c reads both: two of three hops follow each other."""
    formats = Formats("bf16", "bf16", "bf16", "bf16")
    reads = {"a": ("x",), "b": ("x",), "c": ("ya", "yb")}
    nodes = tuple(
        Node(name, "send", Send(), inputs, (f"y{name}",), (), "bf16")
        for name, inputs in reads.items()
    )
    block = Block("one", nodes, {}, ("x",), ("yc",), nx.MultiDiGraph(), formats)
    messages = {"a": Message(1.0, 8.0), "b": Message(3.0, 8.0), "c": Message(5.0, 8.0)}
    assert chain(block, messages) == (3.0 + 5.0, 2)
    assert chain(block, {}) == (0.0, 0)


def test_a_hop_is_the_link_s():
    assert hop_s(question("llama-3.2-1b-instruct", "h100-sxm", ONE).gpu) == 0.47e-6
    assert hop_s(question("llama-3.2-1b-instruct", "rtx-4090", ONE).gpu) == 1.0e-6


LAYER = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 2 * 4096
"""Numbers in a layer of Llama-3.1-8B."""


def test_a_pipeline_waits_for_its_slowest_stage():
    """Llama-3.1-8B in two stages of 16 layers: each micro-batch has 8 of 16 sequences. A layer
    reads its weights, 4096 B for each of 8 × 4096 tokens and their 8 new ones, and 8 rows of a
    rotation table of 128 numbers. The first stage looks 8 rows up and sends, the second one has a
    norm of 4096 and the head. Both wait for the second: 2 · t instead of t + t' .
    """
    step = sets(
        "llama-3.1-8b-instruct",
        "h100-sxm",
        "{decode: {batch: 16, context: 4096}}",
        "parallel: {pipeline: 2}\n",
    )
    layers = 16 * (2 * LAYER + 4096 * (8 * 4096 + 8) + 2 * 8 * 128)
    first = (layers + 2 * 8 * 4096) / 3350e9 + 0.47e-6
    last = (layers + 2 * 4096 + 2 * 128_256 * 4096) / 3350e9
    waits = 2 * last - (first + last)
    fixed = min(start + 2 * each for start, each in starts(step))
    limit = step.rule_sets["megakernel"]
    assert limit.time_s == pytest.approx(first + last + waits + fixed, rel=1e-6)
    assert (limit.kernels, limit.messages) == (2, 1)
    assert limit.exposed_s == pytest.approx(0.47e-6)
    assert step.rule_sets["blocks"].kernels == 1 + 32 + 1 + 1
