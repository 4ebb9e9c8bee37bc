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

from collections.abc import Sequence

from planner.fusion.bound import Bounds
from planner.fusion.chain import Chain, Matrix, Row, Stretch, paths
from planner.fusion.explore import Space, StateGraph, explore
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
    stretches = _stretches(problem, space, leaves, objective)
    row = _join(stretches, objective, easy_labels)
    return _schedule(problem, objective, objective.best(row[0]))


def _stretches(
    problem: Problem, space: Space, leaves: list[Label], objective: Objective
) -> list[Stretch]:
    matrices: dict[Pair, Matrix] = {}
    found: list[Stretch] = []
    start = 0
    for pair, times in problem.passes:
        if pair not in matrices:
            matrices[pair] = evaluate(space, pair, leaves, objective)
        found.append(Stretch(space.windows[pair].name, start, times, matrices[pair]))
        start += times
    return found


def _join(stretches: list[Stretch], objective: Objective, easy_labels: int) -> Row:
    """The labels of whole schedules, with bounds only where there are many labels."""
    if not isinstance(objective, TwoClock):
        return Chain(objective, MAX_LABELS).run(stretches)
    try:
        return Chain(objective, easy_labels).run(stretches)
    except SearchTooLarge:
        return Chain(objective, MAX_LABELS, Bounds(stretches)).run(stretches)


def evaluate(space: Space, pair: Pair, leaves: list[Label], objective: Objective) -> Matrix:
    """The transfer matrix of one window. ``leaves`` are the labels of all candidates, by slot."""
    window = space.windows[pair]
    kernels = [
        _ahead(leaves[move.slot]) if move.ahead else leaves[move.slot] for move in window.moves
    ]
    return {
        entry: _row(graph, kernels, objective, window)
        for entry, graph in space.graphs[pair].items()
    }


def _ahead(label: Label) -> Label:
    return (*label[:-2], ~label[-2], None)


def _row(graph: StateGraph, kernels: list[Label], objective: Objective, window: Window) -> Row:
    if not graph.exits:
        return {}
    ends = [state for state, _ in graph.exits]
    found = objective.sweep(graph.arcs, ends, kernels, Limit(window.name, MAX_LABELS))
    kind = window.pair[0]
    return {
        out: [(*label[:-2], kind, label) for label in labels]
        for (_, out), labels in zip(graph.exits, found, strict=True)
    }


def _schedule(problem: Problem, objective: Objective, label: Label) -> Schedule:
    total = objective.total(label)
    if total.uncovered >= IMPOSSIBLE:
        raise NoSchedule("fusion: every schedule holds a kernel that cannot run")
    chosen = paths(label)
    launches = {payload: _launch(problem, payload) for (_, each), _ in chosen for payload in each}
    return Schedule(
        total,
        tuple(
            Run(kind, times, tuple(launches[payload] for payload in payloads))
            for (kind, payloads), times in chosen
        ),
    )


def _launch(problem: Problem, payload: int) -> Launch:
    return Launch(problem.candidates[max(payload, ~payload)], ahead=payload < 0)
