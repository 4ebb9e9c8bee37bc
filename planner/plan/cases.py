"""A case answered: what a plan predicts by the names of columns, and how a measurement compares.

Pure: from a plan and measured figures to values. Reading tables and looking names up is elsewhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from planner.num import Number, maximum, minimum
from planner.plan.acceptance import accept, judged_by_plan
from planner.plan.circumstances import planned
from planner.plan.expected import Expected, expected
from planner.plan.runs import Metric, MetricName, Run, Source
from planner.plan.types import Plan
from planner.plan.verdict import Outcome

METRICS: Mapping[str, tuple[MetricName, float]] = {
    "step_ms": ("step", 1e-3),
    "ttft_ms": ("ttft", 1e-3),
    "tpot_ms": ("tpot", 1e-3),
    "latency_s": ("latency", 1.0),
    "throughput_tok_s": ("output_throughput", 1.0),
}
"""The figure behind the name of a column, and the column's unit in SI."""
LAUNCHES = 0.5
"""Share of a step that is no work, from which on it is bound by its launches."""


@dataclass(frozen=True)
class Predicted:
    """One predicted figure with its 80 % interval, in the unit of its column."""

    value: Number
    low: Number | None
    high: Number | None
    """None where no residuals are known."""
    bare: float | None
    """By the bare roofline of the decode steps alone; None where it says nothing."""


@dataclass(frozen=True)
class Held:
    """A measured figure beside the predicted one, in the unit of its column."""

    figure: str
    measured: float
    predicted: Predicted | None
    """None where the plan predicts no such figure."""
    ratio: float | None
    """Measured over predicted, as time: above 1 is slower than predicted. Of a throughput it is
    predicted over measured.
    """
    verdict: Outcome
    reason: str


@dataclass(frozen=True)
class Answer:
    """A plan by the names of columns, and the judgement on what was measured."""

    plan: Plan
    predicted: Mapping[str, Predicted]
    held: tuple[Held, ...]
    """Empty where nothing was measured."""
    verdict: Outcome | None
    ratio: float | None
    reason: str
    impossible: bool = False
    """Faster than the bare roofline, so that something else was measured."""

    @property
    def fits(self) -> bool:
        """Whether the engine starts and holds the load."""
        return self.plan.memory.fits

    @property
    def bound(self) -> str:
        """What takes most of the step: compute, memory, network or launch."""
        return bound(self.plan)


def predictions(plan: Plan) -> dict[str, Predicted]:
    """Every figure that the plan predicts and a column has, by the column's name."""
    return in_columns(expected(plan))


def in_columns(figures: Iterable[Expected]) -> dict[str, Predicted]:
    """The figures that a column has, by the column's name."""
    by_metric = {each.metric: each for each in figures}
    return {
        name: _predicted(by_metric[metric], unit)
        for name, (metric, unit) in METRICS.items()
        if metric in by_metric
    }


def _predicted(each: Expected, unit: float) -> Predicted:
    low = high = None
    if each.slowest is not None and each.fastest is not None:
        ends = each.slowest / unit, each.fastest / unit
        low, high = minimum(*ends), maximum(*ends)
    bare = None if each.bare is None else each.bare / unit
    return Predicted(each.value / unit, low, high, bare)


def bound(plan: Plan) -> str:
    """The bound under which most of the kernels' time falls; launch where gaps take more."""
    if plan.step.modes[plan.step.mode].launch_share > LAUNCHES:
        return "launch"
    shares: defaultdict[str, float] = defaultdict(float)
    for kernel in plan.kernels:
        shares[kernel.bound] += kernel.share
    return max(shares, key=lambda name: shares[name])


def answer(plan: Plan, measured: Mapping[str, float], origin: str = "") -> Answer:
    """Hold measured figures, by the names of their columns, against the plan of their deployment.

    ``origin`` is what identifies the measurement in the run's source.
    """
    found = predictions(plan)
    if not measured:
        return Answer(plan, found, (), None, None, "nothing was measured")
    run = run_of(measured, plan, origin)
    verdict = accept(run, plan)
    held = tuple(_held(run, plan, found, name, value) for name, value in measured.items())
    if verdict.impossible:
        held = tuple(_disowned(each, verdict.reason) for each in held)
    ratio, reason = verdict.ratio, verdict.reason
    return Answer(plan, found, held, verdict.verdict, ratio, reason, verdict.impossible)


def run_of(measured: Mapping[str, float], plan: Plan, origin: str = "") -> Run:
    """Measured figures, by the names of their columns, as a run of a plan's deployment."""
    metrics = tuple(
        Metric(METRICS[name][0], "mean", value * METRICS[name][1])
        for name, value in measured.items()
    )
    return Run(Source("cases", "a table of cases", origin, 0), metrics, context=planned(plan))


def _held(run: Run, plan: Plan, found: Mapping[str, Predicted], name: str, value: float) -> Held:
    metric = METRICS[name][0]
    for judged in judged_by_plan(run, plan):
        if judged.metric == metric:
            return Held(name, value, found[name], judged.ratio, judged.verdict, judged.reason)
    what = "a static batch" if plan.workload else f"one {plan.step.kind} step"
    what = "a closed loop" if plan.serving else what
    reason = f"a plan of {what} predicts no {metric.replace('_', ' ')}"
    return Held(name, value, None, None, "incomparable", reason)


def _disowned(each: Held, reason: str) -> Held:
    """A figure of a run that is none of this deployment."""
    return Held(each.figure, each.measured, each.predicted, each.ratio, "incomparable", reason)


@dataclass(frozen=True)
class Tally:
    """How far predictions are from measurements over some cases."""

    figures: int
    """Measured figures that could be held against a prediction."""
    median_ratio: float | None
    """Of measured over predicted, as time."""
    median: float | None
    """Of |predicted / measured − 1|, as time."""
    mean: float | None
    bias: float | None
    """Median of predicted / measured − 1: above nought is predicted too slow."""
    inside: float | None
    """Share of figures inside the 80 % interval, of those that have one."""


def tally(held: Iterable[Held]) -> Tally:
    """Errors over figures. Those without a ratio do not count."""
    known = [each for each in held if each.ratio]
    if not known:
        return Tally(0, None, None, None, None, None)
    ratios = sorted(each.ratio for each in known if each.ratio)
    errors = [1 / ratio - 1 for ratio in ratios]
    sizes = [abs(error) for error in errors]
    judged = [each.verdict == "pass" for each in known if _has_interval(each)]
    return Tally(
        len(known),
        median(ratios),
        median(sizes),
        math.fsum(sizes) / len(sizes),
        median(errors),
        sum(judged) / len(judged) if judged else None,
    )


def _has_interval(each: Held) -> bool:
    return each.predicted is not None and each.predicted.low is not None
