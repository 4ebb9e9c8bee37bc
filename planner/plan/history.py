"""Figures of a run beside what its plan predicts of them, for tables over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.plan.expected import Expected, cost, expected
from planner.plan.figures import LIKE
from planner.plan.runs import Metric
from planner.plan.types import Plan


@dataclass(frozen=True)
class HistoryFigure:
    """One measured figure and the prediction of it, in ``unit``."""

    metric: str
    statistic: str
    unit: str
    measured: float
    predicted: float | None
    """None, as the next three, where the plan does not predict it or there is no plan."""
    slowest: float | None
    """The slow end of the 80 % interval, and the fast end."""
    fastest: float | None
    ratio: float | None
    """How many times slower than predicted: above 1 is worse."""


def history_figures(metrics: Sequence[Metric], plan: Plan | None) -> tuple[HistoryFigure, ...]:
    """One statistic of each metric, those that the plan predicts; all where it predicts none."""
    predictions = {each.metric: each for each in expected(plan)} if plan else {}
    chosen: dict[str, Metric] = {}
    for metric in sorted(metrics, key=_preference):
        chosen.setdefault(metric.name, metric)
    predicted = [name for name in predictions if name in chosen]
    names = predicted or [metric.name for metric in metrics if metric is chosen[metric.name]]
    return tuple(_figure(chosen[name], predictions.get(name)) for name in names)


def _preference(metric: Metric) -> int:
    return LIKE.index(metric.statistic) if metric.statistic in LIKE else len(LIKE)


def _figure(metric: Metric, predicted: Expected | None) -> HistoryFigure:
    head = (metric.name, metric.statistic, metric.unit, metric.value)
    if predicted is None or metric.statistic not in LIKE:
        return HistoryFigure(*head, None, None, None, None)
    ratio = cost(metric.name, metric.value) / cost(metric.name, predicted.value)
    return HistoryFigure(*head, predicted.value, predicted.slowest, predicted.fastest, ratio)
