"""Statistics of single measurements."""

from __future__ import annotations

from collections.abc import Sequence

from planner.plan.runs import Metric, MetricName, Statistic

_RANKS: dict[Statistic, float] = {
    "min": 0.0,
    "median": 0.5,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "max": 1.0,
}


def summary(name: MetricName, samples: Sequence[float]) -> tuple[Metric, ...]:
    """Mean, extremes and percentiles (linear between ranks) of at least one sample."""
    ordered = sorted(samples)
    mean = Metric(name, "mean", sum(ordered) / len(ordered))
    return (mean, *(Metric(name, word, quantile(ordered, at)) for word, at in _RANKS.items()))


def quantile(ordered: Sequence[float], at: float) -> float:
    """The value at a fraction of the way through sorted samples, linear between neighbours."""
    rank = at * (len(ordered) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)
