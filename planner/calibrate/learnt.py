"""The words of learning from runs: what was learnt, what could not be, and from which runs."""

from __future__ import annotations

from dataclasses import dataclass

from planner.calibrate.whole_runs import Skipped
from planner.plan.runs import MetricName
from planner.spec.types import CalibrationSpec


@dataclass(frozen=True)
class Parameter:
    """One learnt figure with its 80 % interval: a ratio, or seconds."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LearntRun:
    """One plan with runs. Ratios are measured over predicted, as time: above 1 is slower."""

    plan_id: str
    name: str
    load: str
    """The model and what it ran, in words."""
    run_ids: tuple[str, ...]
    metric: MetricName
    measured: float
    predicted: float
    before: float
    left_out: float
    """Predicted from the runs of other plans alone."""
    after: float


@dataclass(frozen=True)
class Tried:
    """A model that was tried, and its score on runs left out: less is better."""

    terms: tuple[str, ...]
    score: float


@dataclass(frozen=True)
class Errors:
    """Median |log(measured / predicted)| over plans."""

    before: float
    left_out: float
    after: float


@dataclass(frozen=True, eq=False)
class Learnt:
    """What the runs of one GPU and engine teach."""

    gpu: str
    backend: str
    terms: tuple[str, ...]
    reason: str
    parameters: tuple[Parameter, ...]
    runs: tuple[LearntRun, ...]
    errors: Errors
    tried: tuple[Tried, ...]
    calibration: CalibrationSpec


@dataclass(frozen=True)
class Lacking:
    """A GPU and engine with too few plans that ran, and what to run next."""

    gpu: str
    backend: str
    plans: int
    hint: str


@dataclass(frozen=True, eq=False)
class Learning:
    """All that was learnt, what could not be, and the runs that said nothing."""

    learnt: tuple[Learnt, ...]
    lacking: tuple[Lacking, ...]
    skipped: tuple[Skipped, ...]
