"""Number formats: how many bytes an element takes in memory, scales included."""

from __future__ import annotations

from typing import Literal, get_args

DType = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "nvfp4", "mxfp4"]
"""Every format a spec may name. Matrix peaks of a GPU are keyed by the same words."""

DTYPES: tuple[DType, ...] = get_args(DType)

_BITS: dict[str, float] = {
    "fp32": 32,
    "tf32": 32,  # TF32 is how FP32 operands are multiplied; in memory they stay 32 bits wide
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,
    "int8": 8,
    "int4": 4 + 16 / 128,  # AWQ and GPTQ: one FP16 scale per group of 128 (zero points not counted)
    "nvfp4": 4 + 8 / 16,  # one FP8 scale per block of 16
    "mxfp4": 4 + 8 / 32,  # OCP MX: one shared 8-bit exponent per block of 32
}


def bytes_per_element(dtype: str) -> float:
    """Bytes one element takes in HBM, block scales included."""
    return _BITS[dtype] / 8


def is_quantized(dtype: str) -> bool:
    """Whether the format is narrower than the 16 bits that checkpoints are trained in."""
    return _BITS[dtype] < 16  # noqa: PLR2004 - sixteen bits is the definition
