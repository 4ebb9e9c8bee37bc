"""Lower bounds that drop labels of the launch loop which no cheapest schedule can hold.

Where a kernel trades launch time against device time, the labels that none dominates multiply with
the layers. But whole schedules are bounded from below on both clocks: with H and A summed over all
blocks the device ends at H, at A, and at (H before) + B + (A after), or later; so twice the end is
no less than H + A. B of the last block may stand for its H. The least sums after every block are
cheap to find, for they add. A label whose bound lies above the end of some schedule already known
is dropped; the best never is.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

from planner.fusion.chain import Row, Stretch
from planner.fusion.objective import Label, TwoClock
from planner.fusion.types import NoSchedule

Weights = tuple[int, int]
"""How often H and A count in a sum."""

Sums = dict[int, list[int]]
"""By boundary state, then by number of blocks before it: the least sum."""

_WEIGHTS = _HOST, _DEVICE, _BOTH = (1, 0), (0, 1), (1, 1)
_SHIFT = 130  # ``uncovered`` lies above all sums of times, so that comparing is lexicographic
_NONE = 1 << 400
"""The sum where there is no path."""


class Bounds:
    """What lies after every block at least; call it as the ``keep`` of a ``Chain``."""

    def __init__(self, stretches: list[Stretch]) -> None:
        self._after = _least_after(stretches)
        known = _known(stretches, self._after)
        uncovered, end = known[0], max(known[2], known[3])
        self._limit = (uncovered << _SHIFT) + end
        self._limit_both = self._limit + end

    def __call__(self, done: int, out: int, labels: list[Label]) -> list[Label]:
        """The labels that may be part of a schedule no worse than the best one known.

        Both clocks start at zero, so that of A and B only the larger matters: where the device is.
        Of labels alike in that the one of least A stays.
        """
        host, device, both = (self._rest(done, out, weights) for weights in _WEIGHTS)
        kept: list[Label] = []
        least = (_NONE, _NONE)
        clocks = sorted(zip(map(_from_zero, labels), labels, strict=True), key=itemgetter(0))
        for (uncovered, launched, ended, _), label in clocks:
            base = uncovered << _SHIFT
            end = base + max(launched + host, ended + device)
            if end > self._limit or base + launched + ended + both > self._limit_both:
                continue
            if (uncovered, ended) < least:
                least = uncovered, ended
                kept.append(label)
        return kept

    def _rest(self, done: int, out: int, weights: Weights) -> int:
        """The least sum of what is left behind so many blocks, from a boundary state on."""
        sums = self._after[weights].get(out)
        return _NONE if sums is None else sums[done]


def _from_zero(label: Label) -> tuple[int, int, int, int]:
    """Uncovered nodes, both clocks behind a path from the beginning, and what the device worked."""
    return label[0], label[1], max(label[2], label[3]), label[2]


def _sum(label: Label, weights: Weights, host: int = 1) -> int:
    total: int = label[0] << _SHIFT
    total += weights[0] * max(label[1], label[host]) + weights[1] * label[2]
    return total


def known_best(stretches: list[Stretch]) -> Label:
    """The schedule that ends first of those of least weighted sums."""
    return _known(stretches, _least_after(stretches))


def _known(stretches: list[Stretch], after: Mapping[Weights, Sums]) -> Label:
    """Raises NoSchedule where no path leads from the first boundary to the last."""
    if after[_BOTH].get(0, [_NONE])[0] >= _NONE:
        raise NoSchedule("fusion: the kernels given cannot complete the graph")
    return TwoClock().best([_along(stretches, *each) for each in after.items()])


def _along(stretches: list[Stretch], weights: Weights, after: Sums) -> Label:
    """The schedule that goes where least is left, block by block."""
    label, state, done = TwoClock.identity, 0, 0
    for stretch in stretches:
        steps = {each: _shortest(row, weights) for each, row in stretch.matrix.items()}
        for _ in range(stretch.times):
            done += 1
            row = [(out, cost) for out, (cost, _) in steps[state].items() if out in after]
            _, out = min((cost + after[out][done], out) for out, cost in row)
            label, state = TwoClock().join(label, steps[state][out][1]), out
    return label


def _shortest(row: Row, weights: Weights) -> dict[int, tuple[int, Label]]:
    """By boundary state reached, the label of least sum, and of these the one that ends first."""
    found = {}
    for out, labels in row.items():
        cost, _, label = min(((_sum(e, weights), e[3], e) for e in labels), key=itemgetter(0, 1))
        found[out] = cost, label
    return found


def _least_after(stretches: list[Stretch]) -> dict[Weights, Sums]:
    return {weights: _sums_after(stretches, weights) for weights in _WEIGHTS}


def _sums_after(stretches: list[Stretch], weights: Weights) -> Sums:
    sums = [{0: 0}]
    for stretch in reversed(stretches):
        steps = _turned(_least(stretch, weights))
        for _ in range(stretch.times):
            # B of the last block stands for its H: after the last launch the device works on
            last = _turned(_least(stretch, weights, host=3)) if len(sums) == 1 else steps
            sums.append(_step(sums[-1], last))
    return _by_state(sums[::-1])


Step = tuple[int, int, int]
"""(from state, to state, least sum) of one block."""


def _least(stretch: Stretch, weights: Weights, *, host: int = 1) -> list[Step]:
    """The least sums of one block, of a given field of its labels if larger than H."""
    return [
        (state, out, min(_sum(label, weights, host) for label in labels))
        for state, row in stretch.matrix.items()
        for out, labels in row.items()
    ]


def _turned(steps: list[Step]) -> list[Step]:
    return [(out, state, cost) for state, out, cost in steps]


def _step(sums: dict[int, int], steps: list[Step]) -> dict[int, int]:
    found: dict[int, int] = {}
    for state, out, cost in steps:
        if state in sums:
            found[out] = min(found.get(out, _NONE), sums[state] + cost)
    return found


def _by_state(sums: list[dict[int, int]]) -> Sums:
    states = {state for row in sums for state in row}
    return {state: [row.get(state, _NONE) for row in sums] for state in states}
