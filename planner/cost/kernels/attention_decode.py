"""Time of decode attention: few queries that stream the KV cache past them.

    t = floor + start + smooth max(streams, KV from memory) + combine + helpers

*Streams.* A unit of work is a sequence's KV head with the query heads that share it (packed), or a
query head alone (unpacked, each reading the KV again). It streams tiles of keys and values at the
rate that one thread block sustains, and multiplies them at its share of the matrix peak. Units go
over the multiprocessors in waves; where they are too few, the context is split, which a second
kernel combines. Engines also split short contexts where that does not pay.

*Memory.* KV, queries and outputs at the achieved share of bandwidth, and what filling and draining
the memory system adds, in full once the stream is well beyond the L2 (measurements that repeat a
shape cannot tell how it grows below). A benchmark that repeats a shape finds small KV in the L2;
serving does not (``warm=False``).

Time grows with batch, context and query heads under one dispatch rule. Kernels that decide by
group size or window (`packs`) step where the rule changes, downwards too; one that splits by blocks
of history may take back a few percent where one block more runs beside the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.cost.kernels.attention import (
    ACTIVATION_BYTES,
    AttentionShape,
    dims,
    split_name,
    visible_tokens,
)
from planner.cost.kernels.types import Constant, Constants, KernelModel, Variant
from planner.cost.types import Device
from planner.num import Number, ceil_div, maximum, minimum, where

_L2_EDGE = 6
"""How sharply reuse ends where the KV passes the L2."""
_OVERLAP = 8
"""Norm of streams against memory: close to the greater of the two."""
_BASE_DIMS = 256
"""Elements of a key and a value at head size 128, which `start_s` is for."""
_COUNTED = 992
"""Requests up to which FA3's scheduler kernel prepares each of them."""


@dataclass(frozen=True)
class DecodeKernel:
    """How a kernel cuts its work: facts of code and dispatch, found in sources or in timings."""

    packs: Literal["always", "grouped-full-context", "never"]
    """Whether query heads share the KV they read. FlashAttention 2 packs, and splits, only where
    heads are grouped and no window is set."""
    rows: int
    """Query rows that a unit takes at most."""
    row_step: int
    """Rows a matrix instruction takes: fewer cost as many."""
    tile: int
    """Keys of a tile."""
    splits: Literal["wave", "blocks", "none"] = "wave"
    """How far a context is split: to fill one wave, or into blocks of its whole history (window or
    not) up to some waves."""
    most_splits: float = 1e9
    waves: int = 1
    """Waves that splits may fill."""
    pads: bool = True
    """Whether a tile that the context fills in part is streamed as a whole."""


KERNELS: dict[str, DecodeKernel] = {
    "fa2": DecodeKernel("grouped-full-context", 64, 8, 128, most_splits=128, waves=2),
    "fa3": DecodeKernel("always", 64, 8, 64, most_splits=32),
    "fa4": DecodeKernel("always", 64, 8, 64),
    "flashinfer": DecodeKernel("always", 64, 8, 64, waves=2, pads=False),
    "mmha": DecodeKernel("never", 1, 1, 64, pads=False),
    "triton": DecodeKernel("always", 16, 16, 64, most_splits=8, waves=2, pads=False),
    "trtllm-gen": DecodeKernel("always", 64, 8, 256),
    "xe": DecodeKernel("always", 64, 8, 64),
    "xqa": DecodeKernel("always", 32, 8, 128, "blocks", waves=4, pads=False),
    "xqa-unsplit": DecodeKernel("always", 32, 8, 64, "none"),
}

_XQA_GROUP = 32
"""Most query heads of a KV head that XQA packs."""


def dispatched(kernel: str | None, heads: float, kv_heads: float) -> str | None:
    """The kernel that runs where an engine prefers ``kernel``.

    XQA packs the query heads of a KV head; TensorRT-LLM falls back to its masked multi-head
    attention where there is but one, or more than it packs.
    """
    if kernel in {"xqa", "xqa-unsplit"} and not 1 < heads / kv_heads <= _XQA_GROUP:
        return "mmha"
    return kernel


CONSTANTS = (
    Constant("floor_s", "Launch, drain and the engine's helper kernels", "s", 1e-6, 2e-4, 7e-6),
    Constant("start_s", "Starting a thread block at head size 128", "s", 1e-7, 6e-5, 1.5e-6),
    Constant("start_power", "How starting grows with the head size", "1", -1.0, 1.5, 0.0),
    Constant("stream_bytes_per_s", "KV rate of one thread block", "bytes/s", 1e9, 1e12, 5e10),
    Constant("matrix_share", "Achieved share of the matrix peak", "ratio", 5e-3, 2.0, 0.2, 1.0),
    Constant("dram_share", "Achieved share of bandwidth", "ratio", 0.2, 1.0, 0.85),
    Constant("l2_share", "Share of the L2 that keeps KV", "ratio", 0.15, 2.5, 0.7, 1.0),
    Constant("ramp_s", "What a stream beyond the L2 adds", "s", 1e-8, 6e-5, 4e-6, 1e-5),
    Constant("combine_s", "Combining a split context", "s", 1e-8, 3e-5, 3e-6),
    Constant("window_tiles", "Tiles walked beyond a window", "1", 0.0, 4.0, 0.5, 2.0),
    Constant("request_s", "Helper work per request", "s", 1e-10, 1e-7, 5e-9),
    Constant("copy_s", "Rearranging grouped queries", "s", 1e-9, 2e-5, 3e-7),
)

VARIANTS = {
    f"{name}.{dtype}": Variant(f"{name}.{dtype}", CONSTANTS)
    for name in KERNELS
    for dtype in ("bf16", "fp8")
}


def time_s(
    variant: str,
    shape: AttentionShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,
) -> Number:
    """Seconds, the write of the new key and value included."""
    name, kv_bytes = split_name(variant)
    kv_bytes = shape.kv_bytes or kv_bytes
    stream = _stream(KERNELS[name], kv_bytes, shape)
    return stream_s(KERNELS[name], stream, device, values, warm=warm)


MODEL = KernelModel("attention_decode", VARIANTS, time_s)


@dataclass(frozen=True)
class Stream:
    """KV read by a decode kernel, whatever the attention's kind."""

    units: Number
    """Unit of work: a KV head of a sequence, or a query head."""
    rows: Number
    """Query rows of a unit."""
    splits: Number
    """Whether a unit's context may be split."""
    keys: Number
    history: Number
    """Keys of the whole context; more than `keys` where a window hides some."""
    key_bytes: Number
    key_flops: Number
    """Of one row and one key."""
    kv_bytes: Number
    """Read once by all units."""
    io_bytes: Number
    requests: Number
    copies: Number
    """Whether grouped queries are rearranged first."""
    width: Number = 1.0
    """Key and value size over that at head size 128."""


def _stream(kernel: DecodeKernel, kv_bytes: float, shape: AttentionShape) -> Stream:
    group = shape.heads / shape.kv_heads
    packed = _packs(kernel, group, shape)
    rows = group * shape.new_tokens
    wide = shape.batch * shape.kv_heads * ceil_div(rows, kernel.rows)
    keys = visible_tokens(shape)
    both = dims(shape)
    query_bytes = 2 * ACTIVATION_BYTES * shape.batch * shape.new_tokens * shape.heads * both / 2
    return Stream(
        units=where(packed, wide, shape.batch * shape.heads),
        rows=where(packed, minimum(rows, kernel.rows), shape.new_tokens),
        splits=packed if kernel.packs == "grouped-full-context" else packed | True,
        keys=keys,
        history=shape.kv_tokens,
        key_bytes=both * kv_bytes,
        key_flops=2 * both,
        kv_bytes=shape.batch * shape.kv_heads * keys * both * kv_bytes,
        io_bytes=query_bytes,
        requests=shape.batch,
        copies=(group > 1) & (shape.kv_heads > 1) & (shape.batch > 1),
        width=both / _BASE_DIMS,
    )


def _packs(kernel: DecodeKernel, group: Number, shape: AttentionShape) -> Number:
    grouped = group > 1
    if kernel.packs == "always":
        return grouped | True
    return grouped & (shape.window == 0) & (kernel.packs == "grouped-full-context")


def stream_s(
    kernel: DecodeKernel, stream: Stream, device: Device, values: Constants, *, warm: bool
) -> Number:
    """Seconds of any kernel that streams KV past few queries."""
    moved = stream.kv_bytes + stream.io_bytes
    missed: Number = 1.0
    if warm:
        missed = 1 / (1 + (values["l2_share"] * device.l2_bytes / moved) ** _L2_EDGE)
    memory_s = missed * moved / (values["dram_share"] * device.bandwidth_bytes_per_s)
    start_s = values["start_s"] * stream.width ** values.get("start_power", 0.0)
    units_s = _units_s(kernel, stream, device, values, start_s)
    return (
        values["floor_s"]
        + start_s
        + (units_s**_OVERLAP + memory_s**_OVERLAP) ** (1 / _OVERLAP)
        + values["ramp_s"] * missed * moved / (moved + device.l2_bytes)
        + values.get("request_s", 0.0) * minimum(stream.requests, _COUNTED)
        + values.get("copy_s", 0.0) * stream.copies
    )


def _units_s(
    kernel: DecodeKernel, stream: Stream, device: Device, values: Constants, start_s: Number
) -> Number:
    """All waves of units, the combining of a split context included.

    A larger batch is split less, which saves combining. It still never gets faster here: where
    splitting does not pay, time stays at that of the batch that is split most.
    """
    slots = device.multiprocessors or 1
    read_s, multiply_s = _key_s(kernel, stream, device, values)
    tiles = ceil_div(stream.keys, kernel.tile)
    beyond = values.get("window_tiles", 0.0) * (stream.keys < stream.history)
    most = where(stream.splits, _most_splits(kernel, stream, tiles), 1)
    room = slots * kernel.waves
    filled = minimum(stream.units * most, room)

    def waves_s(blocks: Number, splits: Number) -> Number:
        waves = maximum(ceil_div(blocks, slots), 1)
        walked = (maximum(tiles / splits, 1) + beyond) * kernel.tile
        read = walked if kernel.pads else stream.keys / splits + beyond * kernel.tile
        unit_s = read * read_s + walked * multiply_s
        combine_s = values["combine_s"] * (1 - 1 / splits)
        return (waves - 1) * start_s + waves * unit_s + combine_s

    splits = minimum(maximum(room / stream.units, 1), most)
    return maximum(waves_s(maximum(stream.units, filled), splits), waves_s(filled, most))


def _most_splits(kernel: DecodeKernel, stream: Stream, tiles: Number) -> Number:
    if kernel.splits == "none":
        return minimum(tiles, 1)
    blocks = stream.history / kernel.tile if kernel.splits == "blocks" else tiles
    return maximum(minimum(blocks, kernel.most_splits), 1)


def _key_s(
    kernel: DecodeKernel, stream: Stream, device: Device, values: Constants
) -> tuple[Number, Number]:
    """Seconds of one key for a unit: streaming it, and multiplying it."""
    slots = device.multiprocessors or 1
    rows = ceil_div(stream.rows, kernel.row_step) * kernel.row_step
    rate = device.peak("bf16") * values["matrix_share"] / slots
    return stream.key_bytes / values["stream_bytes_per_s"], rows * stream.key_flops / rate
