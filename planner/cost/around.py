"""Tiles of a kernel around attention: some sequences of a head, and the columns that belong to it.

A cluster takes ``rows`` sequences of one KV head, or of a part of the query heads that share it. It
computes their columns of the projections in front, streams their keys and values, keeps Q and O in
shared memory, and sums up its heads' share of the projection behind. Weights of a head are read
once for each tile of sequences and keys once for each part of a KV head, from the L2 but for the
first time. Each cluster writes and reads its sums once (ClusterFusion adds them up atomically).

With projections in front this is of sequences that decode: of a prompt, every tile of queries would
compute the keys of all tokens before it. Rotation and norms of heads may be: each tile of 128
queries rotates the new keys that it sees, half of them on average. What stands behind attention of
prompts: `planner.cost.prompts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from planner.cost.annotate import BlockCosts
from planner.cost.chip import Chip
from planner.cost.fitting import best_tile
from planner.cost.flow import Flow
from planner.cost.prompts import Queries, prompt_tile
from planner.cost.sizes import DEPTH_BYTES, FP32_BYTES, MOST_COLUMNS, STAGES, Sizes
from planner.cost.tile import UNKNOWN, Level, Tile
from planner.cost.types import Device, NodeCost
from planner.dtypes import bytes_per_element
from planner.graph.window import NodeKey
from planner.num import as_float
from planner.ops.attention import AttentionPart
from planner.ops.latent_attention import LatentPart
from planner.ops.types import Operator

_KEYS = 64
"""Keys that are brought in while as many are multiplied."""
_QUERY_TILE = 128
_LEAST_ROWS, _MOST_ROWS = 16, 128
_HELD_BYTES = 2
"""Of an element of Q and O between two stages."""


def fitting_tile(flow: Flow, costs: tuple[BlockCosts, ...], device: Device) -> Tile | None:
    """The tile of any flow that costs least; None where none fits."""
    if not flow.attention:
        return best_tile(flow, costs, device)
    if device.chip is None:
        return UNKNOWN
    around = _Around(Sizes(flow, costs, device, device.chip), device.chip)
    if not (flow.products or flow.chained or flow.by_head or flow.whole):
        return around.plain()
    return around.best() if around.decodes and around.cached else around.of_prompts()


class Sides(NamedTuple):
    """All that a tile around attention depends on."""

    chip: Chip
    bandwidth_bytes_per_s: float
    sequences: float
    heads: int
    kv_heads: int
    """On this rank."""
    key: int
    value: int
    """Elements of a head's key and value."""
    stream_bytes: float
    """Shared memory through which keys and values are brought in."""
    split: float
    """Columns of products that are split by query heads."""
    shared: float
    """Columns of products that are split by KV heads."""
    out: float
    """Columns of the projection behind; 0 where there is none."""
    whole: bool
    """Whether all heads of a row lie in one tile."""
    own_bytes: float
    """Weights that are split by query heads."""
    common_bytes: float
    """Weights that are split by KV heads."""
    cached_bytes: float
    """Keys and values that are read."""
    row_s: float
    """What a row of queries takes on the matrix units for each KV head and all keys."""


@lru_cache(maxsize=256)
def _choices(rows: int, parts: int, blocks: int) -> tuple[Any, Any, Any]:
    """Sequences of a tile, parts of a KV head and blocks of a cluster, all powers of two."""
    sides = [2.0 ** np.arange(int(most).bit_length()) for most in (rows, parts, blocks)]
    first, second, third = np.meshgrid(*sides, indexing="ij")
    return first.ravel(), second.ravel(), third.ravel()


@lru_cache(maxsize=4096)
def tile_of(sides: Sides) -> tuple[Tile, float] | None:
    """The tile that costs least, and how many tiles hold a row; None where none fits."""
    chip, units = sides.chip, 1 if sides.whole else sides.kv_heads
    most = min(_MOST_ROWS, 2 ** math.ceil(math.log2(sides.sequences)))
    group = 1 if sides.whole else sides.heads // sides.kv_heads
    rows, parts, blocks = _choices(most, group, chip.cluster)
    heights, at_once = np.ceil(sides.sequences / rows), chip.multiprocessors // blocks
    total = heights * units * parts
    share = total / np.ceil(total / at_once) * blocks / chip.multiprocessors
    sums_bytes, fits = _footprint(sides, rows, units * parts, units, blocks)
    adds = bool(sides.out) and units * parts > 1
    extra = 2 * np.minimum(at_once, total) * rows * sides.out * FP32_BYTES * adds
    again = heights * (sides.own_bytes + parts * sides.common_bytes) + parts * sides.cached_bytes
    filled_s = again / (chip.fill_bytes_per_s or math.inf)
    padded = np.ceil(_in_tile(sides, units * parts, units) / _LEAST_ROWS) * _LEAST_ROWS
    fill_s = np.maximum(filled_s, parts * padded * sides.row_s) / share
    once = sides.own_bytes + sides.common_bytes + sides.cached_bytes
    least_s = once / sides.bandwidth_bytes_per_s / share
    time_s = np.maximum(least_s, fill_s) + extra / sides.bandwidth_bytes_per_s
    at = int(np.argmin(np.where(fits, time_s, math.inf)))
    if not fits[at]:
        return None
    columns = sides.out or max(
        sides.split / (units * parts[at]) + sides.shared / units,
        sides.heads / (units * parts[at]) * sides.value,
    )
    level: Level = "cluster" if blocks[at] > 1 else "block"
    found = Tile(level, int(rows[at]), math.ceil(columns), int(blocks[at]))
    numbers = (float(each[at]) for each in (sums_bytes, share, extra, fill_s, total / at_once))
    kept_bytes, used, extra_bytes, fill, waves = numbers
    return replace(
        found,
        kept_bytes=kept_bytes,
        share=used,
        extra_bytes=extra_bytes,
        fill_s=fill,
        pieces=float(math.ceil(waves)),
    ), float(units * parts[at])


def _footprint(sides: Sides, rows: Any, tiles: Any, units: int, blocks: Any) -> tuple[Any, Any]:
    """Bytes of sums in each multiprocessor, and whether these and what else it keeps fit.

    Sums of the projection behind stay while those of attention, or of products in front, come and
    go beside them. Q and O of the tile's sequences lie in shared memory.
    """
    tall = np.maximum(_LEAST_ROWS, rows)
    columns = sides.split / tiles + sides.shared / units
    attended = np.ceil(_in_tile(sides, tiles, units) / _LEAST_ROWS) * _LEAST_ROWS * sides.value
    sums = tall * sides.out / blocks + np.maximum(attended, tall * columns / blocks)
    held = np.ceil(rows / blocks) * sides.heads / tiles * (sides.key + sides.value) * _HELD_BYTES
    wide = np.maximum(sides.out, columns) / blocks
    operands = STAGES * (tall + np.minimum(wide, MOST_COLUMNS)) * DEPTH_BYTES
    shared = held + np.maximum(sides.stream_bytes, operands)
    sums_bytes = sums * FP32_BYTES
    fits = (sums_bytes <= sides.chip.accumulator_bytes) & (shared <= sides.chip.shared_bytes)
    return sums_bytes, fits


def _in_tile(sides: Sides, tiles: Any, units: int) -> Any:
    """Query heads that a multiprocessor takes at a time."""
    return sides.heads / tiles / (1 if units > 1 else sides.kv_heads)


@dataclass(frozen=True, eq=False)
class _Around:
    """Attention and its surroundings under a load."""

    sizes: Sizes
    chip: Chip

    @cached_property
    def _scores(self) -> NodeCost:
        return self.sizes.cost(self.sizes.flow.attention[0])

    @property
    def decodes(self) -> bool:
        """Whether each sequence has one new token."""
        return all(group.new_tokens == 1 for group in self._scores.site.load.groups)

    @property
    def cached(self) -> bool:
        """Whether keys and values lie in a cache that all its queries read."""
        op = self._scores.node.op
        if isinstance(op, LatentPart):
            return op.shape.phase == "decode"
        return isinstance(op, AttentionPart) and op.shape.cached

    def plain(self) -> Tile:
        """Nothing but nodes of each head around it: as the attention kernel is cut anyway."""
        flow, load = self.sizes.flow, self._scores.site.load
        tiles = max(1, *(math.ceil(group.new_tokens / _QUERY_TILE) for group in load.groups))
        flops = self._vector_flops(flow.beside) * (tiles - 1) / 2
        rows, (_, _, _, value) = _QUERY_TILE if tiles > 1 else 1, _heads(self._scores.node.op)
        sums_bytes = max(rows, _LEAST_ROWS) * value * FP32_BYTES
        return Tile("block", rows, value, kept_bytes=sums_bytes, extra_flops=flops)

    def of_prompts(self) -> Tile | None:
        """The tile of prompts and what stands behind them; None with products in front, or where
        others decode.
        """
        flow, scores = self.sizes.flow, self._scores
        groups = scores.site.load.groups
        prompts = all(each.new_tokens > 1 and not each.verified for each in groups)
        if flow.products or flow.by_head or not prompts:
            return None
        return prompt_tile(self.sizes, _queries(scores))

    def best(self) -> Tile | None:
        """The tile that costs least."""
        found = tile_of(self._sides)
        if found is None:
            return None
        tile, times = found
        flow = self.sizes.flow
        again = times * (1 + flow.twice) - 1
        return replace(tile, extra_flops=self._vector_flops(flow.before) * again)

    def _vector_flops(self, keys: tuple[NodeKey, ...]) -> float:
        return float(sum(as_float(self.sizes.cost(key).work.vector_flops) for key in keys))

    @property
    def _sides(self) -> Sides:
        flow, sizes, scores = self.sizes.flow, self.sizes, self._scores
        latent = isinstance(scores.node.op, LatentPart)
        heads, kv_heads, key, value = _heads(scores.node.op)
        element = bytes_per_element(scores.site.formats.kv_cache)
        wide = key if latent else key + value
        own = tuple(each for each in flow.products if each not in flow.shared)
        widest = max((sizes.width((each,)) for each in flow.by_head), default=0.0)
        cached = sum(self._private(each) for each in flow.attention)
        cached += float(as_float(scores.handed_bytes))
        return Sides(
            self.chip,
            sizes.device.bandwidth_bytes_per_s,
            max(1.0, float(as_float(scores.site.load.tokens))),
            heads,
            kv_heads,
            key,
            value,
            STAGES * _KEYS * wide * element,
            max(sizes.width(own), widest),
            sizes.width(flow.shared),
            sizes.width(flow.chained),
            flow.whole,
            sum(self._private(each) for each in (*own, *flow.chained, *flow.by_head)),
            sum(self._private(each) for each in flow.shared),
            cached,
            cached / (wide * element) * 2 * (key + value) / sizes.device.peak("bf16"),
        )

    def _private(self, key: NodeKey) -> float:
        return float(as_float(self.sizes.cost(key).executed(None).private_bytes))


def _queries(scores: NodeCost) -> Queries:
    """Queries of prompts: those of latent attention see keys and values that were expanded."""
    op, site = scores.node.op, scores.site
    assert isinstance(op, AttentionPart | LatentPart)
    if isinstance(op, LatentPart):
        heads, _, key, value = _heads(op)
        element, groups = bytes_per_element(site.formats.activations), site.load.of_phase("prefill")
        pairs = op.shape.pairs(site)
        return Queries(heads, heads, key, value, element, groups, float(as_float(pairs)))
    element, pairs = bytes_per_element(site.formats.kv_cache), op.shape.useful_pairs(site.load)
    return Queries(*_heads(op), element, op.shape.groups(site.load), float(as_float(pairs)))


def _heads(op: Operator) -> tuple[int, int, int, int]:
    """Query heads and KV heads of this rank, elements of a key and of a value; latents are both."""
    assert isinstance(op, AttentionPart | LatentPart)
    if isinstance(op, LatentPart):
        return op.shape.heads, 1, op.shape.key, op.shape.value
    return op.shape.heads, op.shape.kv_heads, op.shape.head_dim, op.shape.head_dim
