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

from planner.cost.roles import ONLINE, SUMS, is_grouped, is_narrow, is_result, role_of
from planner.graph.types import Node
from planner.graph.window import NodeKey, Window
from planner.ops.collective import RowGather
from planner.ops.linear import Linear, MatMul
from planner.ops.mla import HeadLinear
from planner.ops.moe import MoeRouter
from planner.ops.moe_exchange import Combine, Dispatch

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
    """Whether a statistic behind the last pass needs whole rows of its result."""
    held: bool = False
    """Whether one between two passes needs whole rows of the first one's."""
    joint: bool = False
    """Whether results of several products meet element by element."""
    rows: tuple[NodeKey, ...] = ()
    """Nodes that keep whole rows, of no products, or behind the one that follows attention."""
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
        return self.exchange is not None and bool(self.products or self.chained or self.experts)


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
        if stage > 1 and not linear:
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
        return all(self.stage[each] < self.stage[key] for each in self.whole)

    def _row(self, key: NodeKey) -> bool:
        if is_narrow(self.window, key):
            return True
        if is_result(self.window, key):
            self.ended.add(key)
            return True
        if self.stage[key] and not self._whole_here:
            return False
        if self.stage[key] and self.experts is None:
            if not all(isinstance(self._op(each), _IN_ROWS) for each in self.products[0]):
                return False
            self.whole.add(key)
        else:
            self.rows.append(key)
        return True

    @property
    def _whole_here(self) -> bool:
        """Whether rows behind products are whole on one rank: nothing travels, or what came or is
        summed up does.
        """
        return self.exchange in {None, self.arrived} or isinstance(self._op(self.exchange), SUMS)

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
            any(self.stage[key] == 1 + bool(chained) for key in self.whole),
            bool(chained) and not all(map(self._commutes, self._between)),
            len(products) > 1 and len(behind) > len(products),
            () if products or self.experts else tuple(self.rows),
            self.experts,
            self.exchange,
            self.arrived if products or self.experts else None,
        )

    @property
    def _between(self) -> Iterator[NodeKey]:
        """Statistics of whole rows behind the first pass."""
        return (key for key in self.whole if self.stage[key] == 1)

    def _commutes(self, key: NodeKey) -> bool:
        """Whether a norm's result is read by second products alone, at most rounded in groups: its
        statistics are then complete when these are.
        """
        return isinstance(self._op(key), ONLINE) and self._is_multiplied(key)

    def _is_multiplied(self, key: NodeKey) -> bool:
        window = self.window
        return not any(tensor in window.escaping for tensor in window.outputs(key)) and all(
            reader in self.products[1]
            or (role_of(window.node(reader)) == "row" and self._rounds(reader))
            for tensor in window.outputs(key)
            for reader in window.readers.get(tensor, ())
        )

    def _rounds(self, key: NodeKey) -> bool:
        """Whether it is a rounding in groups, within the kernel, for second products alone."""
        grouped = is_grouped(self.window, key)
        return key in self.stage and grouped and self._is_multiplied(key)

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
