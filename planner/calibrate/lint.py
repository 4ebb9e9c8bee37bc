"""Rules that every family applies to measured rows: flag and count, never drop in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from planner.calibrate.types import Floats, Indices, Mask

REASONS: Mapping[str, str] = {
    "duplicate": "the same shape measured again; the median counts",
    "non-positive": "a time that is not above zero, or not finite",
    "foreign": "the device column names another GPU",
    "impossible": "faster than the matrix units' peak allows, whatever the caches hold",
    "faster-than-dram": "faster than its bytes come from memory: caches were warm",
    "l2-hot": "its operands fit the L2, and the benchmark loops over them",
    "spike": "slower than both neighbours in size by more than half",
    "dip": "faster than both neighbours in size by more than a third",
    "falls": "faster than the next smaller size by more than a tenth",
    "eager": "timed without a CUDA graph: host time, not kernel time",
    "another-kernel": "an odd kernel out that serving does not run at this size",
    "outside": "outside of what the model describes",
}
EXCLUDING = frozenset(
    {"non-positive", "foreign", "impossible", "spike", "dip", "eager", "another-kernel", "outside"}
)
"""Flags that keep a row out of fits and scores; rows with the others are fitted."""

JUMP = 1.5
"""An isolated row this much off both neighbours is a measuring fault, or a dispatch cliff."""
FALL = 0.9


@dataclass(frozen=True)
class Merged:
    """Rows with the shapes measured more than once put together."""

    first: Indices
    """Index of the first row of each distinct shape."""
    time_s: Floats
    """Median time of each distinct shape."""
    repeats: int
    """Rows put into others."""


def merge(keys: Sequence[npt.NDArray[Any]], time_s: Floats) -> Merged:
    """The distinct shapes, each with the median of its times; ``keys`` are parallel arrays."""
    codes = _codes(keys)
    order = np.lexsort((time_s, codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    counts = np.diff(starts, append=len(codes))
    low, high = starts + (counts - 1) // 2, starts + counts // 2
    ordered = time_s[order]
    first = np.minimum.reduceat(order, starts) if len(starts) else order
    return Merged(first, (ordered[low] + ordered[high]) / 2, len(codes) - len(starts))


def _codes(keys: Sequence[npt.NDArray[Any]]) -> Indices:
    """One whole number per distinct combination of the keys."""
    codes = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        distinct, inverse = np.unique(key, return_inverse=True)
        codes = codes * len(distinct) + inverse
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes


def non_positive(time_s: Floats) -> Mask:
    """Times that cannot be logarithms of anything."""
    return ~(np.isfinite(time_s) & (time_s > 0))


def faster_than(time_s: Floats, least_s: Floats, slack: float = 1.05) -> Mask:
    """Rows that beat a physical least time by more than the clock's slack."""
    return time_s * slack < least_s


@dataclass(frozen=True)
class Runs:
    """Rows in runs of growing size: what a row's neighbours are."""

    order: Indices
    same: Mask
    """Whether a row of ``order`` and the next one are of one run."""


def runs(keys: Sequence[npt.NDArray[Any]], size: npt.NDArray[Any]) -> Runs:
    """Rows sorted into runs that share all keys, by growing size."""
    codes = _codes(keys)
    order = np.lexsort((size, codes))
    return Runs(order, codes[order][1:] == codes[order][:-1])


def neighbours(time_s: Floats, along: Runs) -> dict[str, Mask]:
    """Spikes, dips and falls: rows out of line with those next to them in a run."""
    time = time_s[along.order]
    inner = along.same[1:] & along.same[:-1]
    before, here, after = time[:-2], time[1:-1], time[2:]
    found = {name: np.zeros(len(time), bool) for name in ("spike", "dip", "falls")}
    inside = slice(1, -1)
    found["spike"][inside] = inner & (here > JUMP * np.maximum(before, after))
    found["dip"][inside] = inner & (here * JUMP < np.minimum(before, after))
    found["falls"][1:] = along.same & (time[1:] < FALL * time[:-1])
    back = np.empty_like(along.order)
    back[along.order] = np.arange(len(time))
    return {name: mask[back] for name, mask in found.items()}


def kept(lint: Mapping[str, Mask], count: int, also: Iterable[str] = ()) -> Mask:
    """Rows that no excluding flag rules out; ``also`` names further flags that exclude here."""
    result = np.ones(count, bool)
    for name in (EXCLUDING | set(also)) & set(lint):
        result &= ~lint[name]
    return result
