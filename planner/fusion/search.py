"""The cheapest schedule of a whole model, exactly: shortest paths in blocks, powers across them.

A schedule runs kernels one at a time, each when all that it reads is done, until every node of
every block ran once. The search sees one window at a time: a block with its own kernels, those
across the seam to the next block, and those of the next block that a kernel across the seam may
have to wait for (they run *ahead*). Three invariants make this exact:

1. **Two blocks at most are in progress.** Nothing of block i+2 runs before block i is complete.
   This defines which schedules are meant: no engine interleaves three layers. It excludes something
   only if a kernel across the seam i+1/i+2 must run before one across the seam i/i+1.
2. **Only what a seam waits for runs ahead.** Take any schedule that obeys 1 and let K(i) be its
   kernels that touch blocks up to i, with all they wait for, directly or not. Running K(1), then
   the rest of K(2), and so on, is legal. A kernel of K(i) that touches no block up to i is waited
   for by one across the seam i/i+1, through kernels of block i+1 alone (by 1, none reaches block
   i+2): just those the window holds. So every set of kernels has an order that the windows can run,
   and for an objective that does not look at order nothing is lost. A launch loop looks at order;
   there the host issues block after block, and only the kernels named above run ahead. If all of a
   block leads to one node and all of the next block hangs on it, as on a residual stream, no other
   order exists anyway.
3. **A boundary state says it all.** When block i completes, what is left depends on which nodes of
   block i+1 are done, not on how. So paths with equal boundary states compete by label alone, and a
   dropped label could be replaced, in every schedule, by the one that beat it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.fusion.bound import Bounds
from planner.fusion.chain import Chain, Matrix, Row, beside, paths, stretches_of
from planner.fusion.explore import Space, StateGraph, explore
from planner.fusion.narrow import Narrowing, is_wide
from planner.fusion.objective import IMPOSSIBLE, Label, Limit, Objective, TwoClock
from planner.fusion.types import (
    Launch,
    NoSchedule,
    Pair,
    Price,
    Problem,
    Run,
    Schedule,
    SearchTooLarge,
)
from planner.fusion.windows import Window

MAX_LABELS = 200_000
EASY_LABELS = 64
"""Up to so many labels in one join, bounds would cost more than they save."""
FIRST_LABELS = 1
"""Labels of a state where a good schedule is sought, to leave out what can be no better."""


def search(
    problem: Problem,
    objective: Objective,
    space: Space | None = None,
    prices: Sequence[Price] | None = None,
    *,
    easy_labels: int = EASY_LABELS,
) -> Schedule:
    """The cheapest schedule of the problem.

    ``space`` is the result of ``explore`` for a problem of the same shape; it serves any prices.
    ``prices`` stand in for those of the candidates, by slot.
    ``easy_labels`` changes how long it takes, never the cost found.
    Raises NoSchedule when the kernels cannot run every node, SearchTooLarge when there is too much
    to look at, ValueError when the space belongs to another problem.
    """
    if space is None:
        space = explore(problem, order_free=objective.order_free)
    alike = space.shape is problem.shape or space.shape == problem.shape
    if not alike or space.order_free != objective.order_free:
        raise ValueError("the space was explored for another problem or objective")
    prices = prices or [candidate.price for candidate in problem.candidates]
    leaves = [objective.kernel(price, slot) for slot, price in enumerate(prices)]
    label = _Model(problem, space, leaves, objective, easy_labels).best()
    return _schedule(problem, objective, label)


@dataclass(frozen=True)
class _Model:
    """A problem with the labels of its candidates, by slot."""

    problem: Problem
    space: Space
    leaves: list[Label]
    objective: Objective
    easy_labels: int

    def best(self) -> Label:
        """The cheapest label. Wide windows of a launch loop are searched without arcs of no use."""
        pairs = dict.fromkeys(pair for pair, _ in self.problem.passes)
        loop = isinstance(self.objective, TwoClock)
        wide = [pair for pair in pairs if loop and is_wide(self.space, pair)]
        narrow = self._evaluate(self.space, [pair for pair in pairs if pair not in wide])
        return self._best_of_wide(wide, narrow) if wide else self._join(narrow)

    def _best_of_wide(self, wide: list[Pair], narrow: dict[Pair, Matrix]) -> Label:
        """Paths of least sums, then those found with few labels: each a limit for what follows."""
        kernels = {pair: _kernels(self.space, pair, self.leaves) for pair in self.space.graphs}
        narrowing = Narrowing(self.problem.passes, self.space, kernels)
        known = {**narrow, **{pair: narrowing.few(pair) for pair in wide}}
        best = narrowing.known(known)
        for most in (FIRST_LABELS, None):
            if narrowing.is_least(best):
                return best
            found = self._evaluate(narrowing.within(best, wide, most), wide)
            both = {pair: beside(known[pair], found[pair]) for pair in wide}
            best = self.objective.best([best, self._join({**narrow, **both})])
        return best

    def _evaluate(self, space: Space, pairs: list[Pair]) -> dict[Pair, Matrix]:
        return {pair: evaluate(space, pair, self.leaves, self.objective) for pair in pairs}

    def _join(self, matrices: Mapping[Pair, Matrix]) -> Label:
        """The best whole schedule, with bounds only where there are many labels."""
        objective = self.objective
        stretches = stretches_of(self.problem.passes, self.space, matrices)
        if not isinstance(objective, TwoClock):
            return objective.best(Chain(objective, MAX_LABELS).run(stretches)[0])
        try:
            row = Chain(objective, self.easy_labels).run(stretches)
        except SearchTooLarge:
            row = Chain(objective, MAX_LABELS, Bounds(stretches)).run(stretches)
        return objective.best(row[0])


def evaluate(space: Space, pair: Pair, leaves: list[Label], objective: Objective) -> Matrix:
    """The transfer matrix of one window. ``leaves`` are the labels of all candidates, by slot."""
    kernels = _kernels(space, pair, leaves)
    return {
        entry: _row(graph, kernels, objective, space.windows[pair])
        for entry, graph in space.graphs[pair].items()
    }


def _kernels(space: Space, pair: Pair, leaves: list[Label]) -> list[Label]:
    """The labels of a window's moves."""
    moves = space.windows[pair].moves
    return [_ahead(leaves[move.slot]) if move.ahead else leaves[move.slot] for move in moves]


def _ahead(label: Label) -> Label:
    return (*label[:-2], ~label[-2], None)


def _row(graph: StateGraph, kernels: list[Label], objective: Objective, window: Window) -> Row:
    if not graph.exits:
        return {}
    ends = [state for state, _ in graph.exits]
    found = objective.sweep(graph.arcs, ends, kernels, Limit(window.name, MAX_LABELS, graph.rooms))
    kind = window.pair[0]
    return {
        out: [(*label[:-2], kind, label) for label in labels]
        for (_, out), labels in zip(graph.exits, found, strict=True)
        if labels
    }


def _schedule(problem: Problem, objective: Objective, label: Label) -> Schedule:
    total = objective.total(label)
    if total.uncovered >= IMPOSSIBLE:
        raise NoSchedule("fusion: every schedule holds a kernel that cannot run")
    chosen = paths(label)
    payloads = {payload for (_, each), _ in chosen for payload in each}
    launches = {payload: _launch(problem, payload) for payload in payloads}
    return Schedule(
        total,
        tuple(
            Run(kind, times, tuple(launches[payload] for payload in payloads))
            for (kind, payloads), times in chosen
        ),
    )


def _launch(problem: Problem, payload: int) -> Launch:
    return Launch(problem.candidates[max(payload, ~payload)], ahead=payload < 0)
