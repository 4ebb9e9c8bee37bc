"""Arcs of wide windows that a quickest launch loop may take: all others are dropped unseen.

A loop with H the sum of launches and A the sum of device times lasts at least H and the device time
of its last kernel, and at least A and the launch of its first: so for any weights h and a, (h + a)
times as long as h of the one and a of the other. Such sums add along arcs. What they are at least
before and after every arc is cheap to find, and an arc through which they come to more than a
schedule already known lasts is in no better one. Where a known schedule lasts no longer than some
least sum, it is the quickest, and nothing else is looked at.

Sums are whole numbers of ticks, or of 2ⁿ ticks rounded down where 60 bits hold no more: bounds stay
bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.fusion.bound import known_best
from planner.fusion.chain import Matrix, Row, stretches_of
from planner.fusion.downsets import ArcArrays, Ints
from planner.fusion.explore import Space, StateGraph
from planner.fusion.objective import Label, Rooms, TwoClock
from planner.fusion.sums import FAR, Sums, least_paths
from planner.fusion.types import NoSchedule, Pair

WEIGHTS = ((1, 0), (3, 1), (1, 1), (1, 3), (0, 1))
"""How often launches and device times count in each sum."""

_SHIFT = 130  # ``uncovered`` lies above all sums of times, so that comparing is lexicographic
_BITS = 60

Least = dict[int, list[int]]
"""By boundary state the least sum of each kind, ``uncovered`` above it."""


@dataclass(frozen=True, eq=False)
class Narrowing:
    """A model with wide windows under one set of prices."""

    passes: Sequence[tuple[Pair, int]]
    space: Space
    kernels: Mapping[Pair, list[Label]]
    """The labels of each window's moves."""

    @cached_property
    def _pairs(self) -> list[Pair]:
        """Each block in order."""
        return [pair for pair, times in self.passes for _ in range(times)]

    @cached_property
    def _scale(self) -> int:
        """Sums are of so many bits less than ticks."""
        most: int = max(sum(x[1] + x[2] for x in each) for each in self.kernels.values())
        return max(0, (most * sum(WEIGHTS[1])).bit_length() - _BITS)

    @cached_property
    def _sums(self) -> dict[tuple[Pair, int], Sums]:
        return {
            (pair, entry): self._sums_of(pair, entry)
            for pair, graphs in self.space.graphs.items()
            for entry in graphs
        }

    def _sums_of(self, pair: Pair, entry: int) -> Sums:
        graph, kernels = self.space.graphs[pair][entry], self.kernels[pair]
        arcs = graph.arcs if isinstance(graph.arcs, ArcArrays) else ArcArrays.of(graph.arcs)
        uncovered, launch, device = (
            np.array([label[field] >> bits for label in kernels], np.int64)
            for field, bits in ((0, 0), (1, self._scale), (2, self._scale))
        )
        host, alone = (np.array(each) for each in zip(*WEIGHTS, strict=True))
        costs = launch[:, None] * host + device[:, None] * alone
        found = least_paths(arcs, graph.exits, uncovered, costs)
        edges = np.zeros_like(found.costs)
        if self._is_first(pair):
            edges += (found.arcs.source == 0)[:, None] * launch[found.arcs.move][:, None] * alone
        if pair[1] is None:
            ends = np.isin(found.arcs.target, [end for end, _ in graph.exits])
            edges += ends[:, None] * device[found.arcs.move][:, None] * host
        return replace(found, costs=found.costs + edges)

    def _steps(self, pair: Pair) -> list[tuple[int, int, list[int]]]:
        """(boundary state, the next one, the least sums of a block between them)."""
        return [
            (entry, out, _above(int(sums.uncovered[end]), sums.before[end].tolist()))
            for (each, entry), sums in self._sums.items()
            if each == pair
            for end, out in sums.exits
        ]

    @cached_property
    def _before(self) -> list[Least]:
        found: list[Least] = [{0: [0] * len(WEIGHTS)}]
        for pair in self._pairs:
            found.append(_least(found[-1], self._steps(pair)))
        return found

    @cached_property
    def _after(self) -> list[Least]:
        found: list[Least] = [{0: [0] * len(WEIGHTS)}]
        for pair in reversed(self._pairs):
            steps = [(out, entry, sums) for entry, out, sums in self._steps(pair)]
            found.append(_least(found[-1], steps))
        return found[::-1]

    def known(self, matrices: Mapping[Pair, Matrix]) -> Label:
        """A whole schedule of paths in all matrices, of some least sum.

        Raises NoSchedule where there is none.
        """
        if 0 not in self._before[-1]:
            raise NoSchedule("fusion: the kernels given cannot complete the model")
        return known_best(stretches_of(self.passes, self.space, matrices))

    def few(self, pair: Pair) -> Matrix:
        """One path of each least sum, in the order found and in Johnson's."""
        matrix: Matrix = {}
        for entry in self.space.graphs[pair]:
            sums = self._sums[pair, entry]
            row: Row = {
                out: [
                    self._label(pair, each)
                    for kind in range(len(WEIGHTS))
                    for path in [sums.path(end, kind)]
                    for each in (path, self._reordered(pair, entry, path))
                ]
                for end, out in sums.exits
            }
            matrix[entry] = row
        return matrix

    def _reordered(self, pair: Pair, entry: int, path: list[int]) -> list[int]:
        """The moves of a path, of those that are ready always the first by Johnson's rule; as they
        were where the block would be complete before the last.
        """
        window, labels = self.space.windows[pair], self.kernels[pair]
        moves = window.moves
        left = sorted(path, key=lambda move: _johnson(labels[move]))
        done, found = entry, []
        while left:
            if done & window.full == window.full:
                return path
            ready = next(move for move in left if not moves[move].need & ~done)
            left.remove(ready)
            found.append(ready)
            done |= moves[ready].mask
        return found

    def _label(self, pair: Pair, moves: list[int]) -> Label:
        objective = TwoClock()
        label = objective.identity
        for move in moves:
            label = objective.join(label, self.kernels[pair][move])
        return (*label[:-2], pair[0], label)

    def is_least(self, known: Label) -> bool:
        """Whether no schedule lasts less than a known one."""
        end = max(known[2], known[3])
        mask = (1 << _SHIFT) - 1
        return any(
            sum(weights) * end <= (least & mask) << self._scale
            for weights, least in zip(WEIGHTS, self._before[-1][0], strict=True)
        )

    def within(self, known: Label, pairs: Sequence[Pair], best: int | None) -> Space:
        """The space with those arcs of some windows that schedules as long as a known one take,
        and room for so many labels of a state.
        """
        end = max(known[2], known[3])
        limits = _above(known[0], [sum(weights) * end >> self._scale for weights in WEIGHTS])
        graphs = {
            pair: {
                entry: self._within(limits, pair, entry, best) for entry in self.space.graphs[pair]
            }
            for pair in pairs
        }
        return replace(self.space, graphs={**self.space.graphs, **graphs})

    def _within(self, limits: list[int], pair: Pair, entry: int, best: int | None) -> StateGraph:
        sums = self._sums[pair, entry]
        rests = {end: self._rest(limits, pair, entry, end, out) for end, out in sums.exits}
        graph, after = sums.within({end: rest for end, rest in rests.items() if rest is not None})
        most = [[(1 - each << self._scale) - 1 for each in row] for row in after.tolist()]
        return replace(graph, rooms=Rooms(3 if self._is_first(pair) else 2, WEIGHTS, most, best))

    def _is_first(self, pair: Pair) -> bool:
        """Whether a window is that of the first block and of no other."""
        return self._pairs.index(pair) == 0 and self._pairs.count(pair) == 1

    def _rest(self, limits: list[int], pair: Pair, entry: int, end: int, out: int) -> Ints | None:
        """What a path to an end may cost at most, negative; None if there is none so cheap."""
        rooms = [
            [limit - head - tail for limit, head, tail in zip(limits, heads, tails, strict=True)]
            for number, each in enumerate(self._pairs)
            if each == pair
            and (heads := self._before[number].get(entry)) is not None
            and (tails := self._after[number + 1].get(out)) is not None
        ]
        uncovered = int(self._sums[pair, entry].uncovered[end])
        room = [max(each) - (uncovered << _SHIFT) for each in zip(*rooms, strict=True)]
        if not room or min(room) < 0:
            return None
        return np.array([-min(each, FAR // 2) for each in room], np.int64)


def _johnson(kernel: Label) -> tuple[bool, int]:
    """Where kernels that wait for nothing stand in the quickest loop: first those that keep the
    device busy for longer than their launch, by rising launch; then the others, by falling device
    time (Johnson 1954, two machines).
    """
    launch, device = kernel[1:3]
    return (False, launch) if launch < device else (True, -device)


def is_wide(space: Space, pair: Pair) -> bool:
    """Whether some graph of a window is too large to be searched as it is."""
    return any(isinstance(graph.arcs, ArcArrays) for graph in space.graphs[pair].values())


def _above(uncovered: int, sums: list[int]) -> list[int]:
    return [(uncovered << _SHIFT) + each for each in sums]


def _least(sums: Least, steps: list[tuple[int, int, list[int]]]) -> Least:
    found: Least = {}
    for state, out, costs in steps:
        if state in sums:
            whole = [before + cost for before, cost in zip(sums[state], costs, strict=True)]
            found[out] = list(map(min, found[out], whole)) if out in found else whole
    return found
