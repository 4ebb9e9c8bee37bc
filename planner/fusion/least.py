"""The schedules that leave the fewest nodes uncovered, and the cheapest of them for many loads.

The search compares ``uncovered`` first, and that depends on structure and refusals alone. So the
paths of least ``uncovered`` are found once, without any price, and only kernels that lie on them
need one. Their cost may then be an array, one element for each load: every element gets the cost
that the search would find for it, though its schedule may be another than its neighbour's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from planner.fusion.downsets import ArcArrays
from planner.fusion.explore import Space, StateGraph
from planner.fusion.objective import IMPOSSIBLE, Arcs
from planner.fusion.types import NoSchedule, Pair, Problem, SearchTooLarge
from planner.num import Number, is_array, maximum, minimum

_NONE = 1 << 62
_MOST_LABELS = 48
_KEY_BITS = 16
"""A slot's place in the key that counts kernels: no model runs one 65,536 times."""

Steps = Mapping[int, Sequence[int]]
"""From a boundary state to those that least paths end in."""


@dataclass(frozen=True)
class Part:
    """The least paths of one window from one boundary state."""

    arcs: Arcs
    """As in `StateGraph`, into each state but the first; none into one no least path visits."""
    exits: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class LeastPaths:
    """Every schedule of least ``uncovered``."""

    blocks: tuple[tuple[Pair, Steps], ...]
    """Each block of the model in order, and which boundary states its least paths join."""
    parts: Mapping[tuple[Pair, int], Part]
    slots: Mapping[Pair, tuple[int, ...]]
    """The slot of each move of a window."""
    kernels: frozenset[int]
    """Slots that lie on any of them."""


def least_paths(problem: Problem, space: Space, weights: Sequence[int]) -> LeastPaths:
    """The least paths where each slot leaves so many nodes uncovered.

    Raises NoSchedule where nothing runs every node.
    """
    sums = {
        (pair, entry): _sums(graph, [weights[move.slot] for move in space.windows[pair].moves])
        for pair, graphs in space.graphs.items()
        for entry, graph in graphs.items()
    }
    pairs = [pair for pair, times in problem.passes for _ in range(times)]
    blocks = _blocks(pairs, space, sums)
    used: dict[tuple[Pair, int], set[int]] = {}
    for pair, steps in blocks:
        for entry, outs in steps.items():
            used.setdefault((pair, entry), set()).update(outs)
    slots = {pair: tuple(m.slot for m in window.moves) for pair, window in space.windows.items()}
    parts = {
        (pair, entry): _part(
            space.graphs[pair][entry], sums[pair, entry], outs, weights, slots[pair]
        )
        for (pair, entry), outs in used.items()
    }
    kernels = frozenset(
        slots[pair][move]
        for (pair, _), part in parts.items()
        for _, move in chain.from_iterable(part.arcs)
    )
    return LeastPaths(blocks, parts, slots, kernels)


_KEPT_MOST = 64


def known_least(problem: Problem, space: Space, weights: Sequence[int]) -> tuple[LeastPaths, Space]:
    """As `least_paths` with `least_space`, found once for problems that are alike in shape.

    Raises NoSchedule where nothing runs every node.
    """
    key = (problem.sequence, tuple(weights))
    if key not in space.kept:
        if len(space.kept) >= _KEPT_MOST:
            space.kept.clear()
        paths = least_paths(problem, space, weights)
        space.kept[key] = paths, least_space(space, paths)
    found: tuple[LeastPaths, Space] = space.kept[key]
    return found


def _sums(graph: StateGraph, weights: list[int]) -> list[int]:
    """The least sum on the way to each state."""
    sums = [0]
    for into in graph.arcs:
        sums.append(min(sums[state] + weights[move] for state, move in into))
    return sums


def _blocks(
    pairs: list[Pair], space: Space, sums: Mapping[tuple[Pair, int], list[int]]
) -> tuple[tuple[Pair, Steps], ...]:
    steps = {
        (pair, entry): [(out, sums[pair, entry][state]) for state, out in graph.exits]
        for pair, graphs in space.graphs.items()
        for entry, graph in graphs.items()
    }
    before: list[dict[int, int]] = [{0: 0}]
    for pair in pairs:
        found: dict[int, int] = {}
        for entry, cost in before[-1].items():
            for out, more in steps[pair, entry]:
                found[out] = min(found.get(out, _NONE), cost + more)
        before.append(found)
    if min(before[-1].values(), default=_NONE) >= IMPOSSIBLE:
        raise NoSchedule("fusion: the kernels given cannot complete the model")
    wanted = {out for out, cost in before[-1].items() if cost == min(before[-1].values())}
    blocks: list[tuple[Pair, Steps]] = []
    for number in range(len(pairs) - 1, -1, -1):
        pair, here = pairs[number], before[number]
        joined = {
            entry: [
                o
                for o, more in steps[pair, entry]
                if o in wanted and cost + more == before[number + 1][o]
            ]
            for entry, cost in here.items()
        }
        blocks.append((pair, {entry: outs for entry, outs in joined.items() if outs}))
        wanted = set(blocks[-1][1])
    return tuple(reversed(blocks))


def _part(
    graph: StateGraph, sums: list[int], outs: set[int], weights: Sequence[int], slots: Sequence[int]
) -> Part:
    exits = tuple((state, out) for state, out in graph.exits if out in outs)
    wanted = {state for state, _ in exits}
    arcs: list[list[tuple[int, int]]] = []
    for state in range(len(graph.arcs), 0, -1):
        into = graph.arcs[state - 1] if state in wanted else ()
        kept = [(s, move) for s, move in into if sums[s] + weights[slots[move]] == sums[state]]
        wanted.update(s for s, _ in kept)
        arcs.append(kept)
    return Part(tuple(reversed(arcs)), exits)


def least_space(space: Space, paths: LeastPaths) -> Space:
    """The space without what no least path passes through; one with wide windows as it is."""
    graphs = chain.from_iterable(entries.values() for entries in space.graphs.values())
    if any(isinstance(graph.arcs, ArcArrays) for graph in graphs):
        return space
    kept = {key: _compact(part) for key, part in paths.parts.items()}
    least = {
        pair: {entry: kept.get((pair, entry), _NOWHERE) for entry in entries}
        for pair, entries in space.graphs.items()
    }
    return replace(space, graphs=least, kept={})


_NOWHERE = StateGraph((), ())
"""Of a boundary state that no least path begins in."""


def _compact(part: Part) -> StateGraph:
    """The states of a part that least paths pass through, in order."""
    index = {0: 0}
    arcs: list[tuple[tuple[int, int], ...]] = []
    for state, into in enumerate(part.arcs, 1):
        if into:
            arcs.append(tuple((index[source], move) for source, move in into))
            index[state] = len(arcs)
    return StateGraph(tuple(arcs), tuple((index[state], out) for state, out in part.exits))


def least_sum(paths: LeastPaths, costs: Mapping[int, Number]) -> Number:
    """The least sum of costs, by slot: what `Additive` finds."""
    windows = {key: _least(part, paths.slots[key[0]], costs) for key, part in paths.parts.items()}
    row: dict[int, Number] = {0: 0.0}
    for pair, steps in paths.blocks:
        found: dict[int, Number] = {}
        for entry, outs in steps.items():
            for out in outs:
                cost = row[entry] + windows[pair, entry][out]
                found[out] = minimum(found[out], cost) if out in found else cost
        row = found
    return minimum(*row.values())


def _least(part: Part, slots: Sequence[int], costs: Mapping[int, Number]) -> dict[int, Number]:
    sums: list[Number] = [0.0]
    for into in part.arcs:
        ways = [sums[state] + costs[slots[move]] for state, move in into]
        sums.append(minimum(*ways) if ways else None)
    return {out: sums[state] for state, out in part.exits}


Clocks = tuple[Number, Number, Number]
"""(H, A, B) of a path, as `TwoClock` has them."""
Labels = dict[int, Clocks]
"""By how often each slot runs: paths alike in that differ in B alone, so its minimum serves all."""


def least_clock(paths: LeastPaths, costs: Mapping[int, tuple[float, Number]]) -> Number:
    """When the device is done at the earliest; ``costs`` are (launch, device) by slot: what
    `TwoClock` finds from both clocks at zero.

    Raises SearchTooLarge where too many sets of kernels stay in the race.
    """
    windows = {key: _race(part, paths.slots[key[0]], costs) for key, part in paths.parts.items()}
    row: dict[int, Labels] = {0: {0: (0.0, 0.0, float("-inf"))}}
    for pair, steps in paths.blocks:
        found: dict[int, Labels] = {}
        for entry, outs in steps.items():
            for out in outs:
                labels = found.setdefault(out, {})
                for key, first in row[entry].items():
                    for more, second in windows[pair, entry][out].items():
                        _keep(labels, key + more, _join(first, second))
        row = {out: _undominated(labels) for out, labels in found.items()}
    ends = [
        maximum(alone, behind) for labels in row.values() for _, alone, behind in labels.values()
    ]
    return minimum(*ends)


def _race(
    part: Part, slots: Sequence[int], costs: Mapping[int, tuple[float, Number]]
) -> dict[int, Labels]:
    states: list[Labels] = [{0: (0.0, 0.0, float("-inf"))}]
    for into in part.arcs:
        labels: Labels = {}
        for state, move in into:
            launch_s, device_s = costs[slots[move]]
            kernel = (launch_s, device_s, launch_s + device_s)
            more = 1 << (_KEY_BITS * slots[move])
            for key, first in states[state].items():
                _keep(labels, key + more, _join(first, kernel))
        states.append(_undominated(labels))
    return {out: states[state] for state, out in part.exits}


def _join(first: Clocks, second: Clocks) -> Clocks:
    host, alone, behind = first
    host2, alone2, behind2 = second
    return host + host2, alone + alone2, maximum(behind + alone2, host + behind2)


def _keep(labels: Labels, key: int, label: Clocks) -> None:
    if key in labels:
        host, alone, behind = labels[key]
        label = host, alone, minimum(behind, label[2])
    labels[key] = label


def _undominated(labels: Labels) -> Labels:
    """The labels that are best for some load. Raises SearchTooLarge where they are too many."""
    if len(labels) < 2:  # noqa: PLR2004 – one has no rival
        return labels
    kept: Labels = {}
    for key, label in labels.items():
        if any(_beats(other, label) for other in kept.values()):
            continue
        kept = {k: other for k, other in kept.items() if not _beats(label, other)}
        kept[key] = label
    if len(kept) > _MOST_LABELS:
        raise SearchTooLarge("of many loads", len(kept), _MOST_LABELS, "labels")
    return kept


def _beats(one: Clocks, other: Clocks) -> bool:
    """Whether the first is nowhere worse."""
    return all(_nowhere_more(a, b) for a, b in zip(one, other, strict=True))


def _nowhere_more(one: Number, other: Number) -> bool:
    less = one <= other
    return bool(less.all()) if is_array(less) else bool(less)
