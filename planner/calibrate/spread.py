"""What whole runs scatter about their plans beyond the interval of kernels and hosts.

Reports of whole runs say how far plans are off where everything is unknown that a plan does not
know: another build, flags, clocks, prompts. Each report is one machine, so its figures are not
independent, and counts as much as any other. Of each figure the width is taken that it would need
for its interval, in logs and added as squares, to reach it; the spread is that quantile of these
widths, over reports, which holds a figure of a new report 8 times in 10: 0.8 · (1 + 1/n) of n
reports (split conformal prediction; for two layers of sampling Dunn, Wasserman and Ramdas,
"Distribution-free prediction sets for two-layer hierarchical models", 2023, whose pooled
distribution function this is). No bias is corrected.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from planner.errors import UsageError
from planner.plan.cases import Answer, Held
from planner.plan.interval import LEAST_SHARE
from planner.plan.ranks import rank_test
from planner.spec.types import SpreadFigure, SpreadName

LEVEL = 0.8
LEAST = 4
"""Fewer reports have no such quantile: 0.8 · (1 + 1/3) is above one."""
_OWN = 0.5
"""Share of a step's kernels, by time, with constants of their own GPU and engine, from which on a
plan is said to have its own constants."""


@dataclass(frozen=True)
class Deviation:
    """One measured figure about its prediction, as logarithms of times."""

    report: str
    figure: SpreadName
    traits: Mapping[str, str]
    """What the plan knows that might tell runs apart, and its value."""
    log_ratio: float
    """Of measured over predicted: above nought is slower."""
    log_fast: float
    log_slow: float
    """From the prediction to the ends of its interval, each above nought."""

    @property
    def needed(self) -> float:
        """The width that, added as squares, brings its interval out to it; 0 inside."""
        reach = self.log_slow if self.log_ratio > 0 else self.log_fast
        return math.sqrt(max(0.0, self.log_ratio**2 - reach**2))


@dataclass(frozen=True)
class Trait:
    """Reports apart by something that plans know: does it tell their scatter?"""

    figure: SpreadName
    name: str
    reports: Mapping[str, int]
    widths: Mapping[str, float | None]
    """By value; None of too few reports."""
    p_value: float | None
    """Of the rank test on the medians of reports; None unless two values have any."""


def deviations(report: str, answer: Answer) -> Iterator[Deviation]:
    """Figures of a run that have an interval; none of a run that is impossible or incomparable."""
    if answer.impossible:
        return
    traits = _traits(answer)
    for held in answer.held:
        found = _deviation(report, held, traits)
        if found:
            yield found


def _deviation(report: str, held: Held, traits: Mapping[str, str]) -> Deviation | None:
    predicted = held.predicted
    if predicted is None or not held.ratio or predicted.low is None or predicted.high is None:
        return None
    up = math.log(predicted.high / predicted.value)
    down = math.log(predicted.value / max(predicted.low, predicted.value * LEAST_SHARE))
    rate = held.figure == "throughput_tok_s"
    fast, slow = (up, down) if rate else (down, up)
    name: SpreadName = "ttft" if held.figure == "ttft_ms" else "pace"
    kind = f"{'served' if traits['load'] == 'served' else 'step or batch'}: {held.figure}"
    return Deviation(report, name, {**traits, "figure": kind}, math.log(held.ratio), fast, slow)


def _traits(answer: Answer) -> dict[str, str]:
    plan = answer.plan
    own = sum(row.share for row in plan.kernels if row.evidence in {"calibrated", "measured-here"})
    mixture = plan.model.mixture
    return {
        "load": "served" if plan.serving else "step or batch",
        "experts": "mixture" if mixture else "dense",
        "constants": "own" if own >= _OWN else "borrowed",
    }


def by_report(found: Iterable[Deviation]) -> dict[str, list[Deviation]]:
    """Deviations of each report."""
    grouped: dict[str, list[Deviation]] = defaultdict(list)
    for each in found:
        grouped[each.report].append(each)
    return dict(grouped)


def width(found: Sequence[Deviation]) -> float:
    """Half of the interval that a figure of another report needs beyond kernels and hosts.

    Raises ValueError for fewer than `LEAST` reports.
    """
    grouped = by_report(found)
    if len(grouped) < LEAST:
        raise ValueError(f"{len(grouped)} reports")
    level = LEVEL * (1 + 1 / len(grouped))
    weighed = sorted(
        (each.needed, 1 / (len(grouped) * len(group)))
        for group in grouped.values()
        for each in group
    )
    reached = 0.0
    for needed, weight in weighed:
        reached += weight
        if reached >= level - _ROUNDING:
            return needed
    return weighed[-1][0]


_ROUNDING = 1e-9


def inside(found: Iterable[Deviation], reach: float) -> float:
    """Share of figures inside an interval with a width added, each report counting the same."""
    groups = by_report(found).values()
    return fmean(fmean(each.needed <= reach for each in group) for group in groups)


def left_out(found: Sequence[Deviation]) -> float:
    """Share inside, each report's by the width that all others give."""
    shares = []
    for report, group in by_report(found).items():
        others = [each for each in found if each.report != report]
        shares.append(inside(group, width(others)))
    return fmean(shares)


def estimate(found: Sequence[Deviation]) -> dict[SpreadName, SpreadFigure]:
    """The spread of each kind of figure. Raises UsageError where reports are too few."""
    names: tuple[SpreadName, ...] = ("pace", "ttft")
    spread = {}
    for name in names:
        each = [one for one in found if one.figure == name]
        reports = len(by_report(each))
        if reports <= LEAST:
            message = f"figures of {name} are in {reports} reports: that tells no interval"
            raise UsageError(message, f"{LEAST + 1} reports or more, by the column report")
        spread[name] = SpreadFigure(
            width=width(each),
            reports=reports,
            figures=len(each),
            before=inside(each, 0.0),
            left_out=left_out(each),
        )
    return spread


def traits(found: Sequence[Deviation]) -> Iterator[Trait]:
    """What plans know of runs, and whether it tells how far they are off."""
    names: tuple[SpreadName, ...] = ("pace", "ttft")
    for figure in names:
        mine = [each for each in found if each.figure == figure]
        for name in dict.fromkeys(key for each in mine for key in each.traits):
            groups: dict[str, list[Deviation]] = defaultdict(list)
            for each in mine:
                groups[each.traits[name]].append(each)
            if len(groups) > 1:
                yield _trait(figure, name, groups)


def _trait(figure: SpreadName, name: str, groups: Mapping[str, list[Deviation]]) -> Trait:
    counts = {value: len(by_report(group)) for value, group in sorted(groups.items())}
    widths = {value: width(groups[value]) if counts[value] >= LEAST else None for value in counts}
    medians = [
        [median(each.needed for each in group) for group in by_report(groups[value]).values()]
        for value in counts
    ]
    p_value = rank_test(*medians) if len(medians) == len(("one", "other")) else None
    return Trait(figure, name, counts, widths, p_value)
