"""The graph pass: FLOPs and bytes of every node of a block under a load, and its crossing batch."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from planner.cost.types import Device, NodeCost
from planner.graph.types import Block, Node
from planner.num import Number
from planner.ops.types import Dim, Load, SequenceGroup, Symbol, Work
from planner.records import dataclass

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
        _known_crossing(block, node, ridge),
    )


_crossings: WeakKeyDictionary[Block, dict[tuple[str, float], float | None]] = WeakKeyDictionary()


def _known_crossing(block: Block, node: Node, ridge: float) -> float | None:
    """As `crossing_tokens`, found once for each node and ridge: no load changes it."""
    known = _crossings.setdefault(block, {})
    key = (node.id, ridge)
    if key not in known:
        known[key] = crossing_tokens(block, node, ridge)
    return known[key]


def crossing_tokens(block: Block, node: Node, ridge: float) -> float | None:
    """M*, the rows at which a GEMM's intensity reaches the ridge, exactly and as a real number.

    FLOPs are f·M and bytes w + a·M (weights, and activations per row), so the intensity is
    f·M / (w + a·M) and meets the ridge r at M* = r·w / (f − r·a). Where f ≤ r·a the activations
    alone keep it under the ridge at any M: None. P·b/2B is the limit of vanishing activations.
    Only operators whose private bytes are weights have a crossing: attention's grow with the load.
    """
    if not node.op.matrix or not node.parameters or not _per_token(block, node):
        return None
    if node.op.share_of_weights:
        return _crossing(block, node, ridge)
    site = block.site(node, _ONE_TOKEN)
    work: Work = node.op.work(site)
    per_row: Number = sum(node.op.input_bytes(site)) + sum(t.bytes(site.load) for t in site.outputs)
    slope = work.matmul_flops - ridge * per_row
    if slope <= 0:
        return None
    return float(ridge * work.weight_bytes / slope)


_MOST_TOKENS = 2**24
"""Tokens in flight beyond which a crossing is of no use to anybody."""


def _crossing(block: Block, node: Node, ridge: float) -> float | None:
    """M* of an operator that reads more of its weights the more tokens there are, by bisection.

    Touched experts grow ever more slowly, so the intensity only rises.
    """
    low, high = 1.0, 2.0
    while _intensity(block, node, high) < ridge:
        low, high = high, high * 2
        if high > _MOST_TOKENS:
            return None
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _intensity(block, node, middle) < ridge else (low, middle)
    return high


def _intensity(block: Block, node: Node, tokens: float) -> float:
    site = block.site(node, Load((SequenceGroup(tokens, 1, 1),)))
    work = node.op.work(site)
    moved = sum(node.op.input_bytes(site)) + sum(t.bytes(site.load) for t in site.outputs)
    return float(work.matmul_flops / (moved + work.private_bytes))


def _per_token(block: Block, node: Node) -> bool:
    """Whether the node's rows are the step's tokens (or sequences), one for one."""
    first: Dim = block.tensors[node.inputs[0]].shape[0]
    symbols: tuple[Symbol, ...] = first.symbols
    return symbols in {("tokens",), ("sequences",)} and first.coefficient == 1
