"""Which single kernel to write first: what each ideal group buys beside the engine's own kernels.

A group takes the place of every engine kernel it shares a node with; nodes of those that it does
not cover run alone. That is one way to use the new kernel, and a better one may be left. Where it
and the engine's other kernels would wait for each other in a ring, it saves nothing there. One that
computes a node for itself leaves the engine's own kernel of that node; one that then need not store
it is of no use by itself.

Such a ring lies in the group's blocks, the one before and the one after: of kernels in an order
none touches a block before all but one of those ahead of it are complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import pairwise
from typing import Any

from planner.capture.layout import Layout
from planner.capture.solve import Kernel, Solution
from planner.fusion.order import in_some_order
from planner.num import as_float
from planner.plan.solve import SolvedStep
from planner.plan.types import FirstKernel

MOST = 5
"""So many are shown."""

Node = tuple[int, str]
"""A node by the number of its block in the step."""


def first_kernels(solved: SolvedStep, ideal: Solution) -> tuple[FirstKernel, ...]:
    """Groups of the ideal step that the engine lacks, by what writing one of them buys."""
    alone, orders = _alone(solved), _Orders(solved)
    found: dict[tuple[str, ...], FirstKernel] = {}
    for label, kernel, times, gain_s, launches in _gains(solved, ideal, alone, orders):
        nodes = tuple(name for _, name in kernel.group.border.nodes)
        before = found.get(nodes) or _new(nodes, kernel)
        found[nodes] = replace(
            before,
            blocks=tuple(dict.fromkeys((*before.blocks, label))),
            repeat=before.repeat + times,
            gain_s=before.gain_s + gain_s * times,
            launches_saved=before.launches_saved + launches * times,
        )
    worth = [each for each in found.values() if each.gain_s > 0]
    return tuple(sorted(worth, key=lambda each: -each.gain_s)[:MOST])


def _new(nodes: tuple[str, ...], kernel: Kernel) -> FirstKernel:
    """A kernel with its tile, not counted yet."""
    none = FirstKernel((), nodes, 0, _device_s(kernel), 0.0, 0)
    tile = kernel.asked.tile
    if tile is None or tile.level == "unknown":
        return none
    return replace(
        none,
        level=tile.level,
        tile=(tile.rows, tile.columns),
        multiprocessors=tile.blocks,
        kept_bytes=tile.kept_bytes,
    )


def _device_s(kernel: Kernel) -> float:
    return float(as_float(kernel.time.time_s))


Alone = Callable[[str, str], Kernel | None]
"""From label of a block and node to the kernel of the node alone; None where there is none."""


def _alone(solved: SolvedStep) -> Alone:
    solver, mode = solved.solver, solved.decision.mode
    problem = solver.problem("ideal", mode)
    slots = _slots_alone(problem.layout)

    def alone(label: str, node: str) -> Kernel | None:
        slot = slots.get((label, node))
        return None if slot is None else problem.priced(slot).kernel(mode, solver.fixed)

    return alone


def _slots_alone(layout: Layout) -> dict[tuple[str, str], int]:
    """The slot of each node alone, by label of its block and node."""
    if "alone" not in layout.kept:
        kinds = layout.structure.graph.kinds
        layout.kept["alone"] = {
            (kinds[slot.kinds[0]].label, slot.alone[1]): number
            for number, slot in enumerate(layout.slots)
            if slot.alone is not None
        }
    found: dict[tuple[str, str], int] = layout.kept["alone"]
    return found


Blocks = list[tuple[str, tuple[Kernel, ...]]]


def _blocks(solution: Solution) -> Blocks:
    return [(run.block.label, run.kernels) for run in solution.runs for _ in range(run.times)]


class _Orders:
    """Which kernels can run in some order, found once for each layout."""

    def __init__(self, solved: SolvedStep) -> None:
        self._layout = solved.solver.problem("ideal", solved.decision.mode).layout

    def possible(self, labels: tuple[str, ...], groups: Groups) -> bool:
        """Whether kernels in blocks of these labels can; groups are the nodes of each."""
        kept, key = self._layout.alike, ("order", labels, frozenset(groups))
        if key not in kept:
            kept[key] = in_some_order(groups, self._reads(labels))
        found: bool = kept[key]
        return found

    def _reads(self, labels: tuple[str, ...]) -> Iterator[tuple[Node, Node]]:
        """From nodes to their readers in blocks that follow one another."""
        problem, kinds = self._layout.problem, self._layout.structure.graph.kinds
        blocks = {kind.label: each for kind, each in zip(kinds, problem.blocks, strict=True)}
        seams = {(seam.kind, seam.next_kind): seam.edges for seam in problem.seams}
        for number, label in enumerate(labels):
            yield from (((number, p), (number, reader)) for p, reader in blocks[label].edges)
        for number, (label, after) in enumerate(pairwise(labels)):
            across = seams.get((blocks[label].kind, blocks[after].kind), ())
            yield from (((number, p), (number + 1, reader)) for p, reader in across)


def _gains(
    solved: SolvedStep, ideal: Solution, alone: Alone, orders: _Orders
) -> Iterator[tuple[str, Kernel, int, float, int]]:
    """(block, group, how often, seconds and launches saved each time)."""
    own, best = _blocks(solved.chosen), _blocks(ideal)
    places = _Places()
    known: dict[tuple[int, ...], int] = {}
    windows: list[tuple[Blocks, Blocks]] = []
    for at in range(len(best)):
        around = slice(max(0, at - 1), at + 3)
        key = (min(at, 1), *(id(kernels) for _, kernels in (*own[around], *best[around])))
        if key not in known:
            windows.append((own[around], best[around][min(at, 1) :]))
        known[key] = known.get(key, 0) + 1
    for (key, times), (engines, ideals) in zip(known.items(), windows, strict=True):
        offset = key[0]
        owners = _owners(engines, places)
        label = ideals[0][0]
        labels = tuple(each for each, _ in engines)
        for kernel in ideals[0][1]:
            nodes = places.of(kernel, offset)
            new = len(nodes) > 1 or kernel.group.flow is not None
            if new and not kernel.group.unwritten and nodes <= owners.keys():
                saved_s, launches = _saved(nodes, kernel, owners, labels, alone)
                if saved_s > 0 and not orders.possible(labels, beside(nodes, owners)):
                    saved_s, launches = 0.0, 0
                yield label, kernel, times, saved_s, launches


Groups = list[frozenset[Node]]
Owners = dict[Node, tuple[Kernel, frozenset[Node]]]


class _Places:
    """The nodes of kernels by the number of their block in the step, found once for each."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], tuple[Kernel, frozenset[Node]]] = {}

    def of(self, kernel: Kernel, number: int) -> frozenset[Node]:
        """The nodes of a kernel that starts in a block."""
        key = id(kernel), number
        if key not in self._found:
            nodes = frozenset([(number + side, name) for side, name in kernel.group.nodes])
            self._found[key] = kernel, nodes
        return self._found[key][1]


def _owners(blocks: Blocks, places: _Places) -> Owners:
    """Which kernel runs each node; one that runs ahead is met where its block has run already."""
    found: Owners = {}
    for number, (_, kernels) in enumerate(blocks):
        for kernel in kernels:
            nodes = places.of(kernel, number)
            if not found.keys().isdisjoint(nodes):
                nodes = places.of(kernel, number + 1)
            found |= dict.fromkeys(nodes, (kernel, nodes))
    return found


def beside(nodes: AbstractSet[Node], owners: Mapping[Node, tuple[Any, frozenset[Node]]]) -> Groups:
    """What runs with a new kernel of some nodes: those that share none with it as they are, the
    other nodes of those that do alone.
    """
    groups = {covered for _, covered in owners.values()}
    split = {covered for covered in groups if not covered.isdisjoint(nodes)}
    alone = {frozenset({node}) for covered in split for node in covered - nodes}
    return [frozenset(nodes), *(groups - split), *alone]


def _saved(
    nodes: AbstractSet[Node], kernel: Kernel, owners: Owners, labels: Sequence[str], alone: Alone
) -> tuple[float, int]:
    replaced = {id(owner): (owner, covered) for owner, covered in (owners[n] for n in nodes)}
    seconds, launches = [-_device_s(kernel)], -kernel.group.launches
    for owner, covered in replaced.values():
        seconds.append(_device_s(owner))
        launches += owner.group.launches
        for at, name in covered - nodes:
            left = alone(labels[at], name) if at < len(labels) else None
            if left is None:
                return 0.0, 0
            seconds.append(-_device_s(left))
            launches -= left.group.launches
    # Sets have no order: rounded once, the sum is the same in every run
    return math.fsum(seconds), launches
