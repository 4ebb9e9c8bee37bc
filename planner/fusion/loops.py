"""Groups by classes as a compiler of loops forms them: what it stores, and which loops it joins.

Inductor decides first which results are written out: what a library's call reads, what leaves the
graph, statistics of rows, and what is read more than once and made of many operands. Everything
else is part of every kernel that reads it. Then it joins loops over equally many elements, and
loops over rows with loops over their elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from weakref import WeakKeyDictionary

from planner.fusion.sums import is_view, loose_biases, sums_in_calls
from planner.graph.types import Node
from planner.graph.window import NodeKey, TensorKey, Window
from planner.ops.dims import Dim, as_dim
from planner.ops.pointwise import EXP_FLOPS
from planner.ops.types import OpClass, Shape
from planner.spec.types import FusionRule, LoopRule

_LOOPS = {OpClass.POINTWISE, OpClass.GATHER, OpClass.ROW_REDUCTION}
_STATISTICS = {"layer_norm": 2, "rms_norm": 1, "softmax": 2, "attention.softmax": 2}
"""Numbers of each row that are stored, of reductions that end element by element."""

_IMAGE = 4
"""Sides of a batch of images."""

Operands = frozenset[tuple[object, ...]]
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

    def __post_init__(self) -> None:
        """Decide node by node, in order."""
        self.calls = sums_in_calls(self.window, self.rule)
        self.loose = loose_biases(self.window, self.rule)
        for key in self.window.keys:
            operands = self._operands(key)
            self.breaks[key] = self._breaks(key)
            if self._is_heavy(key):
                self.heavy.add(key)
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
        return key in self.calls or self.window.node(key).op.op_class not in _LOOPS

    def _is_called(self, key: NodeKey) -> bool:
        """Whether a call reads what a node writes, or it leaves the graph: it is stored."""
        leaves = self.window.escaping & set(self.window.outputs(key))
        return bool(leaves) or any(self.is_call(user) for user in self.users(key))

    def _breaks(self, key: NodeKey) -> frozenset[int]:
        node = self.window.node(key)
        held = getattr(node.op, "weights", 0) if node.op_name == "elementwise" else 0
        last = self.shapes(key)[1][0][-1:]
        own = {held} if held > 1 and (as_dim(held),) != last else set()
        makers = [self.window.producer.get(tensor) for tensor in self.window.inputs(key)]
        inlined = [self.breaks[maker] for maker in makers if maker in self.unstored]
        return frozenset(own).union(*inlined)

    def _operands(self, key: NodeKey) -> Operands:
        """Stored tensors a result is made of: those of unstored inputs, weights, statistics."""
        node = self.window.node(key)
        own: list[tuple[object, ...]] = [("weight", key, n) for n in range(len(node.parameters))]
        own += [("row", key, n) for n in range(_STATISTICS.get(node.op_name, 0))]
        read = (self.made.get(tensor, frozenset([tensor])) for tensor in self.window.inputs(key))
        return frozenset(own).union(*read)

    def _is_stored(self, key: NodeKey, operands: Operands) -> bool:
        node, users = self.window.node(key), self.users(key)
        if self.is_call(key) or self._is_called(key):
            return True
        if not _ends_in_elements(node) or (is_join(node) and not self.rule.joins):
            return True
        limit = self.rule.operands if len(users) > 1 else self.rule.most
        if limit is not None and len(operands) > limit:
            return True
        wider = any(_whole(self, user) != _whole(self, key) for user in users)
        return key in self.heavy and (len(users) > 1 or wider)

    def _is_heavy(self, key: NodeKey) -> bool:
        node = self.window.node(key)
        flops = getattr(node.op, "flops", 0) if node.op_name == "elementwise" else 0
        own = node.op_name in self.rule.stored or (self.rule.stored and flops >= EXP_FLOPS)
        makers = (self.window.producer.get(tensor) for tensor in self.window.inputs(key))
        return bool(own) or any(m in self.heavy and m in self.unstored for m in makers if m)

    def extent(self, key: NodeKey) -> Extent | None:
        """The loops of a node; None where its tensors do not say, as within attention."""
        node = self.window.node(key)
        if node.composite:
            return None
        inputs, outputs = self.shapes(key)
        if node.op.op_class != OpClass.ROW_REDUCTION:
            return (_elements(outputs[0]),) * 2
        whole = _elements(inputs[0])
        if node.op_name not in _STATISTICS:
            return _elements(outputs[0]), whole
        size = getattr(node.op, "size", 0)
        return whole / size if size else _elements(inputs[0][:-1]), whole

    def shapes(self, key: NodeKey) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
        """Shapes of what a node reads and of what it writes."""
        block = (self.window.block, self.window.following)[key[0]]
        assert block is not None
        node = self.window.node(key)
        return block.shapes_of(node), tuple(block.tensors[t].shape for t in node.outputs)


def is_join(node: Node) -> bool:
    """Whether a node puts tensors side by side."""
    several = len(node.inputs) > 1 or bool(node.parameters)
    return node.op_name == "concat" or (node.op_name == "copy" and several)


def _ends_in_elements(node: Node) -> bool:
    """Whether the last thing a node does is to compute element by element."""
    reduces = node.op.op_class == OpClass.ROW_REDUCTION
    return node.op_name in _STATISTICS if reduces else node.op.op_class in _LOOPS


def _elements(shape: Shape) -> Dim:
    return reduce(lambda product, side: product * side, shape, as_dim(1))


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


def groups(
    rule: FusionRule, loop: LoopRule, window: Window, allowed: set[NodeKey]
) -> Iterator[frozenset[NodeKey]]:
    """Groups that can be one kernel of a compiler of loops, each once.

    They are made of whole atoms: a stored result with what is not stored and first read by it.
    """
    loops = loops_of(window, loop)
    allowed = allowed - set(loops.calls)
    atoms = _atoms(loops, allowed)
    starts = dict.fromkeys(atom for key, atom in atoms.items() if key[0] == 0)
    seen: set[frozenset[NodeKey]] = set()
    frontier = [(atom, 1) for atom in starts]
    while frontier:
        group, count = frontier.pop()
        if group in seen:
            continue
        seen.add(group)
        yield group
        if count < rule.max_nodes:
            near = {atoms[key] for key in around(window, group) & allowed - group}
            grown = [group | atom for atom in near]
            frontier += [(each, count + 1) for each in grown if _fits(loops, each)]


def _atoms(loops: Loops, allowed: set[NodeKey]) -> dict[NodeKey, frozenset[NodeKey]]:
    """By node: what always runs in one kernel with it."""
    found: dict[NodeKey, frozenset[NodeKey]] = {}
    for key in reversed(loops.window.keys):
        if key not in allowed:
            continue
        found[key] = frozenset([key])
        users = [user for user in loops.users(key) if user in found]
        if key in loops.unstored and users:
            first = min(users, key=loops.window.position.__getitem__)
            whole = found[first] | found[key]
            if _fits(loops, whole) and loops.window.is_convex(whole):
                found |= dict.fromkeys(whole, whole)
    return found


def around(window: Window, group: frozenset[NodeKey]) -> set[NodeKey]:
    """Nodes that share an edge with a group."""
    found: set[NodeKey] = set()
    for key in group:
        found |= window.predecessors[key]
        for tensor in window.outputs(key):
            found.update(window.readers.get(tensor, ()))
    return found


def _fits(loops: Loops, group: frozenset[NodeKey]) -> bool:
    """Whether all that is stored or reduced runs in loops that can be joined."""
    window, rule = loops.window, loops.rule
    if not rule.joins and len(group) > 1 and any(is_join(window.node(key)) for key in group):
        return False
    nests = [key for key in group if key not in loops.unstored or _reduces(window, key)]
    if rule.nests and len({loops.breaks[key] for key in nests}) > 1:
        return False
    if any(_against_order(loops, key, group) for key in nests):
        return False
    extents = [extent for key in nests if (extent := loops.extent(key))]
    return _alike(extents, nests=rule.nests)


def _alike(extents: list[Extent], *, nests: bool) -> bool:
    """Whether loops run over the same rows, or over all elements of them.

    ``nests``: or have the rows in common as outer loops, whatever runs inside.
    """
    rows = [extent for extent in extents if extent[0] != extent[1]]
    if not rows:
        return len({whole for _, whole in extents}) <= 1
    first = min(rows, key=lambda extent: extent[0].coefficient) if nests else rows[0]
    return all(
        extent == first or _over(extent, first) or (nests and _inside(extent, first))
        for extent in extents
    )


def _reduces(window: Window, key: NodeKey) -> bool:
    return window.node(key).op.op_class == OpClass.ROW_REDUCTION


def _over(extent: Extent, rows: Extent) -> bool:
    """Whether element-wise loops run over the rows, or over all that is in them."""
    return extent[0] == extent[1] and extent[0] in rows


def _inside(extent: Extent, rows: Extent) -> bool:
    """Whether loops can stand inside a loop over the rows: rows of what the rows are made of."""
    own, outer = extent[0], rows[0]
    if extent[0] == extent[1]:
        return own.symbols == outer.symbols and (own.coefficient / outer.coefficient) % 1 == 0
    return own == rows[1]


def _against_order(loops: Loops, key: NodeKey, group: frozenset[NodeKey]) -> bool:
    """Whether a node reduces images whose stored pixels the group writes: channels stand last."""
    window = loops.window
    node, inputs = window.node(key), window.inputs(key)
    if node.op_name != "reduction" or len(loops.shapes(key)[0][0]) != _IMAGE:
        return False
    makers = {window.producer.get(tensor) for tensor in inputs}
    return any(maker in group and maker not in loops.unstored for maker in makers)
