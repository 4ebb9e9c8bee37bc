"""What "cheapest" means: a captured graph adds device times, an eager loop races two clocks.

A label is the cost of a path, as a tuple whose last two fields say what it was made from: two
labels joined, or (payload, None) for one kernel, or (payloads, None) for several in a row, or
(None, None) for the empty path. Times are
whole ticks of 2⁻⁷⁰ s (0.85 zs), so that sums do not depend on the order of adding and equal costs
tie exactly; rounding a kernel of 1 µs to a tick errs by less than 10⁻¹⁵ of it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from planner import records
from planner.fusion.types import Price, SearchTooLarge, Total

Label = tuple[Any, ...]

TICK_BITS = 70
IMPOSSIBLE = 1 << 40
"""As many uncovered nodes as one kernel that cannot run counts for: more than any model has."""

_TIME_BITS = 120  # 2⁵⁰ s: sums of times never reach the bits of ``uncovered``
_TIME_MASK = (1 << _TIME_BITS) - 1
_NEVER = -(1 << _TIME_BITS)


Arcs = Sequence[Sequence[tuple[int, int]]]
"""Into each state but the first: (state it comes from, index of the kernel that leads on)."""


@records.dataclass(frozen=True)
class Rooms:
    """What the labels of a launch loop may be in each state of a window: others lead to no better
    schedule than one already known.
    """

    field: int
    """Of a label, what counts as device time: A, or B in the first block of a model."""
    weights: Sequence[tuple[int, int]]
    """How often launches and device times count in some sums."""
    most: Sequence[Sequence[int]]
    """Of each state what they may come to."""
    best: int | None = None
    """Keep no more than so many of a state, of those with most room: to find some good schedule."""

    def kept(self, state: int, labels: list[Label]) -> list[Label]:
        """Those that may."""
        for (host, alone), most in zip(self.weights, self.most[state], strict=True):
            labels = [x for x in labels if host * x[1] + alone * x[self.field] <= most]
        if self.best is None or len(labels) <= self.best:
            return labels
        return sorted(labels, key=lambda label: self._excess(state, label))[: self.best]

    def _excess(self, state: int, label: Label) -> float:
        """How much longer than the known schedule those that hold a label last at least."""
        host, device = label[1], label[self.field]
        sums = zip(self.weights, self.most[state], strict=True)
        return max(float(h * host + a * device - most) / (h + a) for (h, a), most in sums)


@records.dataclass(frozen=True)
class Limit:
    """How many labels a state of a window may have."""

    window: str
    most: int
    rooms: Rooms | None = None
    """Which of them it may have; None if any."""

    def check(self, count: int) -> None:
        """Raise SearchTooLarge beyond it."""
        if count > self.most:
            raise SearchTooLarge(self.window, count, self.most, "labels")


class Objective(Protocol):
    """Labels with an identity, an associative join and an order in which some are never needed."""

    order_free: ClassVar[bool]
    """True when the cost of a schedule does not depend on the order of its kernels."""
    identity: ClassVar[Label]
    """The label of doing nothing."""

    def kernel(self, price: Price, payload: int) -> Label:
        """The label of running one kernel."""
        ...

    def join(self, first: Label, second: Label) -> Label:
        """The label of one path after the other."""
        ...

    def prune(self, labels: list[Label]) -> list[Label]:
        """The labels that may still lead to the cheapest schedule."""
        ...

    def sweep(
        self, arcs: Arcs, ends: list[int], kernels: list[Label], limit: Limit
    ) -> list[list[Label]]:
        """The labels of the states ``ends``, each state's from those of the states before it.

        Raises SearchTooLarge where a state has more labels than ``limit`` allows.
        """
        ...

    def best(self, labels: list[Label]) -> Label:
        """The cheapest label of whole schedules."""
        ...

    def total(self, label: Label) -> Total:
        """The cost of a whole schedule."""
        ...


def ticks(price: Price) -> tuple[int, int, int]:
    """(uncovered, launch, device) in whole ticks; ``IMPOSSIBLE`` where it cannot run."""
    if math.isinf(price.launch_s) or math.isinf(price.device_s):
        return IMPOSSIBLE, 0, 0
    launch = round(math.ldexp(price.launch_s, TICK_BITS))
    return price.uncovered, launch, round(math.ldexp(price.device_s, TICK_BITS))


def seconds(count: int) -> float:
    """So many ticks."""
    return math.ldexp(float(count), -TICK_BITS)


@records.dataclass(frozen=True, eq=False)
class Way:
    """The kernels on the least way to a state, read off only where that way is taken."""

    won: list[tuple[int, int]]
    """Into each state the arc that won."""
    end: int
    kernels: list[Label]

    @property
    def payloads(self) -> tuple[int, ...]:
        """Payloads of the kernels in order."""
        moves, end = [], self.end
        while end:
            end, move = self.won[end]
            moves.append(move)
        return tuple(self.kernels[move][-2] for move in reversed(moves))


@dataclass(frozen=True)
class Additive:
    """A captured graph: the time is the sum of the kernels' times. Label: (cost, made from).

    The cost is one integer, ``uncovered`` above the bits of the time, so that comparing it is
    lexicographic.
    """

    with_launch: bool = False
    """Add each kernel's launch time too: a host that waits for every kernel."""

    order_free: ClassVar[bool] = True
    identity: ClassVar[Label] = (0, None, None)

    def kernel(self, price: Price, payload: int) -> Label:
        """The label of running one kernel."""
        uncovered, launch, device = ticks(price)
        time = device + launch if self.with_launch else device
        return ((uncovered << _TIME_BITS) + time, payload, None)

    def join(self, first: Label, second: Label) -> Label:
        """Costs add."""
        return (first[0] + second[0], first, second)

    def prune(self, labels: list[Label]) -> list[Label]:
        """One least label; of equals the first."""
        return [min(labels, key=_cost)]

    def sweep(
        self, arcs: Arcs, ends: list[int], kernels: list[Label], limit: Limit
    ) -> list[list[Label]]:
        """One cost a state. Only the ends get labels, each a single one of all its kernels."""
        del limit
        steps = [kernel[0] for kernel in kernels]
        costs, won = [0], [(0, 0)]
        for into in arcs:
            best = into[0]
            least = costs[best[0]] + steps[best[1]]
            for arc in into[1:]:
                cost = costs[arc[0]] + steps[arc[1]]
                if cost < least:
                    least, best = cost, arc
            costs.append(least)
            won.append(best)
        return [[(costs[end], Way(won, end, kernels), None)] for end in ends]

    def best(self, labels: list[Label]) -> Label:
        """The least label."""
        return min(labels, key=_cost)

    def total(self, label: Label) -> Total:
        """The cost of a whole schedule."""
        return Total(label[0] >> _TIME_BITS, seconds(label[0] & _TIME_MASK))


def _cost(label: Label) -> int:
    cost: int = label[0]
    return cost


@dataclass(frozen=True)
class TwoClock:
    """An eager launch loop: kernel i starts at max(end of i-1, end of the host's i-th launch).

    With h the host's and d the device's clock, a kernel makes h' = h + launch and
    d' = max(d, h') + device. A path therefore makes h' = h + H and d' = max(d + A, h + B); a kernel
    has H = launch, A = device, B = launch + device, and one path after another
    H = H1 + H2, A = A1 + A2, B = max(B1 + A2, H1 + B2). Both grow with h, d, H, A and B, so of two
    paths between the same states the one not smaller in any of H, A, B is never needed.
    Label: (uncovered, H, A, B, made from).
    """

    order_free: ClassVar[bool] = False
    identity: ClassVar[Label] = (0, 0, 0, _NEVER, None, None)

    def kernel(self, price: Price, payload: int) -> Label:
        """The label of running one kernel."""
        uncovered, launch, device = ticks(price)
        return (uncovered, launch, device, launch + device, payload, None)

    def join(self, first: Label, second: Label) -> Label:
        """One path's effect on the clocks after the other's."""
        uncovered, host, alone, behind, _, _ = first
        more, host2, alone2, behind2, _, _ = second
        late, early = behind + alone2, host + behind2
        return (
            uncovered + more,
            host + host2,
            alone + alone2,
            max(late, early),
            first,
            second,
        )

    def prune(self, labels: list[Label]) -> list[Label]:
        """Those of least ``uncovered`` that no other label beats in H, A and B; of equals one."""
        labels.sort(key=_clocks)
        least = labels[0][0]
        kept: list[Label] = []
        stairs: list[int] = []  # of the labels kept so far: A rising,
        depths: list[int] = []  # B falling
        for label in labels:
            uncovered, _, alone, behind, _, _ = label
            if uncovered > least:
                break
            place = bisect_right(stairs, alone)
            if place and depths[place - 1] <= behind:
                continue
            kept.append(label)
            end = place
            while end < len(depths) and depths[end] >= behind:
                end += 1
            stairs[place:end] = [alone]
            depths[place:end] = [behind]
        return kept

    def sweep(
        self, arcs: Arcs, ends: list[int], kernels: list[Label], limit: Limit
    ) -> list[list[Label]]:
        """Every label before an arc joined with its kernel, as ``join`` does it."""
        found: list[list[Label]] = [[self.identity]]
        for into in arcs:
            labels: list[Label] = []
            for state, move in into:
                kernel = kernels[move]
                more, host2, alone2, behind2, _, _ = kernel
                for label in found[state]:
                    uncovered, host, alone, behind, _, _ = label
                    late, early = behind + alone2, host + behind2
                    last = max(late, early)
                    made = (uncovered + more, host + host2, alone + alone2, last, label, kernel)
                    labels.append(made)
            limit.check(len(labels))
            labels = self.prune(labels) if len(labels) > 1 else labels
            found.append(limit.rooms.kept(len(found), labels) if limit.rooms else labels)
        return [found[end] for end in ends]

    def best(self, labels: list[Label]) -> Label:
        """The label whose device clock ends first when both clocks start at zero."""
        return min(labels, key=lambda label: (label[0], max(label[2], label[3]), *label[1:3]))

    def total(self, label: Label) -> Total:
        """The cost of a whole schedule from both clocks at zero to the end of the last kernel."""
        return Total(label[0], seconds(max(label[2], label[3])))


def _clocks(label: Label) -> Label:
    return label[:4]
