"""Time of prefill attention: tiles of queries that walk the keys they may see.

    t = floor + writes + max(waves of tiles, longest tile) + activations from memory

*Tiles.* A tile holds some rows of queries; where a kernel packs, the rows are the query heads that
share a KV head times fewer positions. A tile walks blocks of keys: causal, so later tiles walk
more, up to the context or the window. A block costs its FLOPs at the achieved share of one
multiprocessor's peak, the masked half of a diagonal block included.

*Writes.* Engines write the new keys and values into the cache beside the kernel (and quantise
them): a time per token and passes over their bytes.

*Memory.* Queries, keys, values and outputs move once. They were written just before, by the
benchmark as in serving, so what fits the L2 may lie there; keys of a cached prefix (``kv_tokens``
beyond ``new_tokens``) come from memory unless ``warm``.

Every term grows with batch, new tokens, context and heads. Never faster than the causal FLOPs at
the matrix peak. Left out: exponentials (part of the achieved share), clocks under load.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.kernels.attention import (
    ACTIVATION_BYTES,
    AttentionShape,
    dims,
    split_name,
    visible_tokens,
    windowed,
)
from planner.cost.kernels.types import Constant, Constants, KernelModel, Variant
from planner.cost.types import Device
from planner.num import Number, ceil_div, maximum, minimum, where

_L2_EDGE = 4
"""How sharply reuse ends where the activations pass the L2."""
_WIDE = 256
"""Head size from which kernels take other tiles."""


@dataclass(frozen=True)
class PrefillKernel:
    """How a kernel cuts its work: facts of code and dispatch, found in sources or in timings."""

    rows: int
    """Query rows of a tile."""
    block: int = 64
    """Keys of a block."""
    wide_rows: int = 0
    """The same from head size 256; 0: no other."""
    packs: bool = False
    """Whether the query heads of a KV head share a tile."""
    persistent: bool = False
    """Whether tiles are handed out as multiprocessors fall free, so that no wave is lost."""
    diagonal: float = 0.0
    """Masked blocks that a tile walks besides those it needs."""
    operand: str = "bf16"
    """Format the matrix units multiply in."""


KERNELS: dict[str, PrefillKernel] = {
    "fa2": PrefillKernel(64, 32),
    "fa3": PrefillKernel(128, packs=True, persistent=True),
    "fa3-fp8": PrefillKernel(128, 128, packs=True, operand="fp8"),
    "fa4": PrefillKernel(64, packs=True, persistent=True),
    "flashinfer": PrefillKernel(128, 32, wide_rows=64, packs=True),
    "fmha-v2": PrefillKernel(64, 32, diagonal=0.5),
    "fmha-v2-fp8": PrefillKernel(64, 32, diagonal=0.5, operand="fp8"),
    "fmha-hopper": PrefillKernel(128, diagonal=0.5),
    "fmha-hopper-fp8": PrefillKernel(128, 128, diagonal=0.5, operand="fp8"),
    "trtllm-gen": PrefillKernel(256),
    "trtllm-gen-fp8": PrefillKernel(256, operand="fp8"),
    "triton": PrefillKernel(64, wide_rows=32),
    "triton-fp8": PrefillKernel(64, wide_rows=32, operand="fp8"),
    "xe": PrefillKernel(64, packs=True),
}
"""By name. A name that ends in ``-fp8`` multiplies in FP8; the others read FP8 KV into BF16."""

COMMON = (
    Constant("floor_s", "Launch, drain and the engine's helper kernels", "s", 1e-6, 1.2e-4, 9e-6),
    Constant("tile_s", "Filling and draining one tile", "s", 1e-8, 6e-5, 2e-6),
    Constant("matrix_share", "Achieved share of the matrix peak", "ratio", 0.03, 1.0, 0.6),
    Constant("token_s", "Helper work per new token", "s", 1e-12, 2e-8, 4e-10, 1e-8),
    Constant("write_passes", "Passes over new keys and values", "1", 1e-3, 40, 0.7, 4.0),
    Constant("longest", "The longest tile over its own time", "ratio", 0.3, 4.0, 0.95),
    Constant("dram_share", "Achieved share of bandwidth", "ratio", 0.1, 1.2, 0.8, 1.0),
    Constant("l2_share", "Share of the L2 that keeps activations", "ratio", 0.1, 4.0, 0.8, 1.0),
)
"""Of every variant, multi-head latent attention included."""
_BY_SHAPE = (
    Constant("share_64", "Matrix share at head size 64, to that at 128", "ratio", 0.1, 2, 0.75),
    Constant("share_192", "Matrix share at head size 192, to that at 128", "ratio", 0.1, 2, 1.0),
    Constant("share_256", "Matrix share from head size 256, to that at 128", "ratio", 0.1, 2, 1.0),
    Constant("window_blocks", "Blocks a tile walks beyond its window", "1", 0.0, 8.0, 1.0, 2.0),
)
_WIDEST = "share_256"
_DIMS = ((192, "share_192"), (128, "share_128"), (64, "share_64"))
"""Head sizes up to which a share holds; at 128 it is 1 by definition."""


def _formats(kernel: PrefillKernel) -> tuple[str, ...]:
    return ("fp8",) if kernel.operand == "fp8" else ("bf16", "fp8")


VARIANTS = {
    f"{name}.{dtype}": Variant(f"{name}.{dtype}", (*COMMON, *_BY_SHAPE))
    for name, kernel in KERNELS.items()
    for dtype in _formats(kernel)
}


def time_s(
    variant: str,
    shape: AttentionShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,
) -> Number:
    """Seconds, the write of new keys and values included."""
    name, kv_bytes = split_name(variant)
    kv_bytes = shape.kv_bytes or kv_bytes
    return prefill_s(KERNELS[name], kv_bytes, shape, device, values, warm=warm)


MODEL = KernelModel("attention_prefill", VARIANTS, time_s)


def prefill_s(
    kernel: PrefillKernel,
    kv_bytes: float,
    shape: AttentionShape,
    device: Device,
    values: Constants,
    *,
    warm: bool,
) -> Number:
    """Seconds of any kernel that cuts prefill into tiles. ``kv_bytes`` is per element."""
    tokens = shape.batch * shape.new_tokens
    new_bytes = tokens * shape.kv_heads * dims(shape) * kv_bytes
    written_s = 2 * new_bytes * values["write_passes"] / device.bandwidth_bytes_per_s
    least_s = causal_flops(shape) / device.peak(kernel.operand)
    tiles_s = maximum(_tiles_s(kernel, shape, device, values), least_s)
    memory_s = _memory_s(kv_bytes, shape, device, values, warm)
    return values["floor_s"] + tokens * values["token_s"] + written_s + tiles_s + memory_s


def causal_flops(shape: AttentionShape) -> Number:
    """FLOPs that no kernel can leave out: each query with the keys it sees."""
    before = shape.kv_tokens - shape.new_tokens
    visible = visible_tokens(shape)
    ramp = minimum(maximum(visible - before, 0), shape.new_tokens)
    pairs = ramp * before + ramp * (ramp + 1) / 2 + (shape.new_tokens - ramp) * visible
    return 2 * shape.batch * shape.heads * dims(shape) * pairs


def _tiles_s(
    kernel: PrefillKernel, shape: AttentionShape, device: Device, values: Constants
) -> Number:
    positions, heads = _packed(kernel, shape)
    along = ceil_div(shape.new_tokens, positions)
    tiles = shape.batch * heads * along
    mean, most = _blocks(kernel, shape, positions, along)
    beyond = values.get("window_blocks", 0.0) * windowed(shape)
    block_s = _block_s(kernel, shape, device, values)
    units = device.multiprocessors or 1
    waves = tiles / units
    waves = maximum(waves, 1) if kernel.persistent else ceil_div(waves, 1)
    start_s = values["tile_s"]
    mean_s = start_s + (maximum(mean, 1) + beyond) * block_s
    longest_s = start_s + values["longest"] * (maximum(most, 1) + beyond) * block_s
    return maximum(mean_s * waves, longest_s)


def _packed(kernel: PrefillKernel, shape: AttentionShape) -> tuple[Number, Number]:
    """Positions of a tile, and how many tiles stand side by side at each."""
    rows = _rows(kernel, shape)
    if not kernel.packs:
        return rows, shape.heads
    group = shape.heads / shape.kv_heads
    return rows / minimum(group, rows), shape.kv_heads * ceil_div(group, rows)


def _rows(kernel: PrefillKernel, shape: AttentionShape) -> Number:
    return where(shape.head_dim >= _WIDE, kernel.wide_rows or kernel.rows, kernel.rows)


def _blocks(
    kernel: PrefillKernel, shape: AttentionShape, positions: Number, along: Number
) -> tuple[Number, Number]:
    """Blocks of keys that a tile walks: the mean over a sequence's tiles, and the most."""
    before = shape.kv_tokens - shape.new_tokens
    visible = visible_tokens(shape)
    ramp = minimum(maximum((visible - before) // positions, 0), along)
    keys = ramp * before + positions * ramp * (ramp + 1) / 2 + (along - ramp) * visible
    return keys / along / kernel.block + kernel.diagonal, visible / kernel.block


def _block_s(
    kernel: PrefillKernel, shape: AttentionShape, device: Device, values: Constants
) -> Number:
    flops = 2 * _rows(kernel, shape) * kernel.block * dims(shape)
    share = values.get(_WIDEST, 1.0)
    for most, name in _DIMS:
        share = where(shape.head_dim <= most, values.get(name, 1.0), share)
    peak = device.peak(kernel.operand) / (device.multiprocessors or 1)
    return flops / (peak * values["matrix_share"] * share)


def _memory_s(
    kv_bytes: float, shape: AttentionShape, device: Device, values: Constants, warm: bool
) -> Number:
    tokens = shape.batch * shape.new_tokens
    moved = tokens * (shape.heads + shape.kv_heads) * dims(shape) * ACTIVATION_BYTES
    missed = 1 / (1 + (values["l2_share"] * device.l2_bytes / moved) ** _L2_EDGE)
    before = minimum(shape.kv_tokens - shape.new_tokens, visible_tokens(shape))
    prefix = 0 if warm else shape.batch * before * shape.kv_heads * dims(shape) * kv_bytes
    return (missed * moved + prefix) / (values["dram_share"] * device.bandwidth_bytes_per_s)
