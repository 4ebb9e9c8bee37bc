"""Lower bounds that drop labels of the launch loop which no cheapest schedule can hold.

Where a kernel trades launch time against device time, the labels that none dominates multiply with
the layers. But whole schedules are bounded from below on both clocks: with H and A summed over all
blocks the device ends at H, at A, and at (H before) + B + (A after), or later; so twice the end is
no less than H + A. B of the first block may stand for its A and B of the last block for its H. The
least sums before and after every block are cheap to find, for they add. A label whose bound lies
above the end of some schedule already known is dropped; the best never is.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.fusion.chain import Chain, Place, Stretch
from planner.fusion.objective import Label, TwoClock

Weights = tuple[int, int]
"""How often H and A count in a sum."""

Sums = dict[int, list[int]]
"""By boundary state, then by number of blocks before it: the least sum."""

_HOST, _DEVICE, _BOTH = (1, 0), (0, 1), (1, 1)
_SHIFT = 130  # ``uncovered`` lies above all sums of times, so that comparing is lexicographic
_NONE = 1 << 400
"""The sum where there is no path."""


@dataclass(frozen=True)
class _Guide(TwoClock):
    """Keeps the label of least weighted sum alone: finds some good schedule quickly."""

    weights: Weights = _BOTH

    def prune(self, labels: list[Label]) -> list[Label]:
        return [min(labels, key=lambda label: (_sum(label, self.weights), label[3]))]


class Bounds:
    """What lies before and after every block at least; call it as the ``keep`` of a ``Chain``."""

    def __init__(self, stretches: list[Stretch]) -> None:
        weights = (_HOST, _DEVICE, _BOTH)
        self._before = {w: _sums_before(stretches, w) for w in weights}
        self._after = {w: _sums_after(stretches, w) for w in weights}
        known = known_best(stretches)
        uncovered, end = known[0], max(known[2], known[3])
        self._limit = (uncovered << _SHIFT) + end
        self._limit_both = self._limit + end

    def __call__(self, place: Place, labels: list[Label]) -> list[Label]:
        """The labels that may be part of a schedule no worse than the best one known."""
        host = self._limit - self._rest(place, _HOST, _HOST)
        device = self._limit - self._rest(place, _DEVICE, _DEVICE)
        behind = self._limit - self._rest(place, _HOST, _DEVICE)
        both = self._limit_both - self._rest(place, _BOTH, _BOTH)
        kept = []
        for label in labels:
            base = label[0] << _SHIFT
            if base + label[1] > host or base + label[2] > device:
                continue
            if base + label[3] <= behind and base + label[1] + label[2] <= both:
                kept.append(label)
        return kept

    def _rest(self, place: Place, before: Weights, after: Weights) -> int:
        """The least sum before and after the place, wherever it may lie."""
        heads = self._before[before].get(place.state)
        tails = self._after[after].get(place.out)
        if heads is None or tails is None:
            return _NONE
        first, last, blocks = place.first, place.last, place.blocks
        after_it = tails[first + blocks : last + blocks + 1]
        return min(
            head + tail for head, tail in zip(heads[first : last + 1], after_it, strict=True)
        )


def _sum(label: Label, weights: Weights, host: int = 1, device: int = 2) -> int:
    total: int = label[0] << _SHIFT
    total += weights[0] * max(label[1], label[host]) + weights[1] * max(label[2], label[device])
    return total


def known_best(stretches: list[Stretch]) -> Label:
    """The schedule that ends first of those of least weighted sums."""
    guides = [_Guide(weights) for weights in (_HOST, _DEVICE, _BOTH)]
    ends = [guide.best(Chain(guide, 1 << 30).run(stretches)[0]) for guide in guides]
    return TwoClock().best(ends)


def _sums_before(stretches: list[Stretch], weights: Weights) -> Sums:
    sums = [{0: 0}]
    for stretch in stretches:
        steps = _least(stretch, weights)
        for _ in range(stretch.times):
            # B of the first block stands for its A: the device waits for the first launch
            first = _least(stretch, weights, device=3) if len(sums) == 1 else steps
            sums.append(_step(sums[-1], first))
    return _by_state(sums)


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


def _least(stretch: Stretch, weights: Weights, *, host: int = 1, device: int = 2) -> list[Step]:
    """The least sums of one block, of the given fields of its labels if larger than H and A."""
    return [
        (state, out, min(_sum(label, weights, host, device) for label in labels))
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
