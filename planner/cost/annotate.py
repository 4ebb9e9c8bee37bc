"""The graph pass: FLOPs and bytes of every node of a block under a load, and its crossing batch."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.types import Device, NodeCost
from planner.graph.types import Block, Node
from planner.num import Number
from planner.ops.types import Dim, Load, SequenceGroup, Symbol, Work

_ONE_TOKEN = Load((SequenceGroup(1, 1, 1),))


@dataclass(frozen=True)
class BlockCosts:
    """The ledgers of one kind of block, in topological order."""

    block: Block
    load: Load
    nodes: dict[str, NodeCost]


def annotate(block: Block, load: Load, device: Device) -> BlockCosts:
    """Price every node of a block as if it ran alone. The one pass that all later ones read."""
    return BlockCosts(
        block, load, {node.id: node_cost(block, node, load, device) for node in block.nodes}
    )


def node_cost(block: Block, node: Node, load: Load, device: Device) -> NodeCost:
    """The ledger of one node."""
    site = block.site(node, load)
    if node.op.matrix:
        peak, ridge = device.peak(node.matmul_dtype), device.ridge(node.matmul_dtype)
    else:
        peak, ridge = device.vector_flops_per_s, device.vector_ridge
    return NodeCost(
        node,
        site,
        node.op.work(site),
        node.op.input_bytes(site),
        tuple(tensor.bytes(load) for tensor in site.outputs),
        peak,
        ridge,
        crossing_tokens(block, node, ridge),
    )


def crossing_tokens(block: Block, node: Node, ridge: float) -> float | None:
    """M*, the rows at which a GEMM's intensity reaches the ridge, exactly and as a real number.

    FLOPs are f·M and bytes w + a·M (weights, and activations per row), so the intensity is
    f·M / (w + a·M) and meets the ridge r at M* = r·w / (f − r·a). Where f ≤ r·a the activations
    alone keep it under the ridge at any M: None. P·b/2B is the limit of vanishing activations.
    Only operators whose private bytes are weights have a crossing: attention's grow with the load.
    """
    if not node.op.matrix or not node.parameters or not _per_token(block, node):
        return None
    site = block.site(node, _ONE_TOKEN)
    work: Work = node.op.work(site)
    per_row: Number = sum(node.op.input_bytes(site)) + sum(t.bytes(site.load) for t in site.outputs)
    slope = work.matmul_flops - ridge * per_row
    if slope <= 0:
        return None
    return float(ridge * work.weight_bytes / slope)


def _per_token(block: Block, node: Node) -> bool:
    """Whether the node's rows are the step's tokens (or sequences), one for one."""
    first: Dim = block.tensors[node.inputs[0]].shape[0]
    symbols: tuple[Symbol, ...] = first.symbols
    return symbols in {("tokens",), ("sequences",)} and first.coefficient == 1
