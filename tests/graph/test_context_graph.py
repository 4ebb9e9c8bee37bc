"""Graphs of ranks that share contexts, prompts or rows: which nodes, which shapes, which bytes."""

from __future__ import annotations

from fractions import Fraction

import pytest
from graph_samples import BF16, model

from planner.cost.annotate import node_cost
from planner.cost.types import device
from planner.graph import totals
from planner.graph.active import active, idle_symbols
from planner.graph.build import model_graph
from planner.graph.types import Block, ModelGraph
from planner.ops.types import ExpertLayout, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()
H100 = device(CATALOG.find("gpu", "h100-sxm"))
DECODE = Load((SequenceGroup(64, 1, 8193),))
FRESH = Load((SequenceGroup(1, 4096, 4096),))
NORMS = """\
kind: model
name: tiny
title: Tiny
dims: {hidden: 64}
sequence: [{block: embed}, {block: layer, times: 3}]
blocks:
  embed:
    name: embed
    inputs: {ids: [tokens]}
    nodes:
      embed_tokens: {op: embedding, in: ids, out: x, rows: 96, features: hidden}
    outputs: [x]
  layer:
    name: layer
    inputs: {x: [tokens, hidden]}
    nodes:
      norm: {op: rms_norm, in: x, out: h}
      up: {op: linear, in: h, out: wide, features: 256, shard: column}
      act: {op: silu, in: wide, out: bent}
      down: {op: linear, in: bent, out: back, features: hidden, shard: row}
      residual: {op: add, in: [x, back], out: y}
    outputs: [y]
"""


def catalogued(name: str, layout: ExpertLayout) -> ModelGraph:
    spec = CATALOG.find("model", name)
    return model_graph(spec, blocks_of(spec, CATALOG), BF16, layout=layout)


def run_of(graph: ModelGraph, load: Load) -> Block:
    """The last layer's kind, as a step runs it."""
    return active(graph, idle_symbols(graph, load)).kinds[-2]


def link_bytes(block: Block, load: Load) -> dict[str, float]:
    costs = {node.id: node_cost(block, node, load, H100).work.link_bytes for node in block.nodes}
    return {name: float(size) for name, size in costs.items() if size}


def test_a_shared_context_parts_the_copies_of_grouped_attention():
    """Llama-3.1-70B, 8 KV heads: 80 layers · 2 · 128 · 2 B = 40,960 B a token and KV head.

    16 ranks hold each head twice; two that share a context hold half of the tokens each.
    """
    name = "llama-3.1-70b-instruct"
    assert totals.kv_bytes_per_token(catalogued(name, ExpertLayout(8))) == 40_960
    assert totals.kv_bytes_per_token(catalogued(name, ExpertLayout(16))) == 40_960
    assert totals.kv_bytes_per_token(catalogued(name, ExpertLayout(16, context=2))) == 20_480


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_a_shared_context_parts_the_latents(ranks):
    """DeepSeek-V3: 61 layers · (512 + 64) · 2 B = 70,272 B a token on every rank, or a part."""
    found = catalogued("deepseek-v3", ExpertLayout(8, context=ranks))
    assert totals.kv_bytes_per_token(found) == 70_272 / ranks


def test_decode_of_grouped_attention_gathers_queries_and_scatters_outputs():
    """64 sequences, 4 of 64 heads a rank, two ranks: 8 heads of 128 in 16 bit.

    Queries 64·8·128·2 B = 131,072 B, half sent; sums 64·8·2·4 B = 4,096 B, half sent; outputs as
    the queries. Then o_proj's all-reduce over 16: 2·15/16 of 64·8192·2 B = 1,966,080.
    """
    graph = catalogued("llama-3.1-70b-instruct", ExpertLayout(16, context=2))
    block = run_of(graph, DECODE)
    assert [node.id for node in block.nodes if node.id.startswith("attention.")] == [
        "attention.new.scores",
        "attention.new.mask",
        "attention.new.softmax",
        "attention.new.values",
        "attention.queries",
        "attention.past.scores",
        "attention.past.mask",
        "attention.past.softmax",
        "attention.past.values",
        "attention.sums",
        "attention.scaled",
        "attention.scatter",
        "attention.merged",
        "attention.joined",
    ]
    assert link_bytes(block, DECODE) == {
        "attention.queries": 65_536,
        "attention.sums": 2_048,
        "attention.scatter": 65_536,
        "o_proj.all_reduce": 1_966_080,
        "down_proj.all_reduce": 1_966_080,
    }


def test_fresh_prompts_of_a_shared_context_run_as_without():
    """Every rank has the new keys of its heads: attention and no exchange."""
    graph = catalogued("llama-3.1-70b-instruct", ExpertLayout(16, context=2))
    block = run_of(graph, FRESH)
    assert set(link_bytes(block, FRESH)) == {"o_proj.all_reduce", "down_proj.all_reduce"}
    names = {node.id for node in block.nodes}
    assert "attention.new.values" in names
    assert "attention.past.values" not in names


@pytest.mark.parametrize(("name", "tensor"), [("llama-3.1-70b-instruct", 16), ("deepseek-v3", 8)])
def test_a_shared_context_changes_no_flops_of_a_decode_step(name, tensor):
    """Twice the heads on half of the keys: matrix FLOPs of a rank are those of plain ranks."""
    plain, shared = (catalogued(name, ExpertLayout(tensor, context=r)) for r in (1, 2))
    assert flops(shared) == pytest.approx(flops(plain))


def flops(graph: ModelGraph) -> float:
    block = run_of(graph, DECODE)
    return sum(
        float(node_cost(block, node, DECODE, H100).work.matmul_flops) for node in block.nodes
    )


def test_each_rank_writes_its_part_of_the_new_tokens():
    """64 tokens · 576 · 2 B = 73,728 B over 8 ranks: 9,216."""
    block = run_of(catalogued("deepseek-v3", ExpertLayout(8, context=8)), DECODE)
    write = node_cost(block, block.by_id["mla_cache_write"], DECODE, H100).work
    assert write.cache_write_bytes == 9_216


def test_prompts_behind_a_context_expand_latents_of_all_ranks():
    """1,024 tokens after 3,072: 3,072·576·2 B gathered, 7/8 sent; all 4,096 keys expanded."""
    load = Load((SequenceGroup(1, 1024, 4096),))
    block = run_of(catalogued("deepseek-v3", ExpertLayout(8, context=8)), load)
    assert link_bytes(block, load)["kv_b_proj.prefix"] == 3072 * 576 * 2 * 7 / 8
    expanded = node_cost(block, block.by_id["kv_b_proj.expanded"], load, H100)
    assert expanded.work.matmul_flops == 2 * 4096 * 512 * 16 * (128 + 128)
    fresh = run_of(catalogued("deepseek-v3", ExpertLayout(8, context=8)), FRESH)
    assert "kv_b_proj.prefix" not in fresh.by_id


def test_rows_are_shared_between_a_reduce_scatter_and_an_all_gather():
    """4 ranks: norm and residual on a quarter of the rows; as many bytes pass as before.

    An all-reduce of t·64·2 B sends 2·3/4 of it; the scatter and the gather 3/4 each.
    """
    spec = model(NORMS)
    load = Load((SequenceGroup(1, 100, 100),))
    plain, shared = (
        model_graph(spec, spec.blocks, BF16, layout=ExpertLayout(4, sequence=on)).kinds[1]
        for on in (False, True)
    )
    assert link_bytes(plain, load) == {"down.all_reduce": 2 * 3 / 4 * 12_800}
    assert link_bytes(shared, load) == {
        "h.all_gather": 3 / 4 * 12_800,
        "down.reduce_scatter": 3 / 4 * 12_800,
    }
    assert shared.tensors["h"].shape[0].coefficient == Fraction(1, 4)
    assert node_cost(shared, shared.by_id["norm"], load, H100).work.vector_flops == 4 * 25 * 64
    assert node_cost(shared, shared.by_id["residual"], load, H100).hbm_bytes == 3 * 25 * 64 * 2


def test_rows_that_nobody_scattered_stay_whole():
    """Hidden states that come in whole: the sum is gathered for the residual add."""
    text = NORMS.replace("{block: embed}, ", "").replace(
        "dims: {hidden: 64}", "dims: {hidden: 64}\ninputs: {x: [tokens, hidden]}"
    )
    spec = model(text)
    (block,) = model_graph(spec, spec.blocks, BF16, layout=ExpertLayout(4, sequence=True)).kinds
    assert block.by_id["residual"].inputs == ("x", "back.all_gather")
    assert str(block.tensors["y"].shape[0]) == "tokens"


def test_a_whole_model_shares_rows_from_the_embedding_to_the_head():
    """Llama: the embedding scatters, each layer gathers and scatters twice, the head gathers."""
    graph = catalogued("llama-3.1-70b-instruct", ExpertLayout(8, sequence=True))
    found = [
        [node.id for node in block.nodes if "all_gather" in node.id or "scatter" in node.id]
        for block in graph.kinds
    ]
    assert found == [
        ["embed_tokens.reduce_scatter"],
        ["h.all_gather", "o_proj.reduce_scatter", "m.all_gather", "down_proj.reduce_scatter"],
        ["normed.all_gather", "lm_head.all_gather"],
    ]


def test_groups_that_share_prompts_hold_all_of_the_cache():
    """DeepSeek-V3 on two groups: 70,272 B a token on each rank; latents and keys are gathered.

    4,096 rows of each group: 8,192·512·2 B and 8,192·64·2 B, half of each sent.
    """
    graph = catalogued("deepseek-v3", ExpertLayout(4, 8, 2, prompts=2))
    assert totals.kv_bytes_per_token(graph) == 70_272
    half = Load((SequenceGroup(1, 2048, 2048), SequenceGroup(1, 2048, 8192)), logits=1)
    sent = link_bytes(run_of(graph, half), half)
    assert sent["mla_cache_write.latents"] == 4096 * 512 * 2
    assert sent["mla_cache_write.keys"] == 4096 * 64 * 2
    head = graph.kinds[-1]
    assert link_bytes(head, half)["select_last.rows"] == 4096 * 7168 * 2
    write = node_cost(run_of(graph, half), graph.kinds[-2].by_id["mla_cache_write.all"], half, H100)
    assert write.work.cache_write_bytes == 8192 * 576 * 2


def test_decode_on_groups_that_share_prompts_gathers_nothing_for_the_cache():
    graph = catalogued("deepseek-v3", ExpertLayout(4, 8, 2, prompts=2))
    block = run_of(graph, DECODE)
    assert "mla_cache_write.latents" not in block.by_id
    write = node_cost(block, block.by_id["mla_cache_write.all"], DECODE, H100).work
    assert write.cache_write_bytes == 64 * 576 * 2
