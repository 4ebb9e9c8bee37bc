"""Tables of the kernel models: constants with meaning and bounds, and what each kernel is made of.

They come from the code that prices kernels, so that they cannot drift from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from builders.markup import code, table
from builders.source_text import field_texts
from planner.cost.fitted import BORROWED_WIDTH
from planner.cost.kernels import (
    attention_decode,
    attention_prefill,
    collective,
    elementwise,
    gemm_kinds,
    mla,
    moe,
    recurrent,
)
from planner.cost.kernels.types import Constant, Variant

VARIANTS: Mapping[str, tuple[Variant, ...]] = {
    "gemm": tuple(gemm_kinds.VARIANTS.values()),
    "attention_prefill": tuple(attention_prefill.VARIANTS.values()),
    "attention_decode": tuple(attention_decode.VARIANTS.values()),
    "mla_prefill": tuple(mla.PREFILL_VARIANTS.values()),
    "mla_decode": tuple(mla.DECODE_VARIANTS.values()),
    "moe": tuple(moe.MODEL.variants[f"{name}_bf16"] for name in moe.KERNELS),
    "collective": collective.VARIANTS,
    "elementwise": (elementwise.STREAM,),
    "recurrent": tuple(recurrent.VARIANTS.values()),
}
"""By family. Of blocks of experts one format stands for all, whose constants are the same."""
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "gemm": gemm_kinds.KINDS,
    "attention_prefill": attention_prefill.KERNELS,
    "attention_decode": attention_decode.KERNELS,
    "mla_prefill": mla.PREFILL_KERNELS,
    "mla_decode": mla.DECODE_KERNELS,
    "moe": moe.KINDS,
}
_PREFIXES = {
    "s": {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12},
    "bytes": {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3},
}


def constants(family: str) -> str:
    """Every constant of a family: meaning, unit, bounds, typical value, and who has it."""
    variants = VARIANTS[family]
    words = {word.name: word for variant in variants for word in variant.constants}
    rows = [
        (
            code(word.name),
            word.meaning[0].upper() + word.meaning[1:],
            _range(word),
            _value(word.unit, word.start),
            "" if word.effective_above is None else _value(word.unit, word.effective_above),
            _owners(word, variants),
        )
        for word in words.values()
    ]
    header = ("constant", "meaning", "bounds", "typical", "effective above", "variants")
    return table(header, rows)


def _range(word: Constant) -> str:
    return f"{_value(word.unit, word.low)} to {_value(word.unit, word.high)}"


def _owners(word: Constant, variants: Iterable[Variant]) -> str:
    having = [word.name in {each.name for each in variant.constants} for variant in variants]
    if all(having):
        return "all"
    owners = zip(variants, having, strict=True)
    return ", ".join(code(variant.name.removesuffix("_bf16")) for variant, has in owners if has)


def _value(unit: str, value: float) -> str:
    """A value in the prefix of its unit that a reader expects."""
    what, _, per = unit.partition("/")
    if what not in _PREFIXES or not value:
        return f"{value:g}"
    prefixes = _PREFIXES[what]
    almost = value * (1 + 1e-9)
    name = next((name for name, factor in prefixes.items() if almost >= factor), [*prefixes][-1])
    return f"{value / prefixes[name]:g} {name}{'/' + per if per else ''}"


def kernels(family: str) -> str:
    """What each kernel of a family is made of, and what the columns mean."""
    kinds = _KINDS[family]
    kind = type(next(iter(kinds.values())))
    names = [field.name for field in dataclasses.fields(kind)]
    rows = [
        (code(name), *(_cell(getattr(each, field)) for field in names))
        for name, each in kinds.items()
    ]
    texts = field_texts(kind)
    said = [f"- {code(name)}: {texts[name]}." for name in names if name in texts]
    shown = table(("kernel", *map(code, names)), rows)
    return "\n".join([shown, *(["", *said] if said else [])]).replace("..", ".")


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{a}×{b}" + (f" (M ≤ {most:g})" if most < float("inf") else "")
            for (a, b), most in value.items()
        )
    if isinstance(value, (int, float)):
        return "any" if value >= 1e9 else f"{value:g}"  # noqa: PLR2004 - no limit, in the code
    return str(value)


def widths() -> str:
    """How much wider the interval of borrowed constants is."""
    rows = [(code(name), f"{width:g} ×") for name, width in BORROWED_WIDTH.items()]
    return table(("evidence", "width of the 80 % interval"), rows)
