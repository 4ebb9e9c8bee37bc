"""Number formats by the words that engines and names of checkpoints have for them."""

from __future__ import annotations

import re

from planner.dtypes import DType

Formats = tuple[DType, DType | None]
"""Weights, and the operands of GEMMs where they are narrowed too."""

FP8: Formats = ("fp8", "fp8")
AWQ: Formats = ("awq", None)
INT4: Formats = ("int4", None)
NF4: Formats = ("nf4", None)

METHODS: dict[str, Formats] = {
    **dict.fromkeys(("fp8", "fbgemm-fp8", "ptpc-fp8", "w8a8-fp8", "modelopt", "modelopt-fp8"), FP8),
    **dict.fromkeys(("awq", "awq-marlin", "w4a16-awq"), AWQ),
    **dict.fromkeys(("gptq", "gptq-marlin", "marlin", "auto-round", "moe-wna16"), INT4),
    "bitsandbytes": NF4,
    **dict.fromkeys(("modelopt-fp4", "nvfp4", "petit-nvfp4"), ("nvfp4", "nvfp4")),
    "mxfp4": ("mxfp4", None),
    "w8a8-int8": ("int8", "int8"),
}
"""Values of ``--quantization``, but for those where the checkpoint decides."""
_OF_CHECKPOINTS = (
    "compressed-tensors", "quark", "torchao", "hqq", "modelopt-mixed", "auto", "none", "null"
)  # fmt: skip

_WIDE: dict[str, DType] = {
    **dict.fromkeys(("bfloat16", "bf16"), "bf16"),
    **dict.fromkeys(("float16", "half", "fp16"), "fp16"),
    **dict.fromkeys(("float32", "float", "fp32"), "fp32"),
}
_CACHES: dict[str, DType] = {
    **_WIDE,
    **dict.fromkeys(("fp8", "fp8-e4m3", "fp8-e5m2", "fp8-inc"), "fp8"),
    "int8": "int8",
    "nvfp4": "nvfp4",
}
_NAMES: tuple[tuple[str, Formats], ...] = (
    (r"[-_.]awq(?:[-_.].*)?$", AWQ),
    (r"[-_.]bnb-4bit$", NF4),
    (r"[-_.](?:gptq[-_.])?w?int4(?:[-_.].*)?$|[-_.]autoround(?:[-_.].*)?$", INT4),
    (r"[-_.]gptq[-_.]int8$|[-_.]w8a16$", ("int8", None)),
    (r"[-_.](?:quantized[-_.])?w4a16(?:[-_.].*)?$|[-_.]gptq(?:[-_.].*)?$", INT4),
    (r"[-_.](?:quantized[-_.])?w8a8(?:[-_.]int8)?$|[-_.]int8$", ("int8", "int8")),
    (r"[-_.](?:nvfp4|fp4)(?:[-_.].*)?$", ("nvfp4", "nvfp4")),
    (r"[-_.]mxfp4$", ("mxfp4", None)),
    (r"[-_.]fp8(?:[-_.].*)?$", FP8),
)
"""Ends of repositories' names, lower case, and what they are known to hold."""


def wide(text: str) -> DType | None:
    """``--dtype``. None for ``auto``. Raises ValueError with a sentence."""
    return _known(text, _WIDE)


def cache(text: str) -> DType | None:
    """``--kv-cache-dtype``. None for ``auto``. Raises ValueError with a sentence."""
    return _known(text, _CACHES)


def _known(text: str, words: dict[str, DType]) -> DType | None:
    word = text.lower().replace("_", "-").removeprefix("torch.")
    if word == "auto":
        return None
    if word not in words:
        raise ValueError(f"{text[:40]!r} is no format known here")
    return words[word]


def method(text: str) -> Formats | None:
    """``--quantization``; None where the checkpoint decides. Raises ValueError with a sentence."""
    word = text.lower().replace("_", "-")
    if word in _OF_CHECKPOINTS:
        return None
    if word not in METHODS:
        raise ValueError(f"{text[:40]!r} is no quantisation known here")
    return METHODS[word]


def of_name(name: str) -> tuple[str, Formats | None]:
    """A repository's name without the end that tells its format, and that format."""
    for pattern, formats in _NAMES:
        found = re.search(pattern, name.lower())
        if found and found.start():
            return name[: found.start()], formats
    return name, None


def word_of(dtype: DType | None) -> str | None:
    """What engines call a format of 16 or 32 bit; None for a narrower one."""
    return {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}.get(dtype or "")


def in_name(formats: Formats) -> str | None:
    """How a repository's name ends that holds such a checkpoint; None where no custom is known."""
    endings = {FP8: "-FP8", AWQ: "-AWQ", INT4: "-GPTQ-Int4", ("nvfp4", "nvfp4"): "-NVFP4"}
    return next((text for known, text in endings.items() if known == formats), None)
