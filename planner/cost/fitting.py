"""Whether a fused kernel's tiles fit on the chip, and which tile costs least.

A kernel of products keeps FP32 sums of its tile; where a statistic needs whole rows of a product,
or a second product sums up over slices of the first, whole rows of sums stay on the chip: in one
multiprocessor, in a cluster whose blocks reach each other's shared memory, or, for a statistic
alone, over the whole grid with a barrier between two passes. Tiles that leave multiprocessors idle
get their share of the bandwidth and the rate, those that come in waves read weights again.

Left out: registers for addresses beside the half kept free, bank conflicts, and the wait for the
last of several partial sums. All of these make real kernels slower, so what fits
here is what could fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from planner.cost.annotate import BlockCosts
from planner.cost.chip import Chip
from planner.cost.flow import Flow
from planner.cost.tile import UNKNOWN, Level, Tile
from planner.cost.types import Device, NodeCost
from planner.graph.window import NodeKey
from planner.num import as_float
from planner.ops.moe import Moe

FP32_BYTES = 4
_LEAST_ROWS, _MOST_ROWS = 16, 128
"""Of a tile: the matrix units' smallest, and the usual largest."""
_COLUMNS = 128
_LEAST_COLUMNS, MOST_COLUMNS = 16, 256
"""Of a tile that is free to be narrow, and of what is brought in at once."""
DEPTH_BYTES = 64
"""Of each row and column that one pipeline stage brings in: 32 numbers of 16 bit."""
STAGES = 2
"""One that is multiplied while the next arrives."""
_SLICE = 64
"""Columns of a first product that a second takes up at a time."""


def best_tile(flow: Flow, costs: tuple[BlockCosts, ...], device: Device) -> Tile | None:
    """The tile that costs least; None where none fits."""
    if device.chip is None:
        return UNKNOWN
    sizes = Sizes(flow, costs, device, device.chip)
    if flow.experts:
        found = list(_of_experts(sizes, flow.experts))
    elif flow.chained:
        found = list(_of_chain(sizes))
    elif flow.whole:
        found = list(_of_whole_rows(sizes))
    elif flow.products:
        return _of_columns(sizes)
    else:
        return _of_rows(sizes)
    return min(found, key=sizes.time_s, default=None)


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
        """Bytes of the products' weights, and their seconds at peak rates."""
        found = seconds = 0.0
        experts = (self.flow.experts,) if self.flow.experts else ()
        for key in (*self.flow.products, *self.flow.chained, *experts):
            cost = self.cost(key)
            work = cost.executed(None)
            found += as_float(work.private_bytes)
            seconds += as_float(work.matmul_flops) / cost.peak_flops_per_s
        return found, max(seconds, found / self.device.bandwidth_bytes_per_s)

    def time_s(self, tile: Tile) -> float:
        """What tiles are compared by."""
        extra_s = tile.extra_bytes / self.device.bandwidth_bytes_per_s
        least_s = max(self.weights[1] / tile.share, tile.fill_s)
        return least_s + extra_s + tile.barriers * _BARRIER_S

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
        )


_BARRIER_S = 1.3e-6
"""Only to choose between tiles: a barrier is priced as one kernel following another in a graph,
which this is on an H200 (gpu-benches, as in the catalogue's engines)."""


def _powers(least: float, most: float) -> Iterator[int]:
    value = 1
    while value <= most:
        if value >= least:
            yield value
        value *= 2


def _tall(rows: float) -> int:
    """Rows of a usual tile of so many rows."""
    return next(_powers(max(_LEAST_ROWS, min(rows, _MOST_ROWS)), _MOST_ROWS))


def _staged(rows: float, columns: float) -> float:
    """Shared memory that brings in operands of a tile, wide ones part by part."""
    return STAGES * (rows + min(columns, MOST_COLUMNS)) * DEPTH_BYTES


def _of_columns(sizes: Sizes) -> Tile:
    """Products whose tiles are free to be narrow."""
    chip, rows, joint = sizes.chip, sizes.rows, sizes.joint
    width = sizes.width(sizes.flow.products) / joint
    tall, columns = _tall(rows), _COLUMNS
    heights = math.ceil(rows / tall)
    while columns > _LEAST_COLUMNS and _crowds(chip, tall, columns * joint):
        columns //= 2
    while columns > _SLICE and heights * width < columns * chip.multiprocessors:
        columns //= 2
    count = math.ceil(width / columns)
    extra_bytes, flops = sizes.again(count, math.ceil(heights * count / chip.multiprocessors))
    kept = tall * columns * joint * FP32_BYTES
    return Tile("block", tall, columns, 1, kept, 1.0, extra_bytes, flops)


def _crowds(chip: Chip, tall: int, columns: int) -> bool:
    """Whether a tile's sums or its operands are too many for one multiprocessor."""
    sums = tall * columns * FP32_BYTES
    return sums > chip.accumulator_bytes or _staged(tall, columns) > chip.shared_bytes


def _of_rows(sizes: Sizes) -> Tile:
    """No products: rows are kept for their statistics, or read twice where they are too long."""
    chip, flow = sizes.chip, sizes.flow
    if not flow.rows:
        return Tile("block", 1, _COLUMNS)
    cost = sizes.cost(flow.rows[0])
    columns = int(cost.site.load.dim(cost.site.inputs[0].shape[-1]))
    kept = columns * FP32_BYTES
    for blocks in _powers(1, chip.cluster):
        if kept / blocks <= chip.shared_bytes:
            level: Level = "block" if blocks == 1 else "cluster"
            return Tile(level, 1, columns, blocks, kept_bytes=kept / blocks)
    again = sum(as_float(sizes.cost(key).input_bytes[0]) for key in flow.rows)
    return Tile("block", 1, _COLUMNS, extra_bytes=again)


def _of_whole_rows(sizes: Sizes) -> Iterator[Tile]:
    """A product whose rows a statistic needs whole."""
    chip, rows, width = sizes.chip, sizes.rows, sizes.width(sizes.flow.products)
    tall = _tall(rows)
    whole = math.ceil(rows / tall) * tall * width * FP32_BYTES / chip.multiprocessors
    if whole <= chip.accumulator_bytes:
        partial = rows * math.ceil(width / _COLUMNS) * 2 * FP32_BYTES
        extra_bytes, flops = sizes.again(math.ceil(width / _COLUMNS))
        extra_bytes += partial
        yield Tile("grid", tall, _COLUMNS, 1, whole, 1.0, extra_bytes, flops, 1)
    for tall, blocks in _clusters(chip, rows, width, fewest=True):
        yield sizes.spread(_rows_of(tall, width, blocks), math.ceil(rows / tall), 1, tall)


def _rows_of(tall: int, width: float, blocks: int) -> Tile:
    """A tile of whole rows in a cluster of so many blocks."""
    level: Level = "block" if blocks == 1 else "cluster"
    return Tile(level, tall, int(width), blocks, tall * width * FP32_BYTES / blocks)


def _clusters(
    chip: Chip, rows: float, width: float, *, fewest: bool = False
) -> Iterator[tuple[int, int]]:
    """Heights of tiles, tall ones first, each with the numbers of blocks that hold its rows."""
    for tall in reversed(tuple(_powers(_LEAST_ROWS, _tall(rows)))):
        for blocks in _powers(1, chip.cluster):
            if not _crowds(chip, tall, math.ceil(width / blocks)):
                yield tall, blocks
                if fewest:
                    break


def _of_chain(sizes: Sizes) -> Iterator[Tile]:
    """A second product that sums up over slices of the first one's result."""
    chip, flow, rows = sizes.chip, sizes.flow, sizes.rows
    width = sizes.width(flow.chained)
    second = sizes.cost(flow.chained[0]).site
    between = float(second.load.dim(second.inputs[0].shape[-1]))
    for tall, blocks in _clusters(chip, rows, width):
        sums = tall * (width / blocks + _SLICE * sizes.joint) * FP32_BYTES
        if sums <= chip.accumulator_bytes:
            heights, slices = math.ceil(rows / tall), math.ceil(between / _SLICE)
            yield sizes.spread(_rows_of(tall, width, blocks), heights, slices, min(tall, rows))


def _of_experts(sizes: Sizes, key: NodeKey) -> Iterator[Tile]:
    """Both products of each expert in one kernel: a chain for each expert that a token chose."""
    cost = sizes.cost(key)
    op = cost.node.op
    assert isinstance(op, Moe)
    load = op.busiest(cost.site)
    touched = max(1.0, as_float(load.touched))
    rows, slices = as_float(load.pairs) / touched, math.ceil(op.intermediate / _SLICE)
    for tall, blocks in _clusters(sizes.chip, rows, cost.width):
        sums = tall * (cost.width / blocks + _SLICE * (1 + op.gated)) * FP32_BYTES
        if sums <= sizes.chip.accumulator_bytes:
            heights = math.ceil(touched * math.ceil(rows / tall))
            tile = _rows_of(tall, cost.width, blocks)
            yield sizes.spread(tile, heights, slices, min(tall, rows))
