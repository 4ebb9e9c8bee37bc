"""What prices kernels, and what it answers; the bare roofline is the plainest."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

from planner.cost.annotate import BlockCosts
from planner.cost.kernel import Border
from planner.cost.tile import Tile
from planner.cost.types import Bound, Evidence, KernelWork
from planner.graph.types import Node
from planner.num import Number, any_nonzero, as_float, maximum, where
from planner.ops.types import OpClass, Site
from planner.records import dataclass


@dataclass(frozen=True)
class Estimate:
    """Device time of one kernel as a node of a graph."""

    core_s: Number
    """What grows with the work."""
    floor_s: float
    """What it takes to start and drain, however little there is to do."""
    evidence: Evidence
    family: str = ""
    """Kernels of one family share the errors of its model."""
    log_low: Number | None = None
    log_high: Number | None = None
    """80 % interval of log(real time / estimate); None where no residuals are known."""
    borrowed: bool = False
    """Whether the constants are those of another GPU or engine."""
    chain: bool = False
    """Whether the floor holds the starts of all its launches, not of one."""
    held: int = 0
    """Starts that the floor holds where they are not its own launches'; 0 where they are."""
    barriers: int = 0
    """Over the whole grid, each as long as a kernel takes to follow another in a graph."""
    exposed_s: Number = 0.0
    """Of the core what is between ranks alone, however much of the chip has work."""
    call_s: float = 0.0
    """Host time of its call outside graphs; 0 where it is that of any launch."""

    def slowed_s(self, share: float) -> Number:
        """The core where so much of the chip has work."""
        return (self.core_s - self.exposed_s) / share + self.exposed_s


@dataclass(frozen=True)
class Kernel:
    """One group of nodes as an estimator sees it."""

    edge: Border
    costs: tuple[BlockCosts, ...]
    work: KernelWork
    name: str | None = None
    """Which kernel of the kernel models it is, where the engine's rule says so."""
    decodes: str | None = None
    """Which one it is for sequences that decode, where that is another."""
    tile: Tile | None = None
    """Of a kernel that nobody wrote yet: the tile it would be written with."""
    overlaps: bool = False
    """Whether ranks exchange tiles while others are computed."""

    @cached_property
    def nodes(self) -> tuple[tuple[Node, Site], ...]:
        """Its nodes, with what their formulas may look at."""
        found = [self.costs[offset].nodes[name] for offset, name in self.edge.nodes]
        return tuple([(cost.node, cost.site) for cost in found])

    @property
    def writes_cache(self) -> bool:
        """Whether it writes new keys and values itself, as attention tables time it."""
        return any(node.op.op_class == OpClass.CACHE for node, _ in self.nodes)

    @property
    def attended_bytes(self) -> Number:
        """Of its HBM bytes what a model of attention accounts for: all, or, of attention with
        others around it, keys and values.
        """
        if self.tile is None:
            return self.work.hbm_bytes
        found = [self.costs[at].nodes[name] for at, name in self.edge.nodes]
        parts = [cost for cost in found if cost.node.composite]
        handed = max((cost.handed_bytes for cost in parts), default=0)
        return sum(cost.shares(None)[-1] for cost in parts) + handed


class Estimator(Protocol):
    """Prices kernels."""

    def estimate(self, kernel: Kernel) -> Estimate:
        """Time of a kernel under one load."""
        ...


def roofline_s(work: KernelWork) -> Number:
    """The bare roofline: what no kernel beats at the datasheet's rates."""
    return as_float(maximum(work.matmul_s, work.vector_s, work.memory_s, work.network_s))


BOUNDS: tuple[Bound, ...] = ("compute", "memory", "network", "launch")
"""Bounds by number, as arrays of them count."""


def bound_of(work: KernelWork, floor_s: float, core_s: float) -> Bound:
    """What a kernel is bound by: its start, or the resource it needs longest at peak rates."""
    return BOUNDS[bound_number(work, floor_s, core_s)]


def bound_number(work: KernelWork, floor_s: Number, core_s: Number) -> Number:
    """The same as a number of `BOUNDS`. Of equal resources the first counts."""
    compute_s = maximum(work.matmul_s, work.vector_s)
    found = where(compute_s >= work.memory_s, 0, 1)
    if any_nonzero(work.network_s):
        found = where(work.network_s > maximum(compute_s, work.memory_s), 2, found)
    return where(floor_s > core_s, 3, found)


@dataclass(frozen=True)
class RooflineEstimator:
    """Bare roofline plus a documented fixed cost: a lower bound, without an interval."""

    floor_s: float

    def estimate(self, kernel: Kernel) -> Estimate:
        """Floor + max(matrix, vector, memory, network)."""
        return Estimate(roofline_s(kernel.work), self.floor_s, "datasheet")
