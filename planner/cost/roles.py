"""What a node is to a kernel that nobody wrote yet, by its operator alone."""

from __future__ import annotations

from typing import Literal

from planner.graph.types import Node
from planner.graph.window import NodeKey, Window
from planner.ops.collective import AllGather, AllReduce, ReduceScatter
from planner.ops.moe import Moe
from planner.ops.moe_exchange import Combine, Dispatch
from planner.ops.norm import LayerNorm, RmsNorm
from planner.ops.types import OpClass, as_dim

Role = Literal["element", "state", "row", "result", "product", "experts", "exchange"]
"""``state``: writes a cache, so it may run once only. ``row``: rewrites rows by their statistics.
``result``: keeps nothing of a row but statistics."""

_ELEMENTS = {OpClass.POINTWISE, OpClass.VIEW, OpClass.GATHER}
ONLINE = (RmsNorm, LayerNorm)
"""Norms that commute with a product: (x·w/rms)·W = (x·w·W)/rms, and the mean is taken off by the
sums of W's columns. Their statistics are complete when the product is."""

SUMS = (AllReduce, ReduceScatter)
"""Collectives after which every rank has whole rows again, all or some."""
_EXCHANGES = (*SUMS, AllGather, Dispatch, Combine)

_HEAD = 256
"""Elements of the largest head: of a rank that has one the norm of each is of a row."""


def role_of(node: Node) -> Role | None:
    """What a node is to a flow; None of one that no group may hold."""
    if node.composite:
        return None
    if isinstance(node.op, Moe):
        return "experts"
    if isinstance(node.op, _EXCHANGES):
        return "exchange"
    return _by_class(node)


def _by_class(node: Node) -> Role | None:
    kind = node.op.op_class
    if kind in _ELEMENTS:
        return "element"
    if kind == OpClass.CACHE:
        return "state"
    if kind == OpClass.CONTRACTION:
        return "product"
    return "row" if kind == OpClass.ROW_REDUCTION else None


def _sides(window: Window, key: NodeKey) -> tuple[object, object]:
    """Last sides of a node's first input and output."""
    block = (window.block, window.following)[key[0]]
    assert block is not None
    node = window.node(key)
    shapes = block.tensors[node.inputs[0]].shape, block.tensors[node.outputs[0]].shape
    return shapes[0][-1], shapes[1][-1] if shapes[1] else as_dim(1)


def is_result(window: Window, key: NodeKey) -> bool:
    """Whether a reduction leaves less than rows, so that running statistics are all it keeps."""
    read, written = _sides(window, key)
    return read != written


def is_grouped(window: Window, key: NodeKey) -> bool:
    """Whether it rounds in groups of 128 numbers."""
    return window.tensor((key[0], window.node(key).outputs[0])).dtype == "fp8_group"


def is_narrow(window: Window, key: NodeKey) -> bool:
    """Whether its statistics are of parts of a row that fit any tile: of a head, of 128 numbers."""
    node = window.node(key)
    if is_grouped(window, key):
        return True
    size = getattr(node.op, "size", 0)
    one = as_dim(size) == _sides(window, key)[0]
    return bool(size) and (not one or (isinstance(size, int) and size <= _HEAD))
