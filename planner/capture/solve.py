"""Fusion and capture searched together: the cheapest kernels of a step in one capture mode."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property

from planner.capture.apart import in_turn
from planner.capture.layout import Layout, Slot
from planner.capture.regime import Regime, known_regime, objective_of, taken, uncovered
from planner.capture.timeline import Issue, timeline
from planner.capture.types import FixedCosts, Mode, Timeline
from planner.capture.work import worked
from planner.cost.annotate import BlockCosts
from planner.cost.engine import Engine
from planner.cost.estimator import BOUNDS, Estimate, Estimator, bound_number
from planner.cost.estimator import Kernel as Priceable
from planner.cost.types import Device, KernelTime, KernelWork
from planner.fusion import types as fusion
from planner.fusion.bounded import bounded_search
from planner.fusion.groups import Group
from planner.fusion.limits import limit_refusal
from planner.fusion.search import search
from planner.graph.types import Block
from planner.num import Number, any_nonzero, as_float, is_array
from planner.records import dataclass
from planner.spec.types import Scalar


@dataclass(frozen=True, eq=False)
class Kernel:
    """One launch of a solution."""

    group: Group
    asked: Priceable
    time: KernelTime
    launch_s: float
    in_graph: bool
    together: tuple[Kernel, ...] = ()
    called_s: float = 0.0
    """Host time that calling it takes beyond launches, where no graph holds it."""

    @property
    def work(self) -> KernelWork:
        """Its FLOPs and bytes."""
        return self.asked.work

    @cached_property
    def issue(self) -> Issue:
        """As the timeline sees it."""
        time_s, work_s = self.time.time_s, as_float(self.time.time_s - self.time.fixed_s)
        return Issue(self.launch_s, time_s, work_s, self.group.launches if self.launch_s else 0)


@dataclass(frozen=True, eq=False)
class SolvedRun:
    """Equal neighbouring blocks that run the same kernels."""

    block: Block
    times: int
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True, eq=False)
class Solution:
    """The cheapest step in one mode."""

    mode: Mode
    runs: tuple[SolvedRun, ...]
    timeline: Timeline
    gap_s: float = 0.0
    """By how much a better grouping could be quicker at most; 0 where this is the best."""

    @property
    def kernel_count(self) -> int:
        """Device launches of the whole step, graph nodes included."""
        return sum(
            run.times * sum(kernel.group.launches for kernel in run.kernels) for run in self.runs
        )

    def flags(self) -> dict[str, Scalar]:
        """Flags that the chosen groups need turned."""
        return dict(f for run in self.runs for kernel in run.kernels for f in kernel.group.flags)


@dataclass(frozen=True, eq=False)
class Priced:
    """A group with its work under a load."""

    slot: Slot
    asked: Priceable
    estimate: Estimate
    together: tuple[Priced, ...] = ()

    def issued(self, mode: Mode, fixed: FixedCosts) -> tuple[bool, float]:
        """Whether a graph holds it in a mode, and the host's time to launch it."""
        splits = self.slot.splits and mode == "piecewise"
        in_graph = mode != "none" and not self.slot.outside and not splits
        each_s = self.slot.group.launches * fixed.launch_s + self.called_s(fixed)
        launch_s = 0.0 if in_graph else each_s
        return in_graph, launch_s + fixed.replay_s if splits else launch_s

    def called_s(self, fixed: FixedCosts) -> float:
        """Host time that calling it takes beyond launches; none of a kernel that no engine has."""
        call_s = 0.0 if self.slot.group.flow else self.estimate.call_s
        return max(0.0, call_s - fixed.launch_s)

    def floor_s(self, fixed: FixedCosts, *, in_graph: bool) -> Number:
        """What its launches take beside the work.

        Estimates are those of graph nodes: outside a graph a kernel starts as a launched one does,
        and every launch beyond the first has its own start.
        """
        launches, estimate = self.slot.group.launches, self.estimate
        if not launches:
            return 0.0
        start_s = fixed.graph_node_s if in_graph else fixed.kernel_s
        held = estimate.held or (launches if estimate.chain else 1)
        floor_s = max(0.0, estimate.floor_s + launches * start_s - held * fixed.graph_node_s)
        floor_s += estimate.barriers * fixed.graph_node_s
        if any_nonzero(self.asked.work.link_bytes):
            floor_s += launches * fixed.collective_s
        return floor_s

    def price(self, mode: Mode, fixed: FixedCosts, uncovered: int) -> fusion.Price:
        """What the search weighs."""
        in_graph, launch_s = self.issued(mode, fixed)
        device_s = self.floor_s(fixed, in_graph=in_graph) + self.estimate.core_s
        return fusion.Price(uncovered, launch_s, device_s)

    def kernel(self, mode: Mode, fixed: FixedCosts) -> Kernel:
        """The launch that it is in a mode."""
        in_graph, launch_s = self.issued(mode, fixed)
        estimate, floor_s = self.estimate, self.floor_s(fixed, in_graph=in_graph)
        bound = bound_number(self.asked.work, floor_s, estimate.core_s)
        time = KernelTime(
            floor_s + estimate.core_s,
            floor_s,
            bound if is_array(bound) else BOUNDS[bound],
            estimate.evidence,
            estimate.family,
            estimate.log_low,
            estimate.log_high,
            estimate.borrowed,
        )
        apart = tuple(each.kernel(mode, fixed) for each in self.together)
        called_s = self.called_s(fixed)
        return Kernel(self.slot.group, self.asked, time, launch_s, in_graph, apart, called_s)


@dataclass(frozen=True, eq=False)
class Problem:
    """All groups of a structure under one load, ready to be priced for any mode.

    ``costs`` are those of each kind of block.
    """

    layout: Layout
    costs: tuple[BlockCosts, ...]
    device: Device
    engine: Engine
    fixed: FixedCosts
    estimator: Estimator
    sequences: int | None = None
    """Sequences of the load, without padding."""
    known: dict[str, tuple[Priceable, Estimate]] = field(default_factory=dict)
    """Work and time of groups: problems with the same costs and estimator may share them."""
    _priced: dict[int, Priced] = field(default_factory=dict)

    def priced(self, number: int) -> Priced:
        """The group of a slot."""
        if number not in self._priced:
            slot = self.layout.slots[number]
            self._priced[number] = self._all(slot) if slot.group.together else self._single(slot)
        return self._priced[number]

    def _all(self, slot: Slot) -> Priced:
        return Priced(slot, *in_turn(slot, self._costs_of(slot), self.device, self._single))

    def _single(self, slot: Slot) -> Priced:
        known = self.known.get(slot.priced_as)
        if known is None:
            costs = self._costs_of(slot)
            known = self.known[slot.priced_as] = worked(slot, costs, self.device, self.estimator)
        return Priced(slot, *known)

    def _costs_of(self, slot: Slot) -> tuple[BlockCosts, ...]:
        return tuple(self.costs[kind] for kind in slot.kinds)

    @cached_property
    def _refused(self) -> frozenset[int]:
        """Slots that are too large to run."""
        return frozenset(
            number
            for number, slot in self.layout.limited
            if limit_refusal(slot.group, self._costs_of(slot), self.engine)
        )

    def solve(self, mode: Mode) -> Solution:
        """The cheapest kernels in a mode, and the timeline they make."""
        try:
            schedule = self._exact(mode)
        except fusion.SearchTooLarge:
            schedule = self._bounded(mode)
        slots = {launch.candidate.id for run in schedule.runs for launch in run.launches}
        kernels = {slot: self.priced(slot).kernel(mode, self.fixed) for slot in slots}
        count = self.sequences
        return solution(self.layout, schedule, kernels, mode, self.fixed, sequences=count)

    def _exact(self, mode: Mode) -> fusion.Schedule:
        """The cheapest schedule. Raises SearchTooLarge."""
        alike = known_regime(self.layout, mode, self._refused)
        return search(self.layout.problem, alike.objective, alike.space, self._prices(alike))

    def _prices(self, alike: Regime) -> list[fusion.Price]:
        """As the search weighs each slot."""
        mode, fixed, weights = alike.mode, self.fixed, alike.weights
        return [
            known or self.priced(slot).price(mode, fixed, weights[slot])
            for slot, known in enumerate(alike.unasked)
        ]

    def _bounded(self, mode: Mode) -> fusion.Schedule:
        """A schedule with a bound: every kernel needs its price."""
        refused = self._refused | taken(self.layout, self._refused)
        weights = uncovered(self.layout, refused)
        prices = [
            fusion.Price(weight, 0.0, math.inf)
            if slot in refused
            else self.priced(slot).price(mode, self.fixed, weight)
            for slot, weight in enumerate(weights)
        ]
        return bounded_search(self.layout.problem, objective_of(mode), prices)


def solution(
    layout: Layout,
    schedule: fusion.Schedule,
    kernels: Mapping[int, Kernel],
    mode: Mode,
    fixed: FixedCosts,
    *,
    sequences: Number | None,
) -> Solution:
    """A schedule's kernels, by slot, and the timeline they make."""
    kinds = {block.kind: kind for kind, block in enumerate(layout.problem.blocks)}
    apart = {slot: kernel.together or (kernel,) for slot, kernel in kernels.items()}
    runs = tuple(
        SolvedRun(
            layout.structure.graph.kinds[kinds[run.kind]],
            run.times,
            tuple(each for launch in run.launches for each in apart[launch.candidate.id]),
        )
        for run in schedule.runs
    )
    start_s = 0.0 if mode == "none" else fixed.replay_s
    line = timeline(issues(runs), start_s, fixed.beyond_s(sequences))
    return Solution(mode, runs, line, schedule.gap_s)


def issues(runs: tuple[SolvedRun, ...]) -> Iterator[tuple[tuple[Issue, ...], int]]:
    """The kernels of runs as a timeline takes them."""
    for run in runs:
        yield tuple(kernel.issue for kernel in run.kernels), run.times
