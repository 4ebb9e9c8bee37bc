"""How a kernel that nobody wrote yet would cut its work, and what that adds to it."""

from __future__ import annotations

import math
from typing import Literal

from planner.cost.types import Device, KernelWork
from planner.num import Number, minimum
from planner.records import dataclass

Level = Literal["block", "cluster", "grid", "unknown"]
"""Where rows meet: in one multiprocessor, in a cluster, over all of them. ``unknown``: of a GPU
whose on-chip memory nobody described."""


@dataclass(frozen=True)
class Tile:
    """How a kernel cuts its work, and what that costs beside the group's own bytes and FLOPs."""

    level: Level
    rows: int = 0
    columns: int = 0
    blocks: int = 1
    """Multiprocessors that share a tile."""
    kept_bytes: float = 0.0
    """Sums and rows that one multiprocessor keeps."""
    share: float = 1.0
    """Of the multiprocessors that have work."""
    extra_bytes: float = 0.0
    """Partial sums, and operands read again."""
    extra_flops: float = 0.0
    """Vector FLOPs of what tiles compute again."""
    barriers: int = 0
    """Over the whole grid."""
    pieces: float = 1.0
    """Parts that each multiprocessor completes one after another: while one travels to other ranks
    the next is multiplied."""
    last: float = 1.0
    """Share of its time in which parts become complete."""
    fill_s: float = 0.0
    """What all its tiles take at least: to read their operands from the L2, or, around attention,
    to multiply rows that are padded."""

    def hidden_s(self, link_s: Number, chip_s: Number) -> Number:
        """What link and chip do at the same time: all that the shorter of the two takes but for one
        part, the last that travels or the first that arrives. ``chip_s``: with all of it at work.
        """
        return (1 - 1 / self.pieces) * minimum(link_s, self.last * chip_s / self.share)

    def added(self, work: KernelWork, device: Device) -> KernelWork:
        """A group's work with what the tile adds; the same where it adds nothing."""
        if not (self.extra_bytes or self.extra_flops):
            return work
        moved = work.hbm_bytes + self.extra_bytes
        vector = work.vector_flops + self.extra_flops
        return KernelWork(
            work.matmul_flops,
            vector,
            moved,
            work.link_bytes,
            work.matmul_s,
            vector / device.vector_flops_per_s,
            moved / device.bandwidth_bytes_per_s,
            work.network_s,
        )


UNKNOWN = Tile("unknown", pieces=math.inf)
