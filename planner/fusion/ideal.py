"""Groups that a perfect compiler could build, whatever the engine has.

A first, modest set: elementwise and row-wise operators around at most one contraction, siblings
that share an input merged into one contraction, attention as a whole. Row statistics are taken to
be computed online, so that no row has to fit on the chip. Left out: chains of contractions,
collectives, and whether registers and shared memory hold what a group keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from planner.fusion.match import Match
from planner.graph.window import NodeKey, Window
from planner.ops.types import OpClass
from planner.spec.types import FusionRule

MAX_NODES = 5
"""Larger groups gain nothing in a decoder layer, and their number grows fast."""

_ROWWISE = {OpClass.POINTWISE, OpClass.ROW_REDUCTION, OpClass.CACHE, OpClass.VIEW}

_RULE = FusionRule(
    name="ideal",
    engine_name="a kernel nobody wrote yet",
    classes=("pointwise", "row_reduction", "contraction"),
    source="planner.fusion.ideal: legality by operator semantics",
)
_ATTENTION = FusionRule(
    name="ideal-attention",
    engine_name="online-softmax attention",
    classes=("contraction",),
    query_tile=128,
    source="Milakov and Gimelshein 2018 (online softmax); Dao et al. 2022",
)


_found: WeakKeyDictionary[Window, list[Match]] = WeakKeyDictionary()


def known_ideal(window: Window) -> list[Match]:
    """As `ideal_matches`, found once for each window."""
    if window not in _found:
        _found[window] = list(ideal_matches(window))
    return _found[window]


def ideal_matches(window: Window) -> Iterator[Match]:
    """Every group of the ideal rule set that touches this block and is convex."""
    yield from _attention(window)
    seen: set[frozenset[NodeKey]] = set()
    frontier = [frozenset({key}) for key in window.keys if key[0] == 0 and _usable(window, key)]
    while frontier:
        group = frontier.pop()
        if group in seen:
            continue
        seen.add(group)
        if len(group) > 1 and window.is_convex(group):
            yield Match(_RULE, group)
        if len(group) < MAX_NODES:
            frontier += [group | {key} for key in _additions(group, window)]


def _usable(window: Window, key: NodeKey) -> bool:
    node = window.node(key)
    if node.composite:
        return False
    return node.op.op_class in _ROWWISE or _contracts(window, key)


def _contracts(window: Window, key: NodeKey) -> bool:
    return window.node(key).op.op_class == OpClass.CONTRACTION


def _additions(group: frozenset[NodeKey], window: Window) -> set[NodeKey]:
    """Nodes that may join: readers of the group's results, siblings of its contractions.

    A contraction may only be joined by another that reads the same tensor; it may not read what
    the group computes, since each of its tiles would have to compute that again.
    """
    contractions = {key for key in group if _contracts(window, key)}
    found: set[NodeKey] = set()
    for key in group:
        for tensor in window.outputs(key):
            readers = window.readers.get(tensor, ())
            found.update(r for r in readers if _usable(window, r) and not _contracts(window, r))
        if not _contracts(window, key):
            before = window.predecessors[key]
            found.update(
                p
                for p in before
                if _usable(window, p) and (not _contracts(window, p) or not contractions)
            )
    for key in contractions:
        for tensor in window.inputs(key):
            found.update(r for r in window.readers[tensor] if _contracts(window, r))
    return {key for key in found - group if not window.node(key).composite}


def _attention(window: Window) -> Iterator[Match]:
    for parts in window.block.composites.values():
        nodes = frozenset((0, part.id) for part in parts)
        if window.is_convex(nodes):
            yield Match(_ATTENTION, nodes)
