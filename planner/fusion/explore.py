"""Which downsets a block passes through: the state graphs of all windows, free of prices.

A state is the mask of nodes done since the block's predecessor completed. An arc runs one kernel.
A window ends as soon as its block is complete; the nodes of the next block that are done by then
are the boundary state in which the next window begins.

When a kernel's cost does not depend on its place in the order (``order_free``), most orders need
not be looked at. At a state, let x be an undone node of the block such that every kernel that could
still run x is ready. Every completion runs one of them, and running it first instead disturbs
nothing, so only these are tried. (Should the block then complete before a kernel that ran ahead,
nothing waited for that kernel, and the next window runs it at the same cost.)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any

from planner.fusion.downsets import downsets
from planner.fusion.objective import Rooms
from planner.fusion.types import Pair, Problem, SearchTooLarge
from planner.fusion.windows import Window, boundary_states, windows_of
from planner.records import dataclass

MAX_STATES = 20_000
FEW_STATES = 2_000
"""Beyond so many, states of a search that looks at order are found in arrays: `downsets`."""
MAX_ENTRIES = 32
"""Boundary states of a window: each has its own states, so that more of them are too much."""


@dataclass(frozen=True)
class StateGraph:
    """The states from one boundary state to completion of the block, in topological order."""

    arcs: Sequence[tuple[tuple[int, int], ...]]
    """Into each state but the first: (state it comes from, index of the move)."""
    exits: tuple[tuple[int, int], ...]
    """(state in which the block is complete, boundary state for the next window)."""
    rooms: Rooms | None = None
    """What labels the states may have; None if any."""


@dataclass(frozen=True)
class Space:
    """All state graphs of a problem; holds for every problem of equal shape."""

    shape: Hashable
    order_free: bool
    windows: dict[Pair, Window]
    graphs: dict[Pair, dict[int, StateGraph]]
    """By window, then by the boundary state it begins in."""
    kept: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)
    """What others find out about it, to be found once."""


def explore(
    problem: Problem,
    *,
    order_free: bool,
    max_states: int = MAX_STATES,
    few_states: int = FEW_STATES,
) -> Space:
    """Find every state that the search may pass through.

    ``few_states`` changes how long search and exploring take, never what is found.
    Raises SearchTooLarge when a window has more than ``max_states`` states from one boundary state
    or may end in more than ``MAX_ENTRIES``, NoSchedule when a node is in no candidate, ValueError
    when the problem is malformed.
    """
    windows = windows_of(problem)
    for window in windows.values():
        if boundary_states(window, MAX_ENTRIES) is None:
            raise SearchTooLarge(window.name, MAX_ENTRIES + 1, MAX_ENTRIES, "boundary states")
    followers = _followers(problem)
    graphs: dict[Pair, dict[int, StateGraph]] = {pair: {} for pair in windows}
    todo = [(problem.passes[0][0], 0)]
    while todo:
        pair, entry = todo.pop()
        if entry in graphs[pair]:
            continue
        few = max_states if order_free else min(max_states, few_states)
        graph = _graph(windows[pair], entry, order_free=order_free, few=few, most=max_states)
        graphs[pair][entry] = graph
        todo += [(after, out) for after in followers[pair] for _, out in graph.exits]
    return Space(problem.shape, order_free, windows, graphs)


_found: dict[Hashable, Space | SearchTooLarge] = {}
_FOUND_MOST = 512


def known_space(problem: Problem, *, order_free: bool) -> Space:
    """As `explore`, found once for each shape: models that differ in sizes alone share one."""
    key = (problem.shape, order_free)
    if key not in _found:
        if len(_found) >= _FOUND_MOST:
            _found.clear()
        _found[key] = _explored(problem, order_free=order_free)
    found = _found[key]
    if isinstance(found, SearchTooLarge):
        raise found.with_traceback(None)
    return found


def _explored(problem: Problem, *, order_free: bool) -> Space | SearchTooLarge:
    try:
        return explore(problem, order_free=order_free)
    except SearchTooLarge as too_large:
        return too_large


def _followers(problem: Problem) -> dict[Pair, set[Pair]]:
    pairs = [pair for pair, _ in problem.passes]
    found: dict[Pair, set[Pair]] = {pair: set() for pair in pairs}
    for pair, after in pairwise(pairs):
        found[pair].add(after)
    for pair, following in found.items():
        if pair[0] == pair[1]:
            following.add(pair)
    return found


def _graph(window: Window, entry: int, *, order_free: bool, few: int, most: int) -> StateGraph:
    try:
        into = _forward(window, entry, order_free=order_free, max_states=few)
    except SearchTooLarge:
        if few == most:
            raise
        return StateGraph(*downsets(window, entry, most))
    useful = _leads_to_end(window, into)
    order = sorted(useful, key=int.bit_count)
    index = {state: number for number, state in enumerate(order)}
    arcs = tuple(
        tuple((index[source], move) for source, move in into[state]) for state in order[1:]
    )
    full, size = window.full, window.size
    exits = tuple((index[state], state >> size) for state in order if state & full == full)
    return StateGraph(arcs, exits)


def _forward(
    window: Window, entry: int, *, order_free: bool, max_states: int
) -> dict[int, list[tuple[int, int]]]:
    """Every state reachable from ``entry``, with the arcs into it."""
    full = window.full
    masks = [move.mask for move in window.moves]
    unlocks = _unlocks(window)
    stubborn = _by_node(window) if order_free else ()
    into: dict[int, list[tuple[int, int]]] = {entry: []}
    todo = [(entry, _ready(window, entry, range(len(masks))))]
    while todo:
        state, ready = todo.pop()
        if state & full == full:
            continue
        for move in _enough(stubborn, masks, state, ready) if order_free else ready:
            mask = masks[move]
            after = state | mask
            arcs = into.get(after)
            if arcs is not None:
                arcs.append((state, move))
                continue
            into[after] = [(state, move)]
            if len(into) > max_states:
                raise SearchTooLarge(window.name, len(into), max_states)
            still = [other for other in ready if not masks[other] & mask]
            todo.append((after, still + _ready(window, after, unlocks[move])))
    return into


def _ready(window: Window, state: int, among: range | list[int]) -> list[int]:
    moves = window.moves
    undone = ~state
    return [i for i in among if not moves[i].mask & state and not moves[i].need & undone]


def _unlocks(window: Window) -> list[list[int]]:
    """For each move those that need one of its nodes: the only ones it can make ready."""
    moves = window.moves
    return [[i for i, other in enumerate(moves) if other.need & move.mask] for move in moves]


def _by_node(window: Window) -> tuple[list[int], ...]:
    """For each node of the block the moves that run it."""
    return tuple(
        [i for i, move in enumerate(window.moves) if move.mask >> node & 1]
        for node in range(window.size)
    )


def _enough(
    by_node: tuple[list[int], ...], masks: list[int], state: int, ready: list[int]
) -> list[int]:
    """The fewest moves to try when order is free: see the module's text."""
    best = ready
    ready_set = set(ready)
    for node, movers in enumerate(by_node):
        if state >> node & 1:
            continue
        options = [move for move in movers if not masks[move] & state]
        if len(options) < len(best) and ready_set.issuperset(options):
            best = options
    return best


def _leads_to_end(window: Window, into: dict[int, list[tuple[int, int]]]) -> set[int]:
    """The states from which the block can be completed, the first state always among them."""
    full = window.full
    useful = {state for state in into if state & full == full}
    todo = list(useful)
    while todo:
        for source, _ in into[todo.pop()]:
            if source not in useful:
                useful.add(source)
                todo.append(source)
    return useful
