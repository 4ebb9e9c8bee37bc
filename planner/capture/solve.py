"""Fusion and capture searched together: the cheapest kernels of a step in one capture mode."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from planner.capture.timeline import Issue, timeline
from planner.capture.types import FixedCosts, Mode, Timeline
from planner.cost.annotate import BlockCosts
from planner.cost.engine import Engine
from planner.cost.estimator import Estimate, Estimator, bound_of
from planner.cost.estimator import Kernel as Priceable
from planner.cost.kernel import kernel_work
from planner.cost.types import Device, KernelTime, KernelWork
from planner.fusion import types as fusion
from planner.fusion.explore import Space, explore
from planner.fusion.groups import Group, Structure, limit_refusal
from planner.fusion.match import NodeNames, named
from planner.fusion.objective import Additive, Objective, TwoClock
from planner.fusion.search import search
from planner.graph.types import Block
from planner.ops.types import Tiling
from planner.spec.conditions import holds
from planner.spec.types import Scalar


@dataclass(frozen=True, eq=False)
class PricedGroup:
    """A group with its work under a load."""

    group: Group
    asked: Priceable
    estimate: Estimate
    refusal: str | None


@dataclass(frozen=True, eq=False)
class Kernel:
    """One launch of a solution."""

    group: Group
    asked: Priceable
    time: KernelTime
    launch_s: float
    in_graph: bool

    @property
    def work(self) -> KernelWork:
        """Its FLOPs and bytes."""
        return self.asked.work


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
class Problem:
    """All groups of a structure under one load, ready to be priced for any mode.

    ``costs`` are those of each kind of block.
    """

    structure: Structure
    costs: tuple[BlockCosts, ...]
    device: Device
    engine: Engine
    fixed: FixedCosts
    estimator: Estimator
    sequences: int | None = None
    """Sequences of the load, without padding."""
    spaces: dict[bool, Space] = field(default_factory=dict)
    """State graphs by whether order matters: they depend on structure alone and may be shared."""
    known: dict[Hashable, tuple[Priceable, Estimate]] = field(default_factory=dict)
    """Work and time of groups: problems with the same costs and estimator may share them."""

    @cached_property
    def inside(self) -> tuple[tuple[PricedGroup, ...], ...]:
        """Groups within each kind."""
        return tuple(
            tuple(self._price(group, (costs,)) for group in groups)
            for groups, costs in zip(self.structure.inside, self.costs, strict=True)
        )

    @cached_property
    def across(self) -> dict[tuple[int, int], tuple[PricedGroup, ...]]:
        """Groups across each seam."""
        return {
            pair: tuple(
                self._price(group, tuple(self.costs[kind] for kind in pair)) for group in gs
            )
            for pair, gs in self.structure.across.items()
        }

    def _price(self, group: Group, costs: tuple[BlockCosts, ...]) -> PricedGroup:
        rule = group.rule
        tile, decodes = (rule.query_tile, rule.decode_kernel) if rule else (None, None)
        key = (*map(id, costs), group.border.nodes, tile, group.kernel, decodes)
        if key not in self.known:
            tiling = Tiling(tile, self.device.l2_bytes) if tile else None
            work = kernel_work(group.border, costs, self.device, tiling)
            asked = Priceable(group.border, costs, work, group.kernel, decodes)
            self.known[key] = asked, self.estimator.estimate(asked)
        return PricedGroup(group, *self.known[key], limit_refusal(group, costs, self.engine))

    @cached_property
    def covered(self) -> frozenset[tuple[int, str]]:
        """(kind, node) of nodes that a rule of the engine fuses here."""
        if self.structure.rule_set != "engine":
            return frozenset()
        found = set()
        for kind, groups in enumerate(self.inside):
            for priced in groups:
                if len(priced.group.nodes) > 1 and priced.refusal is None:
                    found |= {(kind, name) for _, name in priced.group.nodes}
        for pair, groups in self.across.items():
            for priced in groups:
                if priced.refusal is None:
                    found |= {(pair[offset], name) for offset, name in priced.group.nodes}
        return frozenset(found)

    def solve(self, mode: Mode) -> Solution:
        """The cheapest kernels in a mode, and the timeline they make."""
        objective: Objective = Additive() if mode == "full" else TwoClock()
        kernels: list[Kernel] = []
        problem = self._search_problem(mode, kernels)
        if objective.order_free not in self.spaces:
            self.spaces[objective.order_free] = explore(problem, order_free=objective.order_free)
        schedule = search(problem, objective, self.spaces[objective.order_free])
        kinds = {self._kind_name(kind): kind for kind in range(len(self.costs))}
        runs = tuple(
            SolvedRun(
                self.structure.graph.kinds[kinds[run.kind]],
                run.times,
                tuple(kernels[launch.candidate.id] for launch in run.launches),
            )
            for run in schedule.runs
        )
        start_s = 0.0 if mode == "none" else self.fixed.replay_s
        beyond_s = self.fixed.beyond_s(self.sequences)
        return Solution(mode, runs, timeline(_issues(runs), start_s, beyond_s))

    def _search_problem(self, mode: Mode, kernels: list[Kernel]) -> fusion.Problem:
        graph = self.structure.graph
        blocks = tuple(
            fusion.Block(
                self._kind_name(kind),
                tuple(node.id for node in block.nodes),
                frozenset((u, v) for u, v in block.graph.edges()),
                tuple(self._candidates(self.inside[kind], kind, mode, kernels)),
            )
            for kind, block in enumerate(graph.kinds)
        )
        seams = tuple(
            fusion.Seam(
                self._kind_name(kind),
                self._kind_name(following),
                _seam_edges(graph.kinds[kind], graph.kinds[following]),
                tuple(self._candidates(self.across[kind, following], kind, mode, kernels)),
            )
            for kind, following in graph.pairs
            if following is not None
        )
        sequence = tuple((self._kind_name(run.kind), run.times) for run in graph.sequence)
        return fusion.Problem(sequence, blocks, seams)

    def _kind_name(self, kind: int) -> str:
        return f"{kind}:{self.structure.graph.kinds[kind].label}"

    def _candidates(
        self, groups: tuple[PricedGroup, ...], kind: int, mode: Mode, kernels: list[Kernel]
    ) -> Iterator[fusion.Candidate]:
        for priced in groups:
            kernel = self._kernel(priced, mode)
            single = len(priced.group.nodes) == 1
            uncovered = int(
                single and any((kind, name) in self.covered for _, name in priced.group.nodes)
            )
            device_s = kernel.time.time_s if priced.refusal is None else float("inf")
            price = fusion.Price(uncovered, kernel.launch_s, device_s)
            yield fusion.Candidate(priced.group.name, priced.group.nodes, price, len(kernels))
            kernels.append(kernel)

    def _kernel(self, priced: PricedGroup, mode: Mode) -> Kernel:
        launches, fixed = priced.group.launches, self.fixed
        outside, splits = self._leaves_graph(priced.group)
        in_graph = mode != "none" and not outside and not (splits and mode == "piecewise")
        launch_s = 0.0 if in_graph else launches * fixed.launch_s
        if splits and mode == "piecewise":
            launch_s += fixed.replay_s
        time = _kernel_time(priced, fixed, in_graph=in_graph)
        return Kernel(priced.group, priced.asked, time, launch_s, in_graph)

    def _leaves_graph(self, group: Group) -> tuple[bool, bool]:
        """Whether any graph holds the group, and whether it splits a piecewise one."""
        return group.nodes & self._outside != frozenset(), bool(group.nodes & self._splitting)

    @cached_property
    def _outside(self) -> frozenset[tuple[int, str]]:
        names = set(self.engine.spec.capture.outside)
        return frozenset((offset, name) for name in names for offset in (0, 1))

    @cached_property
    def _splitting(self) -> frozenset[tuple[int, str]]:
        rules = [
            rule for rule in self.engine.spec.capture.splits if holds(rule.when, self.engine.facts)
        ]
        return frozenset(
            (offset, node.id)
            for block in self.structure.graph.kinds
            for node in block.nodes
            if any(named(rule, NodeNames(node.id, node.op_name)) for rule in rules)
            for offset in (0, 1)
        )


def _kernel_time(priced: PricedGroup, fixed: FixedCosts, *, in_graph: bool) -> KernelTime:
    """Estimates are those of graph nodes: outside a graph a kernel starts as a launched one does,
    and every launch beyond the first has its own start.
    """
    estimate, launches = priced.estimate, priced.group.launches
    start_s = fixed.graph_node_s if in_graph else fixed.kernel_s
    floor_s = 0.0
    if launches:
        held = launches if estimate.chain else 1
        floor_s = max(0.0, estimate.floor_s + launches * start_s - held * fixed.graph_node_s)
        floor_s += launches * fixed.collective_s if priced.asked.work.link_bytes else 0.0
    return KernelTime(
        floor_s + estimate.core_s,
        floor_s,
        bound_of(priced.asked.work, floor_s, estimate.core_s),
        estimate.evidence,
        estimate.family,
        estimate.log_low,
        estimate.log_high,
        estimate.borrowed,
    )


def _seam_edges(block: Block, following: Block) -> frozenset[tuple[str, str]]:
    if following.opens:
        return frozenset()
    producers = {tensor: node.id for node in block.nodes for tensor in node.outputs}
    aliases = dict(zip(following.inputs, block.outputs, strict=True))
    return frozenset(
        (producers[aliases[tensor]], node.id)
        for node in following.nodes
        for tensor in node.inputs
        if tensor in aliases
    )


def _issues(runs: tuple[SolvedRun, ...]) -> Iterator[tuple[tuple[Issue, ...], int]]:
    for run in runs:
        yield (
            tuple(
                Issue(
                    kernel.launch_s,
                    kernel.time.time_s,
                    float(kernel.time.time_s - kernel.time.fixed_s),
                    kernel.group.launches if kernel.launch_s else 0,
                )
                for kernel in run.kernels
            ),
            run.times,
        )
