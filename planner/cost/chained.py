"""Tiles of two products, one behind the other, in one kernel.

Either whole rows of the second one's sums stay on the chip while it takes up the first one's result
slice by slice, which never is whole; or whole rows of the first one's result stay, in 16 bit in
shared memory, while the second is multiplied tile by tile. Of the first kind clusters may share
rows: each takes some slices, and they add up their sums. Of the second each has rows of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from planner.cost.roles import SUMS
from planner.cost.sizes import (
    FP32_BYTES,
    LEAST_ROWS,
    MOST_COLUMNS,
    Sizes,
    clusters,
    powers,
    rows_of,
    staged,
    tall_of,
)
from planner.cost.tile import Tile
from planner.graph.window import NodeKey
from planner.num import as_float
from planner.ops.moe import Moe

_SLICE, _NARROW_SLICES = 64, (32, 16)
"""Columns of a first product that a second takes up at a time: usual ones, and down to the depth of
a matrix instruction where these leave clusters idle."""
_HELD_BYTES = 2
"""Of an element between two products."""


def of_chain(sizes: Sizes) -> Iterator[Tile]:
    """Tiles of either kind."""
    if not sizes.flow.held:
        yield from _in_slices(sizes)
    yield from _held(sizes)


def _between(sizes: Sizes) -> float:
    """Columns of the first product that stand one behind the other."""
    second = sizes.cost(sizes.flow.chained[0]).site
    taken_up = float(second.load.dim(second.inputs[0].shape[-1]))
    return max(taken_up, sizes.width(sizes.flow.products) / sizes.joint)


def _in_slices(sizes: Sizes) -> Iterator[Tile]:
    """Rows of the second product's sums stay."""
    chip, rows, between = sizes.chip, sizes.rows, _between(sizes)
    width = sizes.width(sizes.flow.chained)
    for tall, blocks in clusters(chip, rows, width):
        sums = tall * (width / blocks + _SLICE * sizes.joint) * FP32_BYTES
        if sums <= chip.accumulator_bytes:
            heights = math.ceil(rows / tall)
            slices = _even(between, heights, chip.clusters(blocks))
            yield sizes.spread(rows_of(tall, width, blocks), heights, slices, min(tall, rows))


def _even(between: float, heights: int, at_once: int) -> int:
    """Into how many slices rows are cut: the fewest that leave the fewest clusters idle."""

    def busy(slices: int) -> float:
        total = heights * slices
        return total / math.ceil(total / at_once)

    return max((math.ceil(between / each) for each in (_SLICE, *_NARROW_SLICES)), key=busy)


def _held(sizes: Sizes) -> Iterator[Tile]:
    """Rows of the first product's result stay, and the second's where a statistic needs them."""
    chip, flow, rows, between = sizes.chip, sizes.flow, sizes.rows, _between(sizes)
    width = sizes.width(flow.chained)
    for tall in powers(LEAST_ROWS, tall_of(rows)):
        for blocks in powers(1, chip.cluster):
            held = tall * between * _HELD_BYTES / blocks
            columns = min(max(between, width) / blocks, MOST_COLUMNS)
            sums = tall * max(columns, width / blocks * flow.whole) * FP32_BYTES
            shared = held + staged(tall, columns)
            if shared <= chip.shared_bytes and sums <= chip.accumulator_bytes:
                tile = replace(rows_of(tall, between, blocks), kept_bytes=held + sums)
                heights = math.ceil(rows / tall)
                yield _late(sizes, sizes.spread(tile, heights, 1, min(tall, rows)), heights, width)
                break


def _late(sizes: Sizes, tile: Tile, heights: int, width: float) -> Tile:
    """A tile all of whose clusters finish their rows at once, column by column of the second
    product.
    """
    if tile.pieces > 1:
        return tile
    last = sizes.multiplied(sizes.flow.chained)[1] / sizes.weights[1]
    return replace(tile, pieces=sizes.pieces(heights, width), last=last)


def of_experts(sizes: Sizes, key: NodeKey) -> Iterator[Tile]:
    """Both products of each expert in one kernel: a chain for each expert that a token chose."""
    cost = sizes.cost(key)
    op = cost.node.op
    assert isinstance(op, Moe)
    load = op.busiest(cost.site)
    touched = max(1.0, as_float(load.touched))
    rows, slices = as_float(load.pairs) / touched, math.ceil(op.intermediate / _SLICE)
    for tall, blocks in clusters(sizes.chip, rows, cost.width):
        sums = tall * (cost.width / blocks + _SLICE * (1 + op.gated)) * FP32_BYTES
        if sums <= sizes.chip.accumulator_bytes:
            heights = math.ceil(touched * math.ceil(rows / tall))
            tile = rows_of(tall, cost.width, blocks)
            found = sizes.spread(tile, heights, slices, min(tall, rows))
            yield _in_columns(sizes, found, heights, cost.width, 1 / (2 + op.gated))


def _in_columns(sizes: Sizes, tile: Tile, heights: int, width: float, last: float) -> Tile:
    """A tile of experts whose rows ranks sum up. These are whole when the last expert of each is
    done, so columns are, one after another, in the second pass: Comet's order (Zhang et al. 2025,
    arXiv:2502.19811).
    """
    key = sizes.flow.exchange
    if key is None or not isinstance(sizes.cost(key).node.op, SUMS):
        return tile
    return replace(tile, pieces=sizes.pieces(heights, width), last=last)
