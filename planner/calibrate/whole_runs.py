"""Recorded runs as figures to learn from: which of them, of which steps, and how sure.

Of a run the figures are taken that say most of the step: a latency of a static batch before its
throughput, and its TPOT beside it; together they count as one. Runs of one plan are repeats: their
median counts, and how far they lie apart is noise.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from planner.calibrate.overheads import SIGMA, Figures
from planner.calibrate.steps import StepParts, figure_steps, figure_wall, step_parts
from planner.errors import PlannerError
from planner.plan.acceptance import accept
from planner.plan.expected import cost, expected
from planner.plan.figures import figure, statistics
from planner.plan.prepare import Prepared, prepare
from planner.plan.runs import UNITS, MetricName, Run
from planner.plan.types import Plan
from planner.plan.verdict import Policy
from planner.serving.plan import plan_question
from planner.spec.again import deployment_again
from planner.spec.catalog import Catalog
from planner.spec.question import Question, ask

_OF_STEP: tuple[tuple[MetricName, ...], ...] = (("step", "tpot", "itl"),)
_OF_BATCH: tuple[tuple[MetricName, ...], ...] = (
    ("latency", "output_throughput", "total_throughput"),
    ("tpot", "step", "itl"),
)
"""Of each choice the first figure that a run has."""
_TO_DEVIATION = 1.4826
"""From the median absolute deviation to a standard deviation, for normal noise."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """A run with the plan it was recorded against."""

    run_id: str
    plan: Plan
    run: Run
    day: str


@dataclass(frozen=True)
class Skipped:
    """A run that nothing is learnt from, and why."""

    run_id: str
    plan_id: str
    reason: str


@dataclass(frozen=True, eq=False)
class Measured:
    """All that was measured of one plan: its telling figures, over repeats."""

    plan: Plan
    """As planned without what earlier runs taught."""
    question: Question
    prepared: Prepared
    recorded: tuple[Recorded, ...]
    ratios: Mapping[MetricName, tuple[float, ...]]
    """Measured over predicted as time, by figure: one for each run that has it."""

    @property
    def spread(self) -> float:
        """How far repeats lie apart: a standard deviation of the log of their median; 0 of one."""
        found = [0.0]
        for ratios in self.ratios.values():
            logs = [math.log(ratio) for ratio in ratios]
            middle = median(logs)
            apart = _TO_DEVIATION * median(abs(log - middle) for log in logs)
            found.append(apart / math.sqrt(len(logs)))
        return max(found)

    def value(self, metric: MetricName) -> float:
        """The median of a figure over repeats, in its unit."""
        figures = expected(self.plan)
        predicted = float(next(each.value for each in figures if each.metric == metric))
        ratio = math.exp(median(math.log(ratio) for ratio in self.ratios[metric]))
        return predicted * ratio if UNITS[metric] == "s" else predicted / ratio


def base_question(plan: Plan, catalog: Catalog) -> Question:
    """What a plan answers, asked again without what earlier runs taught. Raises SpecError."""
    deployment = deployment_again(plan.deployment, f"plan {plan.plan_id}")
    question = ask(deployment, catalog)
    kept = tuple(each for each in question.calibrations if each.calibration.runs is None)
    return replace(question, calibrations=kept)


def gather(
    recorded: Iterable[Recorded], catalog: Catalog
) -> tuple[dict[tuple[str, str], list[Measured]], list[Skipped]]:
    """Plans with their runs by (gpu, backend), and the runs that say nothing of them."""
    skipped: list[Skipped] = []
    by_plan: dict[str, list[Recorded]] = defaultdict(list)
    asked: dict[str, tuple[Question, Plan]] = {}
    known: dict[str, str] = {}
    for each in recorded:
        stored = each.plan.plan_id
        try:
            if stored not in known:
                question = base_question(each.plan, catalog)
                plan = plan_question(question)
                known[stored] = plan.plan_id
                asked[plan.plan_id] = question, plan
            by_plan[known[stored]].append(each)
        except PlannerError as error:
            skipped.append(Skipped(each.run_id, stored, f"its plan cannot be made again: {error}"))
    found: dict[tuple[str, str], list[Measured]] = defaultdict(list)
    for plan_id, runs in by_plan.items():
        measured = _measured(*asked[plan_id], runs, skipped)
        if measured:
            found[measured.plan.gpu, measured.plan.backend].append(measured)
    return dict(found), skipped


def _measured(
    question: Question, plan: Plan, runs: Sequence[Recorded], skipped: list[Skipped]
) -> Measured | None:
    kept = []
    ratios: dict[MetricName, list[float]] = defaultdict(list)
    for each in runs:
        reason = _unfit(each.run, plan)
        told = {} if reason else _telling(each.run, plan)
        if not told:
            reason = reason or "it has no mean or median of a figure that the plan predicts"
            skipped.append(Skipped(each.run_id, plan.plan_id, reason))
            continue
        kept.append(each)
        for metric, ratio in told.items():
            ratios[metric].append(ratio)
    if not kept:
        return None
    return Measured(
        plan,
        question,
        prepare(question),
        tuple(kept),
        {metric: tuple(values) for metric, values in ratios.items()},
    )


def _unfit(run: Run, plan: Plan) -> str | None:
    """Why a run is no run of a plan's step: another deployment, impossible, other work between."""
    verdict = accept(run, plan)
    if verdict.verdict == "incomparable":
        return verdict.reason
    served = "workload.concurrency" in run.context and plan.workload is None
    if served and all(metric.name != "step" for metric in run.metrics):
        return "between its tokens it served prefills of other requests; the planned step does not"
    return None


def _telling(run: Run, plan: Plan) -> dict[MetricName, float]:
    """The figures that say most of a step, as time over prediction."""
    predicted = {each.metric: each for each in expected(plan)}
    found = {}
    for choice in _OF_BATCH if plan.workload else _OF_STEP:
        for metric in choice:
            known = statistics(run, metric) if metric in predicted else ()
            if known:
                measured = figure(run, metric, known[0], Policy()).cost
                found[metric] = measured / cost(metric, predicted[metric].value)
                break
    return found


def figures(measured: Sequence[Measured]) -> Figures:
    """The figures of one GPU and engine, with the steps they are made of."""
    steps: list[StepParts] = []
    rows: list[tuple[int, MetricName, list[tuple[int, float]]]] = []
    for group, each in enumerate(measured):
        place: dict[tuple[str, bool], int] = {}
        for metric in each.ratios:
            parts, wall = [], figure_wall(each.prepared, metric)
            for load, count in figure_steps(each.prepared, metric):
                key = repr(load), wall is None
                if key not in place:
                    place[key] = len(steps)
                    steps.append(step_parts(each.prepared, load, wall))
                parts.append((place[key], count))
            rows.append((group, metric, parts))
    weights = np.zeros((len(rows), len(steps)))
    for row, (_, _, parts) in enumerate(rows):
        for step, count in parts:
            weights[row, step] += count
    planned = weights @ np.array([step.time_s for step in steps])
    ratios = [
        math.exp(median(math.log(r) for r in measured[group].ratios[metric]))
        for group, metric, _ in rows
    ]
    return Figures(
        tuple(steps),
        weights,
        planned * np.array(ratios),
        np.array([math.hypot(SIGMA, measured[group].spread) for group, _, _ in rows]),
        np.array([1 / len(measured[group].ratios) for group, _, _ in rows]),
        np.array([group for group, _, _ in rows], dtype=np.int64),
    )
