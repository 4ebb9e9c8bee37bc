"""Groups by classes as a compiler of loops forms them: which loops it joins into one kernel."""

from __future__ import annotations

from collections.abc import Iterator

from planner.fusion.loops import Extent, Loops, loops_of
from planner.fusion.traits import (
    elements,
    is_join,
    is_moved,
    is_wide_norm,
    leads,
    rows_of,
    shapes_of,
)
from planner.graph.window import NodeKey, Window
from planner.spec.types import FusionRule, LoopRule

_IMAGE = 4
"""Sides of a batch of images."""


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
    if len(group) > 1 and any(is_wide_norm(window, key) for key in group):
        return False
    nests = [
        key
        for key in group
        if key not in loops.unstored or loops.reduces(key) or not group & set(loops.users(key))
    ]
    if rule.nests and len({loops.breaks[key] for key in nests}) > 1:
        return False
    if any(_against_order(loops, key, group) or _shifted(loops, key, group) for key in group):
        return False
    return _alike(loops, [key for key in nests if loops.extent(key)])


def _alike(loops: Loops, nests: list[NodeKey]) -> bool:
    """Whether loops run over the same rows, or over all elements of them.

    With a rule that nests: or have the rows in common as outer loops, whatever runs inside.
    """
    extents = {key: extent for key in nests if (extent := loops.extent(key))}
    rows = [key for key in nests if extents[key][0] != extents[key][1]]
    if not rows:
        return len({whole for _, whole in extents.values()}) <= 1
    fewest = min(rows, key=lambda key: extents[key][0].coefficient)
    first = extents[fewest if loops.rule.nests else rows[0]]
    return all(
        extent == first
        or _over(extent, first)
        or (loops.rule.nests and _inside(loops, key, fewest))
        for key, extent in extents.items()
    )


def _over(extent: Extent, rows: Extent) -> bool:
    """Whether element-wise loops run over the rows, or over all that is in them."""
    return extent[0] == extent[1] and extent[0] in rows


def _inside(loops: Loops, key: NodeKey, outer: NodeKey) -> bool:
    """Whether loops can stand inside a loop over the rows: rows of what the rows are made of."""
    own, rows = loops.extent(key), loops.extent(outer)
    assert own is not None
    assert rows is not None
    if own[0] != own[1]:
        return own[0] == rows[1]
    return leads(rows_of(loops.window, outer), shapes_of(loops.window, key)[1][0])


def _shifted(loops: Loops, key: NodeKey, group: frozenset[NodeKey]) -> bool:
    """Whether a node is a part of a result, or more than it, that the group stores elsewhere."""
    if not is_moved(loops.window.node(key)):
        return False
    read, written = (elements(shapes[0]) for shapes in shapes_of(loops.window, key))
    makers = {loops.window.producer.get(tensor) for tensor in loops.window.inputs(key)}
    return read != written and any(m in group and m not in loops.unstored for m in makers)


def _against_order(loops: Loops, key: NodeKey, group: frozenset[NodeKey]) -> bool:
    """Whether a node reduces images whose stored pixels the group writes: channels stand last."""
    window = loops.window
    node, inputs = window.node(key), window.inputs(key)
    if node.op_name != "reduction" or len(shapes_of(window, key)[0][0]) != _IMAGE:
        return False
    makers = {window.producer.get(tensor) for tensor in inputs}
    return any(maker in group and maker not in loops.unstored for maker in makers)
