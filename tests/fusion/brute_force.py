"""Every schedule of a small model, tried one by one on the unrolled graph; the search's opponent.

Shares with the search only the words in ``planner.fusion.types``. Run many cases with
``python -m tests.fusion.brute_force --cases 20000``.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from random import Random

from planner.fusion.explore import FEW_STATES, explore
from planner.fusion.objective import Additive, Objective, TwoClock
from planner.fusion.search import search
from planner.fusion.types import Candidate, NoSchedule, Price, Problem, Schedule
from tests.fusion.random_models import random_problem

Node = tuple[int, str]
"""(number of the block in the whole model, node id)."""

ANY = "any"
"""No rule but that what a kernel reads is done."""
TWO_BLOCKS = "two blocks"
"""Nothing of a block runs before the last block but one is complete."""
BLOCK_ORDER = "block order"
"""Blocks in turn; only what a kernel across the seam may wait for runs ahead."""


@dataclass(frozen=True)
class Kernel:
    candidate: Candidate
    nodes: frozenset[Node]
    ahead: bool

    @property
    def first(self) -> int:
        return min(block for block, _ in self.nodes)

    @property
    def last(self) -> int:
        return max(block for block, _ in self.nodes)


class Unrolled:
    """The whole model, node by node."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.kinds = [kind for kind, times in problem.sequence for _ in range(times)]
        self.blocks = {block.kind: block for block in problem.blocks}
        self.seams = {(seam.kind, seam.next_kind): seam for seam in problem.seams}
        self.nodes = frozenset(
            (i, node) for i, kind in enumerate(self.kinds) for node in self.blocks[kind].nodes
        )
        self.reads = self._reads()
        placed = self._placed()
        self.waited = self._waited(placed)
        self.kernels = [Kernel(c, nodes, nodes in self.waited) for c, nodes in placed]

    def _reads(self) -> dict[Node, set[Node]]:
        reads: dict[Node, set[Node]] = {node: set() for node in self.nodes}
        for i, kind in enumerate(self.kinds):
            for producer, consumer in self.blocks[kind].edges:
                reads[i, consumer].add((i, producer))
        for i, pair in enumerate(zip(self.kinds, self.kinds[1:], strict=False)):
            for producer, consumer in self.seams[pair].edges:
                reads[i + 1, consumer].add((i, producer))
        return reads

    def _placed(self) -> list[tuple[Candidate, frozenset[Node]]]:
        found = []
        for i, kind in enumerate(self.kinds):
            owners = [self.blocks[kind].candidates]
            if i + 1 < len(self.kinds):
                owners.append(self.seams[kind, self.kinds[i + 1]].candidates)
            found += [
                (candidate, frozenset((i + side, n) for side, n in candidate.nodes))
                for owner in owners
                for candidate in owner
            ]
        return found

    def waits_for(self, nodes: frozenset[Node]) -> set[Node]:
        return {read for node in nodes for read in self.reads[node]} - nodes

    def _waited(self, placed) -> set[frozenset[Node]]:
        """Node sets of kernels that a kernel across a seam may wait for within the later block."""
        found: set[frozenset[Node]] = set()
        self.cascades = False
        todo = [(n, max(n)[0]) for _, n in placed if min(n)[0] != max(n)[0]]
        seen = set(todo)
        while todo:
            waiting, block = todo.pop()
            wanted = {node for node in self.waits_for(waiting) if node[0] == block}
            for _, nodes in placed:
                if nodes & wanted and (nodes, block) not in seen and min(nodes)[0] == block:
                    if max(nodes)[0] != block:
                        self.cascades = True
                        continue
                    found.add(nodes)
                    seen.add((nodes, block))
                    todo.append((nodes, block))
        return found

    def legal(self, done: frozenset[Node], rule: str) -> list[Kernel]:
        """The kernels that may run now."""
        undone = [block for block, _ in self.nodes - done]
        current = min(undone, default=0)
        found = []
        for kernel in self.kernels:
            if kernel.nodes & done or self.waits_for(kernel.nodes) - done:
                continue
            if rule == TWO_BLOCKS and kernel.last > current + 1:
                continue
            if rule == BLOCK_ORDER and kernel.first > current + kernel.ahead:
                continue
            found.append(kernel)
        return found


def units(price: Price, unit_s: float) -> tuple[int, int, int] | None:
    """The price in whole units; None when it is infinite."""
    if math.isinf(price.device_s) or math.isinf(price.launch_s):
        return None
    return price.uncovered, round(price.launch_s / unit_s), round(price.device_s / unit_s)


def least_sum(unrolled: Unrolled, unit_s: float, rule: str, *, with_launch: bool):
    """(uncovered, units) of the cheapest schedule when times add; None if there is none."""
    known: dict[frozenset[Node], tuple[int, int] | None] = {unrolled.nodes: (0, 0)}

    def rest(done: frozenset[Node]) -> tuple[int, int] | None:
        if done not in known:
            totals = []
            for kernel in unrolled.legal(done, rule):
                price = units(kernel.candidate.price, unit_s)
                after = rest(done | kernel.nodes) if price else None
                if price and after:
                    time = price[2] + (price[1] if with_launch else 0)
                    totals.append((price[0] + after[0], time + after[1]))
            known[done] = min(totals, default=None)
        return known[done]

    return rest(frozenset())


def least_end(unrolled: Unrolled, unit_s: float, rule: str):
    """(uncovered, units) of the launch loop that ends first over all orders; None if none ends."""
    clocks: dict[frozenset[Node], set[tuple[int, int, int]]] = {frozenset(): {(0, 0, 0)}}
    for size in range(len(unrolled.nodes)):
        for done in [done for done in clocks if len(done) == size]:
            for kernel in unrolled.legal(done, rule):
                price = units(kernel.candidate.price, unit_s)
                if price is None:
                    continue
                reached = clocks.setdefault(done | kernel.nodes, set())
                for uncovered, host, device in clocks[done]:
                    launched = host + price[1]
                    end = max(device, launched) + price[2]
                    reached.add((uncovered + price[0], launched, end))
    ends = [(uncovered, device) for uncovered, _, device in clocks.get(unrolled.nodes, ())]
    return min(ends, default=None)


def replay(unrolled: Unrolled, schedule: Schedule, objective: Objective) -> tuple[int, float]:
    """Run a schedule on the unrolled graph: (uncovered, seconds). Asserts that it is legal."""
    done: set[Node] = set()
    uncovered, host, device, added, number = 0, 0.0, 0.0, 0.0, 0
    for run in schedule.runs:
        for _ in range(run.times):
            assert unrolled.kinds[number] == run.kind
            for launch in run.launches:
                at = number + launch.ahead
                nodes = frozenset((at + side, n) for side, n in launch.candidate.nodes)
                assert any(
                    k.nodes == nodes and k.candidate is launch.candidate for k in unrolled.kernels
                )
                assert not nodes & done, "a node ran twice"
                assert unrolled.waits_for(nodes) <= done, "a kernel ran too early"
                done |= nodes
                price = launch.candidate.price
                uncovered += price.uncovered
                host += price.launch_s
                device = max(device, host) + price.device_s
                added += price.device_s
            number += 1
    assert number == len(unrolled.kinds)
    assert done == unrolled.nodes, "a node never ran"
    if isinstance(objective, TwoClock):
        return uncovered, device
    return uncovered, added + (host if objective.with_launch else 0.0)


def mismatch(seed: int, *, two_clock: bool, nodes: int) -> str | None:
    """What differs between search and brute force on the case of this seed; None when nothing."""
    rng = Random(seed)
    unit_s = rng.choice((1e-6, 2.0**-20, 0.37e-6, 1e-3))
    gated = rng.random() < 0.3
    problem = random_problem(rng, nodes=nodes, unit_s=unit_s, gated=gated)
    unrolled = Unrolled(problem)
    objective: Objective
    if two_clock:
        objective = TwoClock()
        expected = least_end(unrolled, unit_s, ANY if gated else BLOCK_ORDER)
    else:
        objective = Additive(with_launch=rng.random() < 0.3)
        rule = TWO_BLOCKS if unrolled.cascades else ANY
        expected = least_sum(unrolled, unit_s, rule, with_launch=objective.with_launch)
    try:
        few = rng.choice((1, FEW_STATES))
        space = explore(problem, order_free=objective.order_free, few_states=few)
        schedule = search(problem, objective, space, easy_labels=rng.choice((0, 64)))
    except NoSchedule:
        return None if expected is None else f"seed {seed}: no schedule, expected {expected}"
    got = (schedule.total.uncovered, schedule.total.time_s)
    if expected is None or not close(got, (expected[0], expected[1] * unit_s)):
        return f"seed {seed}: {got}, expected {expected} × {unit_s}"
    replayed = replay(unrolled, schedule, objective)
    return None if close(got, replayed) else f"seed {seed}: {got}, replayed {replayed}"


def close(got: tuple[int, float], expected: tuple[int, float]) -> bool:
    return got[0] == expected[0] and math.isclose(got[1], expected[1], rel_tol=1e-12, abs_tol=1e-24)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    found: list[str] = []
    for seed in range(arguments.seed, arguments.seed + arguments.cases):
        two_clock = seed % 2 == 1
        case = mismatch(seed, two_clock=two_clock, nodes=9 if two_clock else 13)
        found += [case] if case else []
    sys.stdout.write("\n".join([*found, f"cases {arguments.cases}, mismatches {len(found)}\n"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
