"""What a group of nodes asks of one kernel, by what each operator's results depend on.

A tile of an elementwise result needs the same tile of its inputs; of a normalised row, the whole
row's statistics; of a matrix product, whole rows of its first operand. So a kernel walks at most
two products: what stands in front of the first is computed again by every tile of columns, what
stands behind keeps to its tile, unless a statistic needs the whole row; and a second product sums
up over slices of the first one's result. A collective passes a tile on once it is complete; rows
that come from other ranks may be multiplied while the next are on their way. Structure alone:
whether a tile fits is asked of a GPU.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from planner.graph.types import Node
from planner.graph.window import NodeKey, Window
from planner.ops.collective import AllGather, AllReduce, ReduceScatter, RowGather
from planner.ops.linear import Linear, MatMul
from planner.ops.mla import HeadLinear
from planner.ops.moe import Moe, MoeRouter
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

_EXCHANGES = (AllReduce, ReduceScatter, AllGather, Dispatch, Combine)
_ARRIVALS = (RowGather, Dispatch)
"""Collectives that bring whole rows, which may be multiplied as they come."""

_IN_ROWS = (Linear, HeadLinear, MatMul)
"""Products whose results are rows of their last side, as images' are not."""

Slot = tuple[NodeKey, int]
"""A node and one of its inputs by position."""


@dataclass(frozen=True)
class Flow:
    """A group as one kernel runs it."""

    products: tuple[NodeKey, ...] = ()
    """Products of one input: the first pass."""
    chained: tuple[NodeKey, ...] = ()
    """Products of what the first pass computes."""
    before: tuple[NodeKey, ...] = ()
    """Nodes that each tile of columns computes again in front of the products."""
    before_reads: tuple[Slot, ...] = ()
    """What those read from outside."""
    twice: bool = False
    """Whether the products' input is read first for statistics alone, as to quantise it."""
    whole: bool = False
    """Whether a statistic behind a first and only pass needs whole rows of its result."""
    joint: bool = False
    """Whether results of several products meet element by element."""
    rows: tuple[NodeKey, ...] = ()
    """Nodes that keep whole rows, where there are no products."""
    experts: NodeKey | None = None
    exchange: NodeKey | None = None
    arrived: NodeKey | None = None
    """The collective whose rows are multiplied as they come."""
    attention: tuple[NodeKey, ...] = ()
    """The parts of the attention that it is built around."""
    by_head: tuple[NodeKey, ...] = ()
    """Products of each head by itself beside that attention."""
    shared: tuple[NodeKey, ...] = ()
    """Products whose results all queries of a KV head share."""
    beside: tuple[NodeKey, ...] = ()
    """Nodes right in front of that attention."""

    @property
    def overlaps(self) -> bool:
        """Whether tiles travel between ranks while others are multiplied."""
        return self.exchange is not None and bool(self.products or self.experts)


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


def flow_of(window: Window, ordered: Iterable[NodeKey]) -> Flow | None:
    """How one kernel runs nodes, given in order; None where it cannot, by semantics."""
    walk = _Walk(window)
    return walk.flow() if all(walk.takes(key) for key in ordered) else None


@dataclass
class _Walk:
    """Goes through a group node by node."""

    window: Window
    stage: dict[NodeKey, int] = field(default_factory=dict)
    """How many products each node comes after, itself counted."""
    ended: set[NodeKey] = field(default_factory=set)
    """Nodes behind which no product may follow: their tiles are complete rows, or rank sums."""
    whole: set[NodeKey] = field(default_factory=set)
    """Row statistics behind a product."""
    rows: list[NodeKey] = field(default_factory=list)
    states: set[NodeKey] = field(default_factory=set)
    products: tuple[list[NodeKey], list[NodeKey]] = field(default_factory=lambda: ([], []))
    experts: NodeKey | None = None
    exchange: NodeKey | None = None
    arrived: NodeKey | None = None

    def takes(self, key: NodeKey) -> bool:
        """Whether a node may be part of the kernel; in order."""
        node = self.window.node(key)
        role = role_of(node)
        before = [each for each in self.window.predecessors[key] if each in self.stage]
        self.stage[key] = max((self.stage[each] for each in before), default=0)
        if any(each in self.ended for each in before):
            self.ended.add(key)
        if role == "product":
            return self._product(key, node, before)
        if role == "experts":
            return self._experts(key, before)
        if role == "exchange":
            return self._exchange(key, node)
        if role == "row":
            return self._row(key)
        if role == "state":
            self.states.add(key)
        return role is not None

    def _product(self, key: NodeKey, node: Node, before: list[NodeKey]) -> bool:
        stage = self.stage[key] = self.stage[key] + 1
        if key in self.ended or stage > len(self.products):
            return False
        if before and not self._reads_rows(key, node):
            return False
        linear = all(isinstance(self._op(each), Linear) for each in (key, *self.products[0]))
        if stage > 1 and (self.whole or not linear):
            return False
        same = self.products[stage - 1]
        same.append(key)
        return self._first(same[0]) == self._first(key)

    def _reads_rows(self, key: NodeKey, node: Node) -> bool:
        """Whether a product's rows alone are computed here, and may be so tile by tile."""
        if not isinstance(node.op, Linear | MoeRouter):
            return False
        others = self.window.inputs(key)[1:]
        return all(self.window.producer.get(tensor) not in self.stage for tensor in others)

    def _first(self, key: NodeKey) -> object:
        return self.window.inputs(key)[0]

    def _op(self, key: NodeKey) -> object:
        return self.window.node(key).op

    def _experts(self, key: NodeKey, before: list[NodeKey]) -> bool:
        """Experts read complete rows: of memory, of other ranks, or normalised in front."""
        if self.experts or key in self.ended:
            return False
        self.experts = key
        self.ended.add(key)
        roles = {role_of(self.window.node(each)) for each in before if each != self.arrived}
        return roles <= {"element", "row"} and not self.stage[key]

    def _exchange(self, key: NodeKey, node: Node) -> bool:
        """Ranks exchange complete tiles, once in a kernel; to experts and back is once."""
        back = isinstance(node.op, Combine) and self.experts and self.arrived == self.exchange
        if (self.exchange and not back) or (key in self.ended and not self.experts):
            return False
        if isinstance(node.op, Dispatch) and self.stage[key]:
            return False
        self.exchange = self.exchange or key
        if isinstance(node.op, _ARRIVALS) and not (self.stage[key] or self.experts):
            self.arrived = key
            return True
        self.ended.add(key)
        return not self.whole and self.stage[key] <= 1

    def _row(self, key: NodeKey) -> bool:
        if is_narrow(self.window, key):
            return True
        if _is_result(self.window, key):
            self.ended.add(key)
            return True
        if self.exchange and self.stage[key]:
            return False
        if self.stage[key] and self.experts is None:
            if not all(isinstance(self._op(each), _IN_ROWS) for each in self.products[0]):
                return False
            self.whole.add(key)
        else:
            self.rows.append(key)
        return True

    def flow(self) -> Flow | None:
        """What was walked; None where something would run twice that may not."""
        products, chained = map(tuple, self.products)
        before = self._before((*products, self.experts) if self.experts else products)
        if self.states.intersection(before) or (products and self.experts):
            return None
        behind = [key for key in self.stage if self.stage[key] == 1]
        return Flow(
            products,
            chained,
            before,
            tuple(reads_from(self.window, before, self.stage.keys() - {self.arrived})),
            any(not isinstance(self._op(key), ONLINE) for key in self.rows if key in before),
            bool(self.whole) and not chained,
            len(products) > 1 and len(behind) > len(products),
            () if products or self.experts else tuple(self.rows),
            self.experts,
            self.exchange,
            self.arrived if products or self.experts else None,
        )

    def _before(self, products: tuple[NodeKey, ...]) -> tuple[NodeKey, ...]:
        found: set[NodeKey] = set()
        for key in products:
            found |= self.window.ancestors[key]
        if self.arrived:
            found -= {self.arrived, *self.window.ancestors[self.arrived]}
        return tuple(key for key in self.stage if key in found)


def reads_from(
    window: Window, keys: Iterable[NodeKey], inside: Container[NodeKey]
) -> Iterator[Slot]:
    """What nodes read from outside a kernel, each tensor once."""
    seen = set()
    for key in keys:
        for position, tensor in enumerate(window.inputs(key)):
            if window.producer.get(tensor) not in inside and tensor not in seen:
                seen.add(tensor)
                yield key, position


def _sides(window: Window, key: NodeKey) -> tuple[object, object]:
    """Last sides of a node's first input and output."""
    block = (window.block, window.following)[key[0]]
    assert block is not None
    node = window.node(key)
    shapes = block.tensors[node.inputs[0]].shape, block.tensors[node.outputs[0]].shape
    return shapes[0][-1], shapes[1][-1] if shapes[1] else as_dim(1)


def _is_result(window: Window, key: NodeKey) -> bool:
    """Whether a reduction leaves less than rows, so that running statistics are all it keeps."""
    read, written = _sides(window, key)
    return read != written


def is_narrow(window: Window, key: NodeKey) -> bool:
    """Whether its statistics are of parts of a row that fit any tile: of a head, of 128 numbers."""
    node = window.node(key)
    if window.tensor((key[0], node.outputs[0])).dtype == "fp8_group":
        return True
    size = getattr(node.op, "size", 0)
    return bool(size) and as_dim(size) != _sides(window, key)[0]
