"""What whole runs scatter about their plans beyond the interval of kernels and hosts.

Reports of whole runs say how far plans are off where everything is unknown that a plan does not
know: another build, flags, clocks, prompts. Of each figure the width is taken that it would need
for its interval, in logs and added as squares, to reach it. A report is what one publisher measured
in one way, so that its figures are not independent. How `planner.calibrate.widths` makes an
interval of them is said there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from planner.plan.cases import Answer, Held
from planner.plan.interval import LEAST_SHARE
from planner.spec.types import SpreadName

Told = Literal["in full", "but the version", "in part"]
"""How much of its question a report states: all, all but the engine's version, not even that."""
TOLD: tuple[Told, ...] = ("in full", "but the version", "in part")
_BASES: Mapping[str, Told] = {"version": "but the version", "load": "in part"}
"""By what a column ``basis`` says is ours."""
_OWN = 0.5
"""Share of a step's kernels, by time, with constants of their own GPU and engine, from which on a
plan is said to have its own constants."""


def told(basis: str) -> Told:
    """What a row states of its question, by its column ``basis``."""
    return _BASES.get(basis, "in full")


@dataclass(frozen=True)
class Deviation:
    """One measured figure about its prediction, as logarithms of times."""

    report: str
    cell: str
    """What ran: machine, engine, model, parallelism and precision, whatever the load."""
    told: Told
    figure: SpreadName
    traits: Mapping[str, str]
    """What the plan knows that might tell runs apart, and its value."""
    log_ratio: float
    """Of measured over predicted: above nought is slower."""
    log_fast: float
    log_slow: float
    """From the prediction to the ends of its interval, each above nought."""
    vendor: str = ""
    """Who makes the card."""

    @property
    def needed(self) -> float:
        """The width that, added as squares, brings its interval out to it; 0 inside."""
        reach = self.log_slow if self.log_ratio > 0 else self.log_fast
        return math.sqrt(max(0.0, self.log_ratio**2 - reach**2))


def deviations(
    report: str, answer: Answer, basis: str = "", vendor: str = ""
) -> Iterator[Deviation]:
    """Figures of a run that have an interval; ``vendor`` makes its cards.

    None of a run that is impossible or incomparable, nor of a static batch that the plan has no
    room for: an engine runs it in parts, which is another load.
    """
    if answer.impossible or (answer.plan.serving is None and not answer.fits):
        return
    traits = _traits(answer)
    run = Deviation(report, _cell(answer), told(basis), "pace", traits, 0.0, 0.0, 0.0, vendor)
    for held in answer.held:
        found = _deviation(held, run)
        if found:
            yield found


def _deviation(held: Held, run: Deviation) -> Deviation | None:
    predicted = held.predicted
    if predicted is None or not held.ratio or predicted.low is None or predicted.high is None:
        return None
    up = math.log(predicted.high / predicted.value)
    down = math.log(predicted.value / max(predicted.low, predicted.value * LEAST_SHARE))
    fast, slow = (up, down) if held.figure == "throughput_tok_s" else (down, up)
    return replace(
        run,
        figure="ttft" if held.figure == "ttft_ms" else "pace",
        traits={**run.traits, "figure": held.figure},
        log_ratio=math.log(held.ratio),
        log_fast=fast,
        log_slow=slow,
    )


def _cell(answer: Answer) -> str:
    parts = answer.plan.parts
    return " ".join(parts[name] for name in ("model", "precision", "parallel", "device", "backend"))


def _traits(answer: Answer) -> dict[str, str]:
    plan = answer.plan
    own = sum(row.share for row in plan.kernels if row.evidence in {"calibrated", "measured-here"})
    mixture = plan.model.mixture
    load = "a static batch" if plan.workload else "a step"
    if plan.serving:
        load = "one user" if plan.serving.concurrency == 1 else "several users"
    return {
        "load": load,
        "experts": "mixture" if mixture else "dense",
        "constants": "own" if own >= _OWN else "borrowed",
    }
