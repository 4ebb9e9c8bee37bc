"""Tiles of attention of prompts with what stands behind it, as one kernel.

A cluster takes some tokens and all heads of this rank, which its blocks share. What they attend to
stays in their shared memory in 16 bit until all heads are done. Then statistics of whole rows are
known, and each block multiplies the rows by its columns of the projection: no sums are passed on.
Blocks read keys and values once for as many query heads of a KV head as fill a matrix tile.

The last tokens of a prompt see all keys, the mean one half of them: no step is shorter than the
tile of the last tokens. Queries, keys and values come from memory, for of a prompt each tile would
compute those of all tokens before it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from planner.cost.sizes import FP32_BYTES, LEAST_ROWS, MOST_COLUMNS, Sizes, powers, staged
from planner.cost.tile import Level, Tile
from planner.num import as_float
from planner.ops.types import SequenceGroup

_QUERY_ROWS = 128
"""Of a tile of queries, of one head or of several that share keys."""
_KEYS, _STAGES = 64, 2
"""Keys that are brought in while as many are multiplied."""
_HELD_BYTES = 2
"""Of an element of a query, and of what it attends to."""


class Queries(NamedTuple):
    """An attention of prompts on one rank."""

    heads: int
    kv_heads: int
    key: int
    """Elements of a head's key."""
    value: int
    """Elements of a head's value."""
    element_bytes: float
    """Of an element of these."""
    groups: tuple[SequenceGroup, ...]
    pairs: float
    """Of queries and keys that meet, for one head."""

    @property
    def tokens(self) -> float:
        """Of all prompts."""
        return float(sum(as_float(each.count * each.new_tokens) for each in self.groups))

    @property
    def longest(self) -> float:
        """Keys that the last token of a prompt sees, by those that the mean one does."""
        most = max(float(as_float(each.kv_tokens)) for each in self.groups)
        return max(1.0, most * self.tokens / self.pairs)

    def heights(self, tall: int) -> int:
        """Tiles of so many tokens."""
        counted = ((each.count, each.new_tokens) for each in self.groups)
        return int(sum(as_float(count) * math.ceil(new / tall) for count, new in counted))


def prompt_tile(sizes: Sizes, queries: Queries) -> Tile | None:
    """The tile that costs least, of equals the one that reads least; None where none fits."""
    found = [
        _tile(sizes, queries, tall, blocks)
        for tall in powers(LEAST_ROWS, _QUERY_ROWS)
        for blocks in powers(1, min(sizes.chip.cluster, queries.heads))
    ]
    fitting = (each for each in found if each)
    return min(fitting, key=lambda each: (sizes.time_s(each), each.fill_s), default=None)


def _tile(sizes: Sizes, queries: Queries, tall: int, blocks: int) -> Tile | None:
    """A tile of so many tokens; None where it does not fit."""
    kept_bytes = _kept(sizes, queries, tall, blocks)
    if kept_bytes is None:
        return None
    level: Level = "cluster" if blocks > 1 else "block"
    width = int(sizes.width(sizes.flow.chained)) or queries.heads * queries.value
    tile = Tile(level, tall, width, blocks, kept_bytes)
    return _over(sizes, queries, tile)


def _kept(sizes: Sizes, queries: Queries, tall: int, blocks: int) -> float | None:
    """What one multiprocessor keeps, if it does.

    Attended rows, and beside them queries and keys or weights on their way, lie in shared memory;
    sums of a tile of queries, then of one of columns, or of whole rows for a statistic, do not.
    """
    chip, flow = sizes.chip, sizes.flow
    columns = sizes.width(flow.chained) / blocks
    held = tall * math.ceil(queries.heads / blocks) * queries.value * _HELD_BYTES
    wide = (queries.key + queries.value) * queries.element_bytes
    stream = _QUERY_ROWS * queries.key * _HELD_BYTES + _STAGES * _KEYS * wide
    at_once = columns if flow.rows else min(columns, MOST_COLUMNS)
    sums = max(_QUERY_ROWS * queries.value, tall * at_once) * FP32_BYTES
    shared = held + max(stream, staged(tall, columns))
    fits = shared <= chip.shared_bytes and sums <= chip.accumulator_bytes
    return held + sums if fits else None


def _over(sizes: Sizes, queries: Queries, tile: Tile) -> Tile:
    """A tile over the clusters that run at once, the last tokens of a prompt first."""
    chip, flow = sizes.chip, sizes.flow
    heights, at_once = queries.heights(tile.rows), chip.clusters(tile.blocks)
    behind = _share_behind(sizes, queries)
    longest = behind + (1 - behind) * queries.longest
    waves = max(math.ceil(heights / at_once), longest)
    share = heights / waves * tile.blocks / chip.multiprocessors
    packed = max(1, min(queries.heads // queries.kv_heads, _QUERY_ROWS // tile.rows))
    seen = queries.pairs / queries.tokens * (queries.key + queries.value) * queries.element_bytes
    filled = heights * (sizes.multiplied(flow.chained)[0] + queries.heads / packed * seen)
    flops = sum(float(as_float(sizes.cost(key).work.vector_flops)) for key in flow.beside)
    pieces, last = _travelling(sizes, heights, at_once, behind)
    return replace(
        tile,
        share=min(1.0, share),
        extra_flops=flops * (heights / sum(as_float(g.count) for g in queries.groups) - 1) / 2,
        fill_s=filled / (chip.fill_bytes_per_s or math.inf) / share,
        pieces=pieces,
        last=last,
    )


def _share_behind(sizes: Sizes, queries: Queries) -> float:
    """The projection's part of the time at peak rates."""
    flops = 2 * queries.heads * queries.pairs * (queries.key + queries.value)
    attended_s = flops / sizes.device.peak("bf16")
    behind_s = sizes.multiplied(sizes.flow.chained)[1]
    return behind_s / (attended_s + behind_s)


def _travelling(sizes: Sizes, heights: int, at_once: int, behind: float) -> tuple[float, float]:
    """Parts, and in which share of the time they become complete: a cluster's rows one tile after
    another, or columns of the projection at the end.
    """
    waves, columns = math.ceil(heights / at_once), sizes.width(sizes.flow.chained)
    if waves > 1 or not columns:
        return float(waves), 1.0
    return sizes.pieces(heights, columns), behind
