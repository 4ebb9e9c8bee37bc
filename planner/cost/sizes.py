"""A flow's sizes under a load, and what a tile of it asks of a chip."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from planner.cost.annotate import BlockCosts
from planner.cost.chip import Chip
from planner.cost.flow import Flow
from planner.cost.tile import Level, Tile
from planner.cost.types import Device, NodeCost
from planner.graph.window import NodeKey
from planner.num import as_float
from planner.ops.moe import Moe
from planner.records import dataclass

FP32_BYTES = 4
LEAST_ROWS, MOST_ROWS = 16, 128
"""Of a tile: the matrix units' smallest, and the usual largest."""
COLUMNS = 128
LEAST_COLUMNS, MOST_COLUMNS = 16, 256
"""Of a tile that is free to be narrow, and of what is brought in at once."""
DEPTH_BYTES = 64
"""Of each row and column that one pipeline stage brings in: 32 numbers of 16 bit."""
STAGES = 2
"""One that is multiplied while the next arrives."""


@dataclass(frozen=True, eq=False)
class Sizes:
    """A flow's sizes under a load."""

    flow: Flow
    costs: tuple[BlockCosts, ...]
    device: Device
    chip: Chip

    def cost(self, key: NodeKey) -> NodeCost:
        """The ledger of a node."""
        return self.costs[key[0]].nodes[key[1]]

    @cached_property
    def rows(self) -> float:
        """Rows of the first product."""
        return max(1.0, self.cost(self.flow.products[0]).rows)

    @cached_property
    def joint(self) -> int:
        """Products whose tiles stand side by side."""
        return len(self.flow.products) if self.flow.joint else 1

    def width(self, keys: tuple[NodeKey, ...]) -> float:
        """Columns of products side by side."""
        return sum(self.cost(key).width for key in keys)

    @cached_property
    def weights(self) -> tuple[float, float]:
        """Bytes of all products' weights, and their seconds at peak rates."""
        flow = self.flow
        experts = (flow.experts,) if flow.experts else ()
        return self.multiplied((*flow.products, *flow.chained, *experts))

    def multiplied(self, products: tuple[NodeKey, ...]) -> tuple[float, float]:
        """The same of some products."""
        found = seconds = 0.0
        for key in products:
            cost = self.cost(key)
            work = cost.executed(None)
            found += as_float(work.private_bytes)
            seconds += as_float(work.matmul_flops) / cost.peak_flops_per_s
        return found, max(seconds, found / self.device.bandwidth_bytes_per_s)

    @cached_property
    def link_s(self) -> float:
        """Seconds of the exchange at the link's rate."""
        key, rate = self.flow.exchange, self.device.link_bytes_per_s
        return float(as_float(self.cost(key).work.link_bytes)) / rate if key and rate else 0.0

    @cached_property
    def _busy_s(self) -> float:
        """Seconds of all products at peak rates, those of attention among them."""
        attended = (self.cost(key) for key in self.flow.attention)
        times = (as_float(cost.work.matmul_flops) / cost.peak_flops_per_s for cost in attended)
        return self.weights[1] + float(sum(times))

    def time_s(self, tile: Tile) -> float:
        """What tiles are compared by."""
        extra_s = tile.extra_bytes / self.device.bandwidth_bytes_per_s
        chip_s = max(self._busy_s, tile.fill_s * tile.share)
        exposed_s = self.link_s - float(tile.hidden_s(self.link_s, chip_s))
        return chip_s / tile.share + exposed_s + extra_s + tile.barriers * BARRIER_S

    def pieces(self, heights: int, width: float) -> float:
        """The narrowest tiles that each multiprocessor computes one after another; of rows that
        come from other ranks at most as many as there are heights.
        """
        tiles = heights * math.ceil(width / LEAST_COLUMNS)
        found = math.ceil(tiles / self.chip.multiprocessors)
        return float(min(found, heights) if self.flow.arrived else found)

    def again(self, times: float, waves: float = 1) -> tuple[float, float]:
        """Bytes and vector FLOPs of what stands in front of the products, ``times`` in all.

        What fits the L2 is read from memory once.
        """
        flow = self.flow
        landed_bytes = self._landed_bytes(flow.arrived) if flow.arrived else 0.0
        if not flow.before:
            return landed_bytes, 0.0
        passes = 1 + flow.twice
        flops = sum(as_float(self.cost(key).work.vector_flops) for key in flow.before)
        size = sum(as_float(self.cost(key).input_bytes[n]) for key, n in flow.before_reads)
        extra_bytes = size * (waves * passes - 1) if size > self.device.l2_bytes else 0.0
        times *= self._copies(flow.experts) if flow.experts else 1
        return extra_bytes + landed_bytes, flops * (times * passes - 1)

    def _copies(self, experts: NodeKey) -> float:
        """How often a row is taken up: by each expert on this rank that its token chose."""
        cost = self.cost(experts)
        assert isinstance(cost.node.op, Moe)
        pairs = as_float(cost.node.op.busiest(cost.site).pairs)
        return max(1.0, float(pairs / as_float(cost.site.rows())))

    def _landed_bytes(self, arrived: NodeKey) -> float:
        """Rows from other ranks that miss the L2 are written to memory and read again."""
        size = as_float(self.cost(arrived).output_bytes[0])
        return float(2 * size) if size > self.device.l2_bytes else 0.0

    def spread(self, tile: Tile, heights: int, slices: int, rows: float) -> Tile:
        """Tiles of whole rows, ``heights`` of them with so many slices each, over the clusters that
        run at once.

        Each cluster takes as many slices in a row as the others (stream-K: Osama et al. 2023), so
        rows are summed up in as many parts more as there are clusters. ``rows``: of each height.
        """
        at_once = self.chip.clusters(tile.blocks)
        total = heights * slices
        share = total / math.ceil(total / at_once) * tile.blocks / self.chip.multiprocessors
        extra_bytes, flops = self.again(max(1, min(slices, at_once / heights)))
        if slices > 1:
            extra_bytes += 2 * min(at_once, total) * rows * tile.columns * FP32_BYTES
        waves = math.ceil(heights / at_once)
        if waves > 1 and self.weights[0] > self.device.l2_bytes:
            extra_bytes += (waves - 1) * self.weights[0] * (self.flow.experts is None)
        fill_s = 0.0
        if self.chip.fill_bytes_per_s and self.flow.experts is None:
            fill_s = heights * self.weights[0] / self.chip.fill_bytes_per_s
        return replace(
            tile,
            share=min(1.0, share),
            extra_bytes=extra_bytes,
            extra_flops=flops,
            fill_s=fill_s,
            pieces=float(waves),
        )


BARRIER_S = 1.3e-6
"""Only to choose between tiles: a barrier is priced as one kernel following another in a graph,
which this is on an H200 (gpu-benches, as in the catalogue's engines)."""


def powers(least: float, most: float) -> Iterator[int]:
    """Powers of two from the one to the other."""
    value = 1
    while value <= most:
        if value >= least:
            yield value
        value *= 2


def tall_of(rows: float) -> int:
    """Rows of a usual tile of so many rows."""
    return next(powers(max(LEAST_ROWS, min(rows, MOST_ROWS)), MOST_ROWS))


def staged(rows: float, columns: float) -> float:
    """Shared memory that brings in operands of a tile, wide ones part by part."""
    return STAGES * (rows + min(columns, MOST_COLUMNS)) * DEPTH_BYTES


def crowds(chip: Chip, tall: int, columns: int) -> bool:
    """Whether a tile's sums or its operands are too many for one multiprocessor."""
    sums = tall * columns * FP32_BYTES
    return sums > chip.accumulator_bytes or staged(tall, columns) > chip.shared_bytes


def rows_of(tall: int, width: float, blocks: int) -> Tile:
    """A tile of whole rows in a cluster of so many blocks."""
    level: Level = "block" if blocks == 1 else "cluster"
    return Tile(level, tall, int(width), blocks, tall * width * FP32_BYTES / blocks)


def clusters(
    chip: Chip, rows: float, width: float, *, fewest: bool = False
) -> Iterator[tuple[int, int]]:
    """Heights of tiles, tall ones first, each with the numbers of blocks that hold its rows."""
    for tall in reversed(tuple(powers(LEAST_ROWS, tall_of(rows)))):
        for blocks in powers(1, chip.cluster):
            if not crowds(chip, tall, math.ceil(width / blocks)):
                yield tall, blocks
                if fewest:
                    break
