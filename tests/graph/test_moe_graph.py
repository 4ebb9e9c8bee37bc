"""Graphs of mixtures of experts on one rank of several: who holds what, which sums follow."""

from __future__ import annotations

import pytest
from graph_samples import BF16, FP8, model

from planner.errors import SpecError
from planner.graph import totals
from planner.graph.build import model_graph
from planner.graph.types import Block, ModelGraph
from planner.ops.types import ExpertLayout, Formats

TEXT = """\
kind: model
name: tiny-moe
title: Tiny mixture of experts
dims: {hidden: 64, experts: 8, top_k: 2, wide: 32, shared: 48}
inputs: {x: [tokens, hidden]}
sequence: [{block: layer, times: 3}]
blocks:
  layer:
    name: layer
    inputs: {x: [tokens, hidden]}
    nodes:
      router: {op: moe_router, in: x, out: routing, experts: experts, top_k: top_k}
      experts: {op: moe, in: [x, routing], out: routed, experts: experts, top_k: top_k, intermediate: wide, partial: true}
      shared_up: {op: linear, in: x, out: up, features: shared, shard: column}
      shared_down: {op: linear, in: up, out: down, features: hidden, shard: partial}
      sum: {op: add, in: [routed, down], out: mixed}
      joined: {op: rank_sum, in: mixed, out: summed}
      residual: {op: add, in: [x, summed], out: y}
    outputs: [y]
"""


def graph(layout: ExpertLayout | None = None, formats: Formats = BF16, text: str = TEXT):
    spec = model(text)
    return model_graph(spec, spec.blocks, formats, layout=layout)


def layer(found: ModelGraph) -> Block:
    (block,) = found.kinds
    return block


def names(found: ModelGraph) -> list[str]:
    return [node.id for node in layer(found).nodes]


def test_on_one_rank_a_sum_over_ranks_is_no_node():
    """Who reads it reads what it would have summed."""
    found = graph()
    assert names(found) == ["router", "experts", "shared_up", "shared_down", "sum", "residual"]
    assert layer(found).by_id["residual"].inputs == ("x", "mixed")


def test_routed_and_shared_experts_share_one_all_reduce():
    """Both leave partial sums; they are added first."""
    found = graph(ExpertLayout(4))
    assert [name for name in names(found) if "all_reduce" in name] == ["joined.all_reduce"]
    assert names(found)[-3:] == ["sum", "joined.all_reduce", "residual"]


def test_a_block_may_end_with_a_sum_over_ranks():
    """Its output is then the sum's input on one rank."""
    text = TEXT.replace("      residual: {op: add, in: [x, summed], out: y}\n", "")
    text = text.replace("outputs: [y]", "outputs: [summed]")
    assert layer(graph(text=text)).outputs == ("mixed",)
    assert layer(graph(ExpertLayout(2), text=text)).outputs == ("summed",)


def test_parameters_of_a_layer_by_hand():
    """Router 64·8, eight experts of 3·64·32, shared 64·48 and 48·64; a token meets two experts."""
    outside = 64 * 8 + 2 * 64 * 48
    assert totals.parameters(graph()) == 3 * (outside + 8 * 3 * 64 * 32)
    assert totals.active_parameters(graph()) == 3 * (outside + 2 * 3 * 64 * 32)


@pytest.mark.parametrize(
    "layout", [ExpertLayout(4), ExpertLayout(4, 4), ExpertLayout(4, 2), ExpertLayout(1, 4, 4)]
)
def test_four_ranks_hold_a_quarter_of_the_experts_each(layout):
    """However they are cut: 2 experts whole, 4 halves or 8 quarters. The router is everywhere."""
    block = layer(graph(layout))
    held = sum(p.elements for p in block.by_id["experts"].parameters)
    assert held == 8 * 3 * 64 * 32 / 4
    assert sum(p.elements for p in block.by_id["router"].parameters) == 64 * 8


@pytest.mark.parametrize("exchange", ["gather", "all_to_all"])
def test_tokens_of_other_replicas_come_and_go(exchange):
    """Experts see four replicas' tokens; what follows sees this one's."""
    block = layer(graph(ExpertLayout(1, 4, 4, exchange)))
    order = [node.id for node in block.nodes]
    first = order.index("experts.dispatch")
    assert order[first : first + 3] == ["experts.dispatch", "experts", "experts.combine"]
    assert str(block.tensors["x.gathered"].shape[0]) == "4*tokens"
    assert block.tensors["routed"].shape == block.tensors["x"].shape
    assert [node.op_name for node in block.nodes if node.id.startswith("experts.")] == [
        "moe_dispatch",
        "moe_combine",
    ]


def test_experts_narrow_their_own_inputs():
    """Linears share a quantised copy of x; routed experts and the router read x itself."""
    block = layer(graph(formats=FP8))
    assert block.by_id["shared_up"].inputs == ("x.quant",)
    assert block.by_id["experts"].inputs == ("x", "routing")
    assert block.by_id["experts"].matmul_dtype == "fp8"
    assert block.by_id["router"].matmul_dtype == "bf16"


def test_experts_that_do_not_divide_are_refused_where_they_stand():
    with pytest.raises(SpecError) as caught:
        graph(ExpertLayout(3, 3))
    assert "node 'experts': 8 experts do not divide over 3 ranks" in str(caught.value)
