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
from dataclasses import replace

from planner.cost.annotate import BlockCosts
from planner.cost.chained import of_chain, of_experts
from planner.cost.flow import Flow
from planner.cost.sizes import (
    COLUMNS,
    FP32_BYTES,
    LEAST_COLUMNS,
    Sizes,
    clusters,
    crowds,
    powers,
    rows_of,
    tall_of,
)
from planner.cost.tile import UNKNOWN, Level, Tile
from planner.cost.types import Device
from planner.num import as_float

_BUSY_COLUMNS = 64
"""Down to which tiles are cut so that each multiprocessor has one."""


def best_tile(flow: Flow, costs: tuple[BlockCosts, ...], device: Device) -> Tile | None:
    """The tile that costs least; None where none fits."""
    if device.chip is None:
        return UNKNOWN
    sizes = Sizes(flow, costs, device, device.chip)
    if flow.experts:
        found = list(of_experts(sizes, flow.experts))
    elif flow.chained:
        found = list(of_chain(sizes))
    elif flow.whole:
        found = list(_of_whole_rows(sizes))
    elif flow.products:
        return _of_columns(sizes)
    else:
        return _of_rows(sizes)
    return min(found, key=sizes.time_s, default=None)


def _of_columns(sizes: Sizes) -> Tile:
    """Products whose tiles are free to be narrow."""
    chip, rows, joint = sizes.chip, sizes.rows, sizes.joint
    width = sizes.width(sizes.flow.products) / joint
    tall, columns = tall_of(rows), COLUMNS
    heights = math.ceil(rows / tall)
    while columns > LEAST_COLUMNS and crowds(chip, tall, columns * joint):
        columns //= 2
    while columns > _BUSY_COLUMNS and heights * width < columns * chip.multiprocessors:
        columns //= 2
    count = math.ceil(width / columns)
    extra_bytes, flops = sizes.again(count, math.ceil(heights * count / chip.multiprocessors))
    kept, pieces = tall * columns * joint * FP32_BYTES, sizes.pieces(heights, width)
    return Tile("block", tall, columns, 1, kept, 1.0, extra_bytes, flops, pieces=pieces)


def _of_rows(sizes: Sizes) -> Tile:
    """No products: rows are kept for their statistics, or read twice where they are too long."""
    chip, flow = sizes.chip, sizes.flow
    if not flow.rows:
        return Tile("block", 1, COLUMNS)
    cost = sizes.cost(flow.rows[0])
    columns = int(cost.site.load.dim(cost.site.inputs[0].shape[-1]))
    kept = columns * FP32_BYTES
    for blocks in powers(1, chip.cluster):
        if kept / blocks <= chip.shared_bytes:
            level: Level = "block" if blocks == 1 else "cluster"
            return Tile(level, 1, columns, blocks, kept_bytes=kept / blocks)
    again = sum(as_float(sizes.cost(key).input_bytes[0]) for key in flow.rows)
    return Tile("block", 1, COLUMNS, extra_bytes=again)


def _of_whole_rows(sizes: Sizes) -> Iterator[Tile]:
    """A product whose rows a statistic needs whole."""
    chip, rows, width = sizes.chip, sizes.rows, sizes.width(sizes.flow.products)
    tall = tall_of(rows)
    heights = math.ceil(rows / tall)
    whole = heights * tall * width * FP32_BYTES / chip.multiprocessors
    if whole <= chip.accumulator_bytes:
        partial = rows * math.ceil(width / COLUMNS) * 2 * FP32_BYTES
        extra_bytes, flops = sizes.again(math.ceil(width / COLUMNS))
        extra_bytes += partial
        pieces = sizes.pieces(heights, width)
        yield Tile("grid", tall, COLUMNS, 1, whole, 1.0, extra_bytes, flops, 1, pieces)
    for tall, blocks in clusters(chip, rows, width, fewest=True):
        heights = math.ceil(rows / tall)
        found = sizes.spread(rows_of(tall, width, blocks), heights, 1, tall)
        yield replace(found, pieces=sizes.pieces(heights, width))
