"""Number formats: how many bytes an element takes in memory, scales included."""

from __future__ import annotations

from typing import Literal, get_args

DType = Literal[
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "fp8",
    "fp8_block",
    "int8",
    "int4",
    "int4_g64",
    "int4_g32",
    "awq",
    "nf4",
    "nvfp4",
    "mxfp4",
]
"""Every format a spec may name. Matrix peaks of a GPU are keyed by the same words."""

DTYPES: tuple[DType, ...] = get_args(DType)

_SCALE = 16
"""Bits of an FP16 scale of a group of INT4 weights."""
_BITS: dict[str, float] = {
    "fp32": 32,
    "tf32": 32,  # TF32 is how FP32 operands are multiplied; in memory they stay 32 bits wide
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,  # one FP32 scale a tensor or a channel (not counted: 4 bytes of K to N weights)
    "fp8_block": 8 + 32 / 128**2,  # DeepSeek: one FP32 scale per block of 128 × 128 weights
    "fp8_group": 8 + 32 / 128,  # its activations: one FP32 scale per 128 elements of a token
    "int8": 8,  # as fp8
    "int8_head": 8,  # vLLM's KV cache: HEAD_SCALE_BYTES for each token and head beside
    "int4": 4 + _SCALE / 128,  # GPTQ and compressed-tensors, symmetric, groups of 128
    "int4_g64": 4 + _SCALE / 64,
    "int4_g32": 4 + _SCALE / 32,
    "awq": 4 + (_SCALE + 4) / 128,  # groups of 128, with a 4-bit zero point each
    "nf4": 4 + 8 / 64 + 32 / (64 * 256),  # bitsandbytes: blocks of 64, scales quantised themselves
    "nvfp4": 4 + 8 / 16,  # one FP8 scale per block of 16
    "mxfp4": 4 + 8 / 32,  # OCP MX: one shared 8-bit exponent per block of 32
}

HEAD_SCALE_BYTES = {"int8_head": 4}
"""Bytes of the scale that a token's K (or V) of one head has, by format of the cache."""

_OPERANDS = {
    "int8_head": "int8",
    "fp8_block": "fp8",
    "fp8_group": "fp8",
    "int4_g64": "int4",
    "int4_g32": "int4",
    "awq": "int4",
}


def bytes_per_element(dtype: str) -> float:
    """Bytes one element takes in HBM, block scales included."""
    return _BITS[dtype] / 8


def is_quantized(dtype: str) -> bool:
    """Whether the format is narrower than the 16 bits that checkpoints are trained in."""
    return _BITS[dtype] < 16  # noqa: PLR2004 - sixteen bits is the definition


def operand(dtype: str) -> str:
    """The format matrix units multiply numbers of this format in: its own without the scales."""
    return _OPERANDS.get(dtype, dtype)
