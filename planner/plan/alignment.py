"""The launches of a step laid along the kernels of its plan: a Viterbi search, exact.

Both stand in order of execution. A launch belongs to a kernel that its name fits, or to none; a
kernel takes several launches, or none. Two neighbouring kernels of one launch each may have run the
other way round.
Among all such assignments the search finds one with the highest score:

    OPEN    the first launch of a kernel; OPEN_LATE where the name is of a kernel that finishes
            another one's work (a split-K reduction)
    NEXT    a further launch, as many as the plan expects; MORE beyond them
    GAP     is lost where kernels of the plan are passed over, however many
    SWAP    is lost where two neighbours change places: nearly what it wins, so that they do so to
            place a launch that would fit nowhere, not to move one that is placed

A kernel found counts for more than several launches of one: what stands before the embedding is
not taken for a norm. Time plays no part: a launch is never given to the kernel whose prediction it
is nearest to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

OPEN = 40
OPEN_LATE = 4
NEXT = 8
MORE = 2
GAP = 3
SWAP = 36

_NONE = -(2**30)
"""The score of what cannot be."""
_MOST_LAUNCHES = 31
"""Launches of a kernel that are told apart; the count fits the low bits of a packed score."""
_PACK = 32
_STAY, _MORE, _NEXT, _OPEN = range(4)

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Step = tuple[NDArray[np.int8], NDArray[np.int32]]
"""For one launch: what each state did with it, and which state each lane was entered from."""


@dataclass(frozen=True)
class Expected:
    """A kernel of the plan at its place in the step."""

    fits: int
    """Which column of the table of fitting names is its own."""
    launches: int


@dataclass(frozen=True)
class Launches:
    """The launches of a step, by number of their name."""

    names: Sequence[int]
    fits: Flags
    """By name and column: whether a name may belong to a kernel."""
    late: Flags
    """By name: whether it finishes what another began."""


def may_swap(one: Expected, other: Expected) -> bool:
    """Whether two neighbours may change places: each of one launch, and told apart by name."""
    return one.fits != other.fits and max(one.launches, other.launches) <= 1


def align(launches: Launches, kernels: Sequence[Expected]) -> list[int | None]:
    """For each launch the position of its kernel, or None."""
    if not kernels:
        return [None] * len(launches.names)
    return _Search(launches, kernels).assigned()


class _States:
    """Where the search may stand: in a kernel after some of its launches, in plan order or swapped.

    Lanes are stretches of states of one kernel: every kernel in plan order; then for each pair that
    may swap its second kernel, and for each its first.
    """

    def __init__(self, kernels: Sequence[Expected]) -> None:
        self.pairs = np.array(
            [i for i in range(len(kernels) - 1) if may_swap(kernels[i], kernels[i + 1])], int
        )
        order = np.arange(len(kernels))
        self.kernel_of_lane = np.concatenate([order, self.pairs + 1, self.pairs])
        expected = [min(max(kernel.launches, 1), _MOST_LAUNCHES) for kernel in kernels]
        lengths = np.array(expected)[self.kernel_of_lane]
        self.first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self.last = self.first + lengths - 1
        self.lane = np.repeat(np.arange(len(lengths)), lengths)
        self.launch = np.arange(len(self.lane)) - self.first[self.lane]
        half = (self.lane >= len(order)) & (self.lane < len(order) + len(self.pairs))
        self.complete = ~half
        """Where a step may end: not between the kernels of a swapped pair."""
        self.kernel = self.kernel_of_lane[self.lane]
        self.columns = np.array([kernel.fits for kernel in kernels])[self.kernel]


class _Search:
    def __init__(self, launches: Launches, kernels: Sequence[Expected]) -> None:
        self.launches = launches
        self.count = len(kernels)
        self.states = _States(kernels)
        self.scores = np.full(len(self.states.lane), _NONE, np.int64)
        self.choices: list[Step | None] = []
        for name in launches.names:
            self.choices.append(self._take(name))

    def _take(self, name: int) -> Step | None:
        """Let every state take the launch, or pass it; None where it fits nothing."""
        states, scores = self.states, self.scores
        fitting = self.launches.fits[name, states.columns]
        if not fitting.any():
            return None
        entry, source = self._entries()
        taken = np.full(len(scores), _NONE, np.int64)
        choice = np.full(len(scores), _STAY, np.int8)
        taken[states.last] = scores[states.last] + MORE
        choice[states.last] = _MORE
        on = states.launch > 0
        further = np.where(on, np.roll(scores, 1) + NEXT, _NONE)
        choice = np.where(further > taken, _NEXT, choice).astype(np.int8)
        taken = np.maximum(taken, further)
        opening = entry + (OPEN_LATE if self.launches.late[name] else OPEN)
        opens = opening > taken[states.first]
        choice[states.first[opens]] = _OPEN
        taken[states.first] = np.maximum(taken[states.first], opening)
        better = fitting & (taken >= scores) & (taken > 0)
        self.scores = np.where(better, taken, scores)
        return np.where(better, choice, _STAY).astype(np.int8), source.astype(np.int32)

    def _entries(self) -> tuple[Ints, Ints]:
        """For each lane the best score to enter it with, and the state that comes from (-1: none).

        A kernel is entered from the one before it, from further back at the cost of a gap, or at
        the start; the second of a swapped pair from where the first could be, the first from it.
        """
        best, at = self._ends()
        count, pairs = self.count, self.states.pairs
        swapped_first = slice(count, count + len(pairs))
        swapped_second = slice(count + len(pairs), None)
        near = np.full(count + 1, _NONE, np.int64)
        source = np.full(count + 1, -1, np.int64)
        near[0] = 0
        near[1:], source[1:] = best[:count], at[:count]
        back = best[swapped_second] > near[pairs + 2]
        near[pairs[back] + 2] = best[swapped_second][back]
        source[pairs[back] + 2] = at[swapped_second][back]
        far = np.maximum.accumulate(near)
        furthest = np.maximum.accumulate(np.where(near == far, np.arange(count + 1), 0))
        jumped = np.concatenate([[_NONE], far[:-1] - GAP])
        origin = np.concatenate([[0], furthest[:-1]])
        jump = jumped > near
        entry = np.where(jump, jumped, near)[:count]
        source = np.where(jump, source[origin], source)[:count]
        return (
            np.concatenate([entry, entry[pairs] - SWAP, best[swapped_first]]),
            np.concatenate([source, source[pairs], at[swapped_first]]),
        )

    def _ends(self) -> tuple[Ints, Ints]:
        """For each lane its best score and the state that has it."""
        packed = self.scores * _PACK + self.states.launch
        best = np.maximum.reduceat(packed, self.states.first)
        return best // _PACK, self.states.first + best % _PACK

    def assigned(self) -> list[int | None]:
        """The best assignment, traced back from the end."""
        found: list[int | None] = [None] * len(self.choices)
        scores = np.where(self.states.complete, self.scores, _NONE)
        best = np.flatnonzero(scores == scores.max())
        # of equals the one furthest on in the plan: a step ends where its plan does
        state = int(best[np.argmax(self.states.kernel[best])])
        if scores[state] <= 0:
            return found
        for at in range(len(self.choices) - 1, -1, -1):
            taken = self.choices[at]
            if taken is None or state < 0 or taken[0][state] == _STAY:
                continue
            found[at] = int(self.states.kernel[state])
            choice = taken[0][state]
            state = (
                int(taken[1][self.states.lane[state]])
                if choice == _OPEN
                else state - (choice == _NEXT)
            )
        return found
