"""Plain YAML scalars by the 1.2 core schema: ``on`` and ``no`` are text, 1e-6 is a number."""

from __future__ import annotations

import math
import re

from planner.spec.types import Scalar

_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_NUMBER_STARTS = frozenset("+-.0123456789")
_INT = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WIDEST = 2**63
_MOST_DIGITS = 40


def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar.

    Raises ValueError with a sentence for people: infinity, not-a-number, or too large.
    Source: YAML 1.2.2, section 10.3.2 (tag resolution of the core schema).
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INT.fullmatch(text):
        return _whole(text, 10)
    if _OTHER_BASE.fullmatch(text):
        return _whole(text, 0)
    if _FLOAT.fullmatch(text):
        return _finite(text)
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number")
    return text


def _whole(text: str, base: int) -> int:
    value = int(text, base) if len(text) <= _MOST_DIGITS else _WIDEST
    if not -_WIDEST <= value < _WIDEST:
        raise ValueError("a whole number this large does not fit in 64 bits")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number this large is not finite")
    return value
