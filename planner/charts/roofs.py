"""The roofs over a plan, from the plan alone: so a stored plan is drawn as it was made.

A kernel's bare roofline is the longest of its times at the datasheet's rates, so its bytes over
that time are at most the bandwidth, and equal to it where memory is what takes longest. A node's
ridge is the peak of its format over the bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.plan.types import KernelRow, Plan

VECTOR = "vector"
"""What work outside the matrix units runs on."""


@dataclass(frozen=True)
class Roof:
    """What one unit can reach, by datasheet, and what kernels of the plan do reach."""

    unit: str
    """The format that matrix units multiply, or ``vector``."""
    peak_flops_per_s: float
    ridge_flops_per_byte: float
    reached_flops_per_s: float
    """The highest rate of a kernel of this plan that the unit bounds; nought where none is."""


@dataclass(frozen=True)
class Roofs:
    """The memory roof, and the flat ones."""

    bandwidth_bytes_per_s: float
    reached_bytes_per_s: float
    """The highest bandwidth of a kernel of this plan that memory bounds; nought where none is."""
    units: tuple[Roof, ...]
    """The highest peak first."""


def roofs(plan: Plan) -> Roofs | None:
    """The roofs of the units that the plan uses; None where no kernel moves a byte."""
    moving = [row for row in plan.kernels if row.hbm_bytes and row.roofline_s and row.time_s]
    if not moving:
        return None
    bandwidth = max(row.hbm_bytes / row.roofline_s for row in moving)
    ridges = {
        unit_of_node(node.matmul_flops, node.dtype): node.ridge_flops_per_byte
        for node in plan.nodes
        if not node.composite and (node.matmul_flops or node.vector_flops)
    }
    reached = dict.fromkeys(ridges, 0.0)
    for row in moving:
        unit = unit_of(plan, row)
        if unit in reached and row.bound == "compute":
            reached[unit] = max(reached[unit], flops(row) / row.time_s)
    units = [Roof(u, ridge * bandwidth, ridge, reached[u]) for u, ridge in ridges.items()]
    units.sort(key=lambda roof: -roof.peak_flops_per_s)
    streams = [row.hbm_bytes / row.time_s for row in moving if row.bound == "memory"]
    return Roofs(bandwidth, max(streams, default=0.0), tuple(units))


def flops(row: KernelRow) -> float:
    """FLOPs of the unit that does the bulk: matrix where there is matrix work, else vector."""
    return row.matmul_flops or row.vector_flops


def unit_of(plan: Plan, row: KernelRow) -> str:
    """The unit that a kernel's roof is: that of most of its matrix FLOPs, else the vector units."""
    found: dict[str, float] = {}
    for node in plan.nodes:
        if node.block == row.block and node.id in row.nodes and node.matmul_flops:
            found[node.dtype] = found.get(node.dtype, 0.0) + node.matmul_flops
    return max(found, key=found.__getitem__) if found and row.matmul_flops else VECTOR


def unit_of_node(matmul_flops: float, dtype: str) -> str:
    """The unit that a node's ridge is of."""
    return dtype if matmul_flops else VECTOR
