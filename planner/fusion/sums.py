"""Least sums along the arcs of one state graph, several sums at a time.

Arrays of sums have a row for each state and a column for each kind of sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from planner.fusion.downsets import ArcArrays, Ints
from planner.fusion.explore import StateGraph

FAR = 1 << 61
"""The sum where there is no path: no sum of times is as large."""


@dataclass(frozen=True, eq=False)
class Sums:
    """What the paths from one boundary state cost, on the arcs that some path of least
    ``uncovered`` takes: all others lead nowhere that is not reached better.
    """

    arcs: ArcArrays
    exits: tuple[tuple[int, int], ...]
    costs: Ints
    """Of each arc."""
    uncovered: Ints
    """Of each state, at least."""

    @cached_property
    def before(self) -> Ints:
        """The least sums on the way to each state."""
        return _before(self.arcs, self.costs)

    def after(self, ends: Mapping[int, Ints]) -> Ints:
        """The least sums from each state to any of some ends, theirs added."""
        arcs, found = self.arcs, np.full((len(self.arcs) + 1, self.costs.shape[1]), FAR)
        for end, sums in ends.items():
            found[end] = sums
        order, states, first = self._by_source
        target, costs = arcs.target[order], self.costs[order]
        layers = np.searchsorted(states, arcs.layers)
        edges = np.append(first, len(order))
        for low, high in reversed(list(pairwise(layers.tolist()))):
            if low < high:
                part = slice(edges[low], edges[high])
                ways = found[target[part]] + costs[part]
                least = np.minimum.reduceat(ways, first[low:high] - first[low])
                found[states[low:high]] = np.minimum(least, found[states[low:high]])
        return found

    @cached_property
    def _by_source(self) -> tuple[Ints, Ints, Ints]:
        """The arcs by the state they leave, the states that some leave, the first arc of each."""
        order = np.argsort(self.arcs.source, kind="stable")
        return order, *np.unique(self.arcs.source[order], return_index=True)

    def path(self, end: int, kind: int) -> list[int]:
        """The moves on a way of the least sum of one kind to a state."""
        arcs, moves = self.arcs, []
        while end:
            into = np.arange(arcs.start[end], arcs.start[end + 1])
            ways = self.before[arcs.source[into], kind] + self.costs[into, kind]
            best = into[np.argmin(ways)]
            moves.append(int(arcs.move[best]))
            end = int(arcs.source[best])
        return moves[::-1]

    def within(self, ends: Mapping[int, Ints]) -> tuple[StateGraph, Ints]:
        """The states on paths whose sums, with those of their ends, are none above zero, and the
        sums from each to an end.
        """
        after = self.after(ends)
        whole = self.before[self.arcs.source] + self.costs + after[self.arcs.target]
        kept = np.flatnonzero((whole <= 0).all(axis=1))
        source, target = self.arcs.source[kept], self.arcs.target[kept]
        states = np.unique(np.concatenate([[0], source, target]))
        arcs: list[list[tuple[int, int]]] = [[] for _ in states[1:]]
        numbers = (np.searchsorted(states, each).tolist() for each in (source, target))
        for first, last, move in zip(*numbers, self.arcs.move[kept].tolist(), strict=True):
            arcs[last - 1].append((first, move))
        place = {state: number for number, state in enumerate(states.tolist())}
        exits = tuple((place[end], out) for end, out in self.exits if end in place and end in ends)
        return StateGraph(tuple(map(tuple, arcs)), exits), after[states]


def least_paths(
    arcs: ArcArrays, exits: tuple[tuple[int, int], ...], uncovered: Ints, costs: Ints
) -> Sums:
    """The sums of a graph whose moves leave so many nodes uncovered and cost so much."""
    steps = uncovered[arcs.move]
    least = _before(arcs, steps[:, None])[:, 0]
    kept = np.flatnonzero(least[arcs.source] + steps == least[arcs.target])
    counts = np.bincount(arcs.target[kept], minlength=len(arcs) + 1)
    start = np.concatenate([[0], np.cumsum(counts)])
    tight = ArcArrays(arcs.source[kept], arcs.move[kept], start, arcs.layers)
    return Sums(tight, exits, costs[tight.move], least)


def _before(arcs: ArcArrays, costs: Ints) -> Ints:
    found = np.zeros((len(arcs) + 1, costs.shape[1]), np.int64)
    start = arcs.start
    for low, high in pairwise(arcs.layers[1:]):
        part = slice(start[low], start[high])
        ways = found[arcs.source[part]] + costs[part]
        found[low:high] = np.minimum.reduceat(ways, start[low:high] - start[low])
    return found
