"""What many requests saw: means and percentiles, as far as a run of this length can tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_RANKS = (50, 95, 99)
_BEYOND = 5
"""Requests that must lie beyond a percentile for it to be told."""


@dataclass(frozen=True)
class Spread:
    """A time over many requests, in seconds. None where too few lie beyond the percentile."""

    mean_s: float
    """Over all requests."""
    p50_s: float | None
    """Half of them took less."""
    p95_s: float | None
    """One in twenty took more."""
    p99_s: float | None
    """One in a hundred took more."""


def spread(times_s: Sequence[float]) -> Spread:
    """Mean and percentiles, interpolated between neighbours as benchmark tools do
    (`numpy.percentile`); of nothing, zero.
    """
    import numpy as np

    if not times_s:
        return Spread(0.0, None, None, None)
    told = [len(times_s) * (100 - rank) >= 100 * _BEYOND for rank in _RANKS]
    found = [
        float(np.percentile(times_s, rank)) if enough else None
        for rank, enough in zip(_RANKS, told, strict=True)
    ]
    return Spread(sum(times_s) / len(times_s), *found)


def weighted(times_s: Sequence[tuple[float, int]]) -> Spread:
    """The same over times that each happened so many times: a percentile is the least time that
    so large a share did not exceed.
    """
    import numpy as np

    if not times_s:
        return Spread(0.0, None, None, None)
    values, counts = np.array(sorted(times_s), dtype=float).T
    reached = np.cumsum(counts)
    total = reached[-1]
    places = [int(np.searchsorted(reached, total * rank / 100)) for rank in _RANKS]
    found = [
        float(values[place]) if total * (100 - rank) >= 100 * _BEYOND else None
        for rank, place in zip(_RANKS, places, strict=True)
    ]
    return Spread(float(values @ counts / total), *found)
