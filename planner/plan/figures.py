"""The figure of a run to compare, and how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from planner.plan.expected import cost
from planner.plan.ranks import median_interval
from planner.plan.runs import MetricName, Run
from planner.plan.verdict import Policy

LIKE = ("median", "mean")
"""Statistics that are held against each other, and against a prediction; the first is preferred:
one slow request moves a mean."""


@dataclass(frozen=True)
class Figure:
    """One figure as time (throughput inverted): more is worse."""

    statistic: str
    value: float
    """In the metric's unit."""
    cost: float
    low: float
    """Pessimistic interval of ``cost``."""
    high: float
    samples: tuple[float, ...]


def statistics(run: Run, metric: MetricName) -> tuple[str, ...]:
    """The comparable statistics that a run has of a metric, the preferred first."""
    known = {m.statistic for m in run.metrics if m.name == metric and m.value > 0}
    samples = run.samples.get(metric)
    if samples:
        # Chunks that arrive together have no gap between them: a median of nought says nothing.
        known = known | {"median"} if median(samples) > 0 else known - {"median"}
    return tuple(name for name in LIKE if name in known)


def figure(run: Run, metric: MetricName, statistic: str, policy: Policy) -> Figure:
    """The figure of a statistic that the run has. The median is that of its measurements."""
    samples = tuple(run.samples.get(metric, ()))
    if statistic == "median" and samples:
        value = median(samples)
    else:
        value = next(m.value for m in run.metrics if (m.name, m.statistic) == (metric, statistic))
        samples = ()
    costs = tuple(cost(metric, each) for each in samples)
    middle = cost(metric, value)
    found = median_interval(costs, policy.alpha)
    if found is None:
        # Too few to bound their median: as far as they reach, and the assumed spread beyond.
        ends = (middle, *costs)
        found = min(ends) / (1 + policy.spread), max(ends) * (1 + policy.spread)
    return Figure(statistic, value, middle, *found, costs)
