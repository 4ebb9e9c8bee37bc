"""Number formats as engines spell them."""

from __future__ import annotations

from planner.dtypes import DType

_WORDS: dict[str, DType] = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp16": "fp16",
    "float32": "fp32",
    "fp32": "fp32",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
    "int8": "int8",
    "w8a8": "int8",
    "awq": "int4",
    "gptq": "int4",
    "w4a16": "int4",
    "w4a16_awq": "int4",
    "w4a16_gptq": "int4",
}


def dtype(word: str | None) -> DType | None:
    """The format a word such as ``torch.bfloat16`` means; None for ``auto`` and unknown ones."""
    return _WORDS.get((word or "").lower().removeprefix("torch."))
