"""Multi-head latent attention (DeepSeek): prefill expands the latent, decode absorbs it.

*Prefill* is plain multi-head attention, keys of 128 + 64 elements and values of 128 in every head;
the expansion of the latent is a GEMM of its own. *Decode* multiplies the queries into the latent's
space first (GEMMs of their own), so that all heads share one stream of 512 + 64 elements per
token: read once per sequence, at 2·(576 + 512) FLOPs per head and token. The formulas are those of
`attention_prefill` and `attention_decode`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.kernels.attention import ACTIVATION_BYTES, AttentionShape, split_name
from planner.cost.kernels.attention_decode import CONSTANTS, DecodeKernel, Stream, stream_s
from planner.cost.kernels.attention_prefill import COMMON, PrefillKernel, prefill_s
from planner.cost.kernels.types import Constants, KernelModel, Variant
from planner.cost.types import Device
from planner.num import Number, ceil_div, minimum, where

PREFILL_KERNELS: dict[str, PrefillKernel] = {
    "fa3": PrefillKernel(64, persistent=True, diagonal=0.5),
    "fmha-v2": PrefillKernel(64),
    "fmha-hopper": PrefillKernel(128, 128, diagonal=0.5),
    "triton": PrefillKernel(16),
    "trtllm-gen": PrefillKernel(256),
}
DECODE_KERNELS: dict[str, DecodeKernel] = {
    "fa3": DecodeKernel("always", 128, 8, 64),
    "flashmla": DecodeKernel("always", 128, 8, 64),
    "mmha": DecodeKernel("always", 64, 64, 64, "none"),
    "triton": DecodeKernel("always", 8, 16, 64),
    "trtllm-gen": DecodeKernel("always", 128, 8, 128),
}
_UNUSED = {"start_power", "window_tiles", "copy_s"}
"""Constants for head sizes, windows and grouped heads, of which there is one kind here."""
_FORMATS = ("bf16", "fp8")


@dataclass(frozen=True)
class MlaShape:
    """``batch`` like sequences on one GPU; ``heads`` of one rank. Sizes are DeepSeek's."""

    batch: Number
    new_tokens: Number
    kv_tokens: Number
    """The new tokens included."""
    heads: Number
    latent_dim: Number = 512
    rope_dim: Number = 64
    head_dim: Number = 128
    """Elements of a key without its position, and of a value where that is not given."""
    value_dim: Number = 0
    """0: as wide as a key without its position."""


PREFILL_VARIANTS = {
    f"{name}.{dtype}": Variant(f"{name}.{dtype}", COMMON)
    for name in PREFILL_KERNELS
    for dtype in _FORMATS
}
DECODE_VARIANTS = {
    f"{name}.{dtype}": Variant(
        f"{name}.{dtype}", tuple(word for word in CONSTANTS if word.name not in _UNUSED)
    )
    for name in DECODE_KERNELS
    for dtype in _FORMATS
}


def expanded(shape: MlaShape) -> AttentionShape:
    """Prefill as multi-head attention over the expanded latent."""
    return AttentionShape(
        shape.batch,
        shape.new_tokens,
        shape.kv_tokens,
        shape.heads,
        shape.heads,
        shape.head_dim + shape.rope_dim,
        where(shape.value_dim > 0, shape.value_dim, shape.head_dim),
    )


def prefill_time_s(
    variant: str,
    shape: MlaShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,
) -> Number:
    """Seconds of the attention kernel and the write of the new latent."""
    name, kv_bytes = split_name(variant)
    kernel = PREFILL_KERNELS[name]
    return prefill_s(kernel, kv_bytes, expanded(shape), device, values, warm=warm)


PREFILL = KernelModel("mla_prefill", PREFILL_VARIANTS, prefill_time_s)


def decode_time_s(
    variant: str,
    shape: MlaShape,
    device: Device,
    values: Constants,
    *,
    warm: bool = False,
) -> Number:
    """Seconds of the attention kernel and the write of the new latent."""
    name, kv_bytes = split_name(variant)
    kernel = DECODE_KERNELS[name]
    return stream_s(kernel, _stream(kernel, kv_bytes, shape), device, values, warm=warm)


DECODE = KernelModel("mla_decode", DECODE_VARIANTS, decode_time_s)


def _stream(kernel: DecodeKernel, kv_bytes: float, shape: MlaShape) -> Stream:
    rows = shape.heads * shape.new_tokens
    key = shape.latent_dim + shape.rope_dim
    both = key + shape.latent_dim
    return Stream(
        units=shape.batch * ceil_div(rows, kernel.rows),
        rows=minimum(rows, kernel.rows),
        splits=shape.kv_tokens > 0,
        keys=shape.kv_tokens,
        history=shape.kv_tokens,
        key_bytes=key * kv_bytes,
        key_flops=2 * both,
        kv_bytes=shape.batch * shape.kv_tokens * key * kv_bytes,
        io_bytes=ACTIVATION_BYTES * shape.batch * rows * both,
        requests=shape.batch,
        copies=False,
    )
