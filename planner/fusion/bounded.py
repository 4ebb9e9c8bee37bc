"""The search where downsets are too many: a schedule, and a proof of how much better one could be.

1. Every node gets a worth (``worth.py``): a schedule costs the worth of all nodes and what its
   kernels cost beyond it.
2. Blocks are partitioned at the least cost beyond, order left aside (``cover.py``,
   ``relaxed.py``), first in little room, then with what that found as the limit. Nothing that is
   dropped is forgotten: the least of it bounds every schedule from below.
3. The kernels found are put in order (``order.py``). Where they have one, and nothing cheaper was
   dropped, the schedule is the optimum and bound and cost are equal.

A launch loop is bounded by three sums: the host is busy for all launches, the device for all
kernels, and it lasts at least half as long as both together. The search runs once for each sum,
and the best of the three schedules is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from planner.fusion.objective import IMPOSSIBLE, Additive, Label, Objective, TwoClock
from planner.fusion.order import Moves, Order, moves_of
from planner.fusion.relaxed import Relaxed, Weights
from planner.fusion.types import Launch, Pair, Price, Problem, Run, Schedule, SearchTooLarge, Total
from planner.fusion.windows import windows_of

MOST_KEPT = 160_000
"""Partial partitions kept in all when the bound is proven."""
ROUNDS = 6
"""How often kernels are chosen anew without those that waited for each other."""

Payloads = list[list[int]]
"""For each block its slots in order; ``~slot`` where it runs ahead."""


def bounded_search(
    problem: Problem, objective: Objective, prices: Sequence[Price] | None = None
) -> Schedule:
    """A schedule of any problem; its ``least`` is a proven bound of the cheapest one.

    Raises NoSchedule when some node is in no kernel that can run, SearchTooLarge when nothing was
    found.
    """
    prices = prices or [candidate.price for candidate in problem.candidates]
    windows = windows_of(problem)
    moves = {pair: moves_of(window) for pair, window in windows.items()}
    singles = _Singles(problem)
    bounds: list[Total] = []
    found: list[Payloads] = []
    sums = _sums(objective)
    for weights, times in sums:
        kept, loop = MOST_KEPT // len(sums), isinstance(objective, TwoClock)
        relaxed = Relaxed(problem, windows, prices, weights, kept, loop)
        bound, chosen = relaxed.solve()
        bounds.append(relaxed.total(bound, times))
        found += _ordered(relaxed, chosen, moves, singles, ROUNDS // len(sums))
    leaves = [objective.kernel(price, slot) for slot, price in enumerate(prices)]
    totals = [_total(objective, leaves, payloads) for payloads in found]
    best = min(range(len(found)), key=lambda n: _rank(totals[n]))
    if totals[best].uncovered >= IMPOSSIBLE:
        raise SearchTooLarge("of the whole model", 2, 1, "orders of kernels")
    least = min(max(bounds, key=_rank), totals[best], key=_rank)
    return Schedule(totals[best], _runs(problem, found[best]), least)


def _ordered(
    relaxed: Relaxed,
    chosen: list[list[int]] | None,
    moves: dict[Pair, Moves],
    singles: _Singles,
    rounds: int,
) -> Iterator[Payloads]:
    """The kernels chosen in order; where some had to be split, also those of other choices."""
    left_out: set[int] = set()
    losses = singles.losses(relaxed.costs)
    least: int | None = None
    for _ in range(rounds):
        if chosen is None:
            return
        order = Order(moves, relaxed.pairs, chosen, singles.of, losses)
        payloads = order.payloads()
        yield payloads
        if not order.broken:
            return
        left_out |= order.broken
        cost = relaxed.cost(payloads)
        least = cost if least is None else min(least, cost)
        chosen = relaxed.without(left_out, least)


def _sums(objective: Objective) -> tuple[tuple[Weights, int], ...]:
    """How often launch and device times count, and how many times a schedule's length that is."""
    if isinstance(objective, Additive):
        return (((1, 1), 1),) if objective.with_launch else (((0, 1), 1),)
    return ((0, 1), 1), ((1, 1), 2), ((1, 0), 1)


def _rank(total: Total) -> tuple[int, float]:
    return total.uncovered, total.time_s


@dataclass(frozen=True, eq=False)
class _Singles:
    """The kernels of single nodes, which a kernel may be split into."""

    problem: Problem

    @cached_property
    def _slots(self) -> dict[tuple[str, str], int]:
        """By kind of block and node."""
        owners = [block for block in self.problem.blocks for _ in block.candidates]
        return {
            (block.kind, next(iter(candidate.nodes))[1]): slot
            for slot, (block, candidate) in enumerate(
                zip(owners, self.problem.candidates, strict=False)
            )
            if len(candidate.nodes) == 1
        }

    @cached_property
    def _parts(self) -> list[tuple[tuple[int | None, ...], tuple[int | None, ...]]]:
        """For each slot those of its nodes in the block it starts in and in the next one."""
        owners = [(b.kind, b.kind) for b in self.problem.blocks for _ in b.candidates]
        owners += [(s.kind, s.next_kind) for s in self.problem.seams for _ in s.candidates]
        found = []
        for kinds, candidate in zip(owners, self.problem.candidates, strict=True):
            here, after = (
                tuple(self._slots.get((kinds[side], n)) for s, n in candidate.nodes if s == side)
                for side in (0, 1)
            )
            found.append((here, after))
        return found

    def of(self, slot: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The slots of a kernel's nodes. Raises SearchTooLarge where one has no kernel."""
        here, after = self._parts[slot]
        if None in here or None in after:
            raise SearchTooLarge("of the whole model", 2, 1, "orders of kernels")
        return here, after  # type: ignore[return-value]  # None was ruled out above

    def losses(self, costs: Sequence[int]) -> Callable[[int], float]:
        """What splitting each slot costs."""

        def loss(slot: int) -> float:
            parts = [part for side in self._parts[slot] for part in side]
            if None in parts:
                return float("inf")
            return sum(costs[part] for part in parts if part is not None) - costs[slot]

        return loss


def _total(objective: Objective, leaves: list[Label], payloads: Payloads) -> Total:
    """What the launches of all blocks cost, one after another."""
    label = objective.identity
    for launched in payloads:
        for payload in launched:
            joined = objective.join(label, leaves[max(payload, ~payload)])
            label = (*joined[:-2], None, None)
    return objective.total(label)


def _runs(problem: Problem, payloads: Payloads) -> tuple[Run, ...]:
    """The blocks as runs of equal neighbours."""
    kinds = [kind for kind, times in problem.sequence for _ in range(times)]
    runs: list[Run] = []
    for kind, launched in zip(kinds, payloads, strict=True):
        launches = tuple(
            Launch(problem.candidates[max(payload, ~payload)], ahead=payload < 0)
            for payload in launched
        )
        if runs and runs[-1].kind == kind and runs[-1].launches == launches:
            runs[-1] = Run(kind, runs[-1].times + 1, launches)
        else:
            runs.append(Run(kind, 1, launches))
    return tuple(runs)
