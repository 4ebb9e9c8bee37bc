"""Are two sets of measurements different, and how far does a median reach?

The rank test is that of Mann and Whitney (1947), in Wilcoxon's form over mean ranks. Few
measurements take the exact distribution of the rank sum given the ties, many the normal
approximation with the correction for ties (Lehmann, Nonparametrics, 1975, ch. 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import NormalDist

EXACT = 30
"""Measurements of both sides together up to which the distribution is counted out."""


def least_p(first: int, second: int) -> float:
    """The smallest two-sided p that so many measurements can give: 2 / C(n + m, n)."""
    return min(1.0, 2 / math.comb(first + second, first)) if first and second else 1.0


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of the rank test that both come from one distribution.

    Both must hold a measurement.
    """
    ranks = doubled_ranks([*first, *second])
    rank_sum = sum(ranks[: len(first)])
    if len(ranks) <= EXACT:
        return _exact(ranks, len(first), rank_sum)
    return _normal(ranks, len(first), rank_sum)


def leaning(first: Sequence[float], second: Sequence[float]) -> int:
    """1 where the first side ranks higher, −1 where the second does, 0 where neither.

    A median may stand on the other side of it than the ranks do.
    """
    ranks = doubled_ranks([*first, *second])
    off = sum(ranks[: len(first)]) - len(first) * (len(ranks) + 1)
    return (off > 0) - (off < 0)


def median_interval(values: Sequence[float], alpha: float) -> tuple[float, float] | None:
    """Bounds of the median with confidence 1 − alpha, whatever the distribution.

    The bounds are measurements: the k-th smallest and the k-th largest, where at most alpha / 2 of
    Binomial(n, 1/2) lies below k. None where the measurements are too few for that.
    """
    ordered, count = sorted(values), len(values)
    # Half a measurement further out: the normal law stands in for the binomial one.
    width = NormalDist().inv_cdf(1 - alpha / 2) * math.sqrt(count) / 2
    below = math.floor(count / 2 - width - 0.5)
    if below < 0:
        return None
    return ordered[below], ordered[count - 1 - below]


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the mean rank of each value, which is whole also where values are equal."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, before = [0] * len(values), 0
    for _, group in groupby(order, key=values.__getitem__):
        alike = list(group)
        for place in alike:
            ranks[place] = 2 * before + len(alike) + 1
        before += len(alike)
    return ranks


def _exact(ranks: Sequence[int], first: int, rank_sum: int) -> float:
    """Share of the ways to pick ``first`` of the ranks whose sum is as far out as this one."""
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(first))]
    for rank in ranks:
        for size in range(first, 0, -1):
            for total, count in ways[size - 1].items():
                ways[size][total + rank] = ways[size].get(total + rank, 0) + count
    picks = ways[first]
    below = sum(count for total, count in picks.items() if total <= rank_sum)
    above = sum(count for total, count in picks.items() if total >= rank_sum)
    return min(1.0, 2 * min(below, above) / math.comb(len(ranks), first))


def _normal(ranks: Sequence[int], first: int, rank_sum: int) -> float:
    """The same by the normal law, half a rank towards the middle."""
    whole, second = len(ranks), len(ranks) - first
    ties = sum(len(list(group)) ** 3 for _, group in groupby(sorted(ranks)))
    variance = first * second / 12 * (whole + 1 - (ties - whole) / (whole * (whole - 1)))
    if variance <= 0:
        return 1.0  # all measurements are equal
    off = abs(rank_sum / 2 - first * (whole + 1) / 2) - 0.5
    return min(1.0, 2 * (1 - NormalDist().cdf(max(0.0, off) / math.sqrt(variance))))
