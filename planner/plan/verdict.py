"""What a measured run is judged by, and the judgement: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from planner.display import Displayed
from planner.plan.runs import MetricName, Run

Outcome = Literal["pass", "regress", "improve", "incomparable", "too_few_samples"]


@dataclass(frozen=True)
class Policy:
    """When a difference counts."""

    factor: float = 1.05
    """Runs within this factor of a baseline pass: no one acts on less."""
    alpha: float = 0.01
    """Most probability of a difference by chance, over all figures of a run together."""
    spread: float = 0.05
    """How far a single figure may lie off by chance where a file keeps no measurements of it.

    Assumed, and meant to be pessimistic: it delays a verdict, it never makes one.
    """
    impossible: float = 0.05
    """How much faster than the bare roofline a run must be to be called impossible."""


@dataclass(frozen=True)
class Reference:
    """An accepted run to hold others against."""

    name: str
    run: Run
    parts: Mapping[str, str] | None = None
    """Of the plan it was recorded against: hashes by part."""


@dataclass(frozen=True)
class Judgement:
    """One figure held against one other. ``ratio`` is how many times slower: above 1 is worse."""

    metric: MetricName
    statistic: str
    measured: float
    """In the metric's unit, as is ``reference``."""
    reference: float
    verdict: Outcome
    ratio: float
    interval: tuple[float, float] | None
    """Of the ratio. Against a plan it follows from the 80 % interval of the prediction, against a
    baseline from the spread of both runs.
    """
    p_value: float | None
    """Of the two-sided rank test; None where the samples are too few for it to succeed."""
    reason: str


@dataclass(frozen=True)
class Verdict(Displayed):
    """The answer to "is this run good enough?": that of its most telling figure."""

    verdict: Outcome
    against: str
    """As in ``plan 3f2a91c07b1e`` or ``baseline main``."""
    ratio: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    reason: str
    judgements: tuple[Judgement, ...] = ()
    """Every figure that could be compared; empty where none was."""
    impossible: bool = False
    """Faster than the bare roofline, so that something else was measured."""
    others: tuple[Verdict, ...] = ()
    """What else the run was held against. It decides nothing."""
