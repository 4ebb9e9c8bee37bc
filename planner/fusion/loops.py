"""Groups by classes as a compiler of loops forms them: what it stores, and which loops it joins.

Inductor decides first which results are written out: what a library's call reads, what leaves the
graph, statistics of rows, and what is read more than once and made of many operands. Everything
else is part of every kernel that reads it. Then it joins loops over equally many elements, and
loops over rows with loops over their elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from weakref import WeakKeyDictionary

from planner.fusion.addmm import loose_biases, sums_in_calls
from planner.fusion.traits import (
    LOOPS,
    elements,
    ends_in_elements,
    is_exponential,
    is_join,
    is_moved,
    is_unrolled,
    is_view,
    operations,
    places,
    shapes_of,
    statistics,
    weights,
)
from planner.graph.window import NodeKey, TensorKey, Window
from planner.ops.dims import Dim, as_dim
from planner.ops.types import OpClass
from planner.spec.types import LoopRule

_IMAGE = 4
"""Sides of a batch of images, whose channels stand last in memory, whatever side they are."""

Operands = frozenset[tuple[object, ...]]
Body = frozenset[tuple[NodeKey, ...]]
Extent = tuple[Dim, Dim]
"""Of a loop nest: how many rows, and how many elements in all of them."""


@dataclass
class Loops:
    """The nodes of a window as loops."""

    window: Window
    rule: LoopRule
    unstored: set[NodeKey] = field(default_factory=set)
    """Nodes whose results no kernel writes."""
    made: dict[TensorKey, Operands] = field(default_factory=dict)
    """What those results are made of."""
    breaks: dict[NodeKey, frozenset[int]] = field(default_factory=dict)
    """Where a node's loops over elements stay apart: for tables that repeat over outer ones."""
    calls: dict[NodeKey, NodeKey] = field(default_factory=dict)
    """Sums that are part of a library's call, each with the product in front."""
    loose: frozenset[NodeKey] = frozenset()
    """Products whose bias is part of the loops that read them."""
    heavy: set[NodeKey] = field(default_factory=set)
    """Nodes whose loops compute exponentials, of what is not stored in front of them too."""
    body: dict[NodeKey, Body] = field(default_factory=dict)
    """What a node's loops compute: nodes, each with the moves behind which it is computed apart."""

    def __post_init__(self) -> None:
        """Decide node by node, in order."""
        self.calls = sums_in_calls(self.window, self.rule)
        self.loose = loose_biases(self.window, self.rule)
        for key in self.window.keys:
            operands = self._operands(key)
            self.breaks[key] = self._breaks(key)
            inlined = self._inlined(key)
            if is_exponential(self.window.node(key), self.rule) or self.heavy & set(inlined):
                self.heavy.add(key)
            self.body[key] = self._body(key, inlined)
            if key in self.loose and not self._is_called(key):
                bias: Operands = frozenset([("weight", key, 0)])
                self.made |= {tensor: bias | {tensor} for tensor in self.window.outputs(key)}
            elif not self._is_stored(key, operands):
                self.unstored.add(key)
                self.made |= dict.fromkeys(self.window.outputs(key), operands)

    def users(self, key: NodeKey) -> list[NodeKey]:
        """Who reads what a node writes."""
        found = []
        for tensor in self.window.outputs(key):
            for user in self.window.readers.get(tensor, ()):
                seen = is_view(self.window.node(user), self.rule)
                found += self.users(user) if seen else [user]
        return found

    @property
    def repeated(self) -> set[NodeKey]:
        """What each kernel of loops that reads it computes again, a loose bias among it."""
        return self.unstored | {k for k in self.loose if self.window.outputs(k)[0] in self.made}

    def is_call(self, key: NodeKey) -> bool:
        """Whether a node is no loop, but a library's call or part of one."""
        return key in self.calls or self.window.node(key).op.op_class not in LOOPS

    def _is_called(self, key: NodeKey) -> bool:
        """Whether a node's result is stored whatever it is: a call reads it, or it leaves."""
        leaves = self.window.escaping & set(self.window.outputs(key))
        return bool(leaves) or any(self.is_call(user) for user in self.users(key))

    def _breaks(self, key: NodeKey) -> frozenset[int]:
        node = self.window.node(key)
        held = getattr(node.op, "weights", 0) if node.op_name == "elementwise" else 0
        shape = shapes_of(self.window, key)[1][0]
        last = {shape[1], shape[-1]} if len(shape) == _IMAGE else {*shape[-1:]}
        own = {held} if held > 1 and as_dim(held) not in last else set()
        makers = [self.window.producer.get(tensor) for tensor in self.window.inputs(key)]
        inlined = [self.breaks[maker] for maker in makers if maker in self.unstored]
        return frozenset(own).union(*inlined)

    def _operands(self, key: NodeKey) -> Operands:
        """Stored tensors a result is made of: those of unstored inputs, weights, statistics."""
        own: list[tuple[object, ...]]
        own = [("weight", key, n) for n in range(weights(self.window, key))]
        own += [("row", key, n) for n in range(statistics(self.window, key))]
        read: Iterator[Operands]
        read = (self._loaded(tensor) for tensor in self.window.inputs(key))
        count = places(self.window, key, self.rule)
        if count > 1 or is_moved(self.window.node(key)):  # not where others read them
            read = (frozenset((key, *at) for at in product(held, range(count))) for held in read)
        return frozenset(own).union(*read)

    def _loaded(self, tensor: TensorKey) -> Operands:
        """What is read for a tensor: of one that is not stored, views or not, what made it."""
        maker = self.window.producer.get(tensor)
        if tensor in self.made or maker is None:
            return self.made.get(tensor, frozenset([tensor]))
        if not is_view(self.window.node(maker), self.rule):
            return frozenset([tensor])
        held = self._loaded(self.window.inputs(maker)[0])
        return held if held != frozenset(self.window.inputs(maker)) else frozenset([tensor])

    def _body(self, key: NodeKey, inlined: list[NodeKey]) -> Body:
        whole = frozenset([(key,)]).union(*(self.body[maker] for maker in inlined))
        moved = is_moved(self.window.node(key))
        return frozenset((key, *place) for place in whole) if moved else whole

    def _is_stored(self, key: NodeKey, operands: Operands) -> bool:
        users = self.users(key)
        if self.is_call(key) or self._is_called(key):
            return True
        ends = ends_in_elements(self.window, key, self.rule)
        if not ends or (is_join(self.window.node(key)) and not self.rule.joins):
            return True
        several = len(users) > 1 or any(statistics(self.window, user) for user in users)
        limit = self.rule.operands if several else self.rule.most
        if limit is not None and len(operands) > limit:
            return True
        computed = (self.window.node(place[-1]) for place in self.body[key])
        length = sum(map(operations, computed)) + len(operands)
        if self.rule.operations is not None and length > self.rule.operations:
            return True
        if len(operands) > 1 and any(self.window.node(user).op_name == "pool" for user in users):
            return True
        spread = [user for user in users if not is_join(self.window.node(user))]
        wider = any(_whole(self, user) != _whole(self, key) for user in spread)
        return key in self.heavy and (several or wider)

    def _inlined(self, key: NodeKey) -> list[NodeKey]:
        """Nodes in front, views left out, that are part of this one's loops."""
        makers = (self.window.producer.get(tensor) for tensor in self._sources(key))
        return [maker for maker in makers if maker in self.unstored]

    def _sources(self, key: NodeKey) -> Iterator[TensorKey]:
        """What a node reads, ahead of views."""
        for tensor in self.window.inputs(key):
            maker = self.window.producer.get(tensor)
            seen = maker is not None and is_view(self.window.node(maker), self.rule)
            yield from self._sources(maker) if maker and seen else (tensor,)

    def extent(self, key: NodeKey) -> Extent | None:
        """The loops of a node; None where its tensors do not say, as within attention."""
        node = self.window.node(key)
        if node.composite:
            return None
        inputs, outputs = shapes_of(self.window, key)
        if not self.reduces(key):
            return (elements(outputs[0]),) * 2
        whole = elements(inputs[0])
        if not statistics(self.window, key):
            return elements(outputs[0]), whole
        size = getattr(node.op, "size", 0)
        return whole / size if size else elements(inputs[0][:-1]), whole

    def reduces(self, key: NodeKey) -> bool:
        """Whether a node has loops over rows."""
        reduction = self.window.node(key).op.op_class == OpClass.ROW_REDUCTION
        return reduction and not is_unrolled(self.window, key, self.rule)


def _whole(loops: Loops, key: NodeKey) -> Dim | None:
    extent = loops.extent(key)
    return extent[1] if extent else None


_known: WeakKeyDictionary[Window, dict[LoopRule, Loops]] = WeakKeyDictionary()


def loops_of(window: Window, rule: LoopRule) -> Loops:
    """The loops of a window, found once."""
    kept = _known.setdefault(window, {})
    if rule not in kept:
        kept[rule] = Loops(window, rule)
    return kept[rule]
