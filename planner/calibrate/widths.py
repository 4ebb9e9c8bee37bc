"""From deviations of whole runs to the width that plans add to their intervals.

Learnt from are reports that tell their question in full, as whoever asks for a plan does. Where
fewer than five do, those whose engine version is ours join them; reports whose load is in part ours
are judged and never learnt from. A report counts for as many figures as it has independent ones
(`planner.calibrate.nested`). The spread is the quantile of what figures need that holds one of a
new report 8 times in 10; no bias is corrected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from planner.calibrate.nested import Components, components, quantile, weights
from planner.calibrate.spread import TOLD, Deviation, Told
from planner.errors import UsageError
from planner.plan.ranks import rank_test
from planner.spec.types import SpreadFigure, SpreadName

LEVEL = 0.8
LEAST = 4
"""Fewer reports have no such quantile: 0.8 · (1 + 1/3) is above one."""
NAMES: tuple[SpreadName, ...] = ("pace", "ttft")


@dataclass(frozen=True)
class Trait:
    """Reports apart by something that plans, or their readers, know: does it tell their scatter?"""

    figure: SpreadName
    name: str
    reports: Mapping[str, int]
    figures: Mapping[str, int]
    widths: Mapping[str, float | None]
    """By value; None of too few reports."""
    inside: Mapping[str, float]
    """Share of figures within the width that other reports give, each report counting the same."""
    p_value: float | None
    """Of the rank test on the medians of reports; None unless there are two values."""


@dataclass(frozen=True)
class Judged:
    """What one report adds to a kind of figure, and how the others do on it."""

    figure: SpreadName
    report: str
    told: Told
    figures: int
    worth: float | None
    """As how many figures of reports of their own they count; None where nothing is learnt."""
    needed: float
    """The median width that they need."""
    inside: float
    """Share of them within the width that the other reports give."""


def by_report(found: Iterable[Deviation]) -> dict[str, list[Deviation]]:
    """Deviations of each report."""
    grouped: dict[str, list[Deviation]] = defaultdict(list)
    for each in found:
        grouped[each.report].append(each)
    return dict(grouped)


def learnt(found: Iterable[Deviation], figure: SpreadName) -> list[Deviation]:
    """Those of a kind of figure that its width is learnt from."""
    mine = [each for each in found if each.figure == figure and each.told != "in part"]
    whole = [each for each in mine if each.told == "in full"]
    return whole if len(by_report(whole)) > LEAST else mine


def width(found: Sequence[Deviation]) -> float:
    """Half of the interval that a figure of another report needs beyond kernels and hosts.

    Raises ValueError for fewer than `LEAST` reports.
    """
    count = len(by_report(found))
    if count < LEAST:
        raise ValueError(f"{count} reports")
    return quantile([each.needed for each in found], _weights(found, shares(found)), LEVEL)


def shares(found: Sequence[Deviation]) -> Components:
    """What of the scatter is of reports, of their cells and of single figures."""
    needed = [each.needed for each in found]
    return components(needed, *_places(found))


def _places(found: Sequence[Deviation]) -> tuple[list[str], list[str]]:
    return [each.report for each in found], [each.cell for each in found]


def _weights(found: Sequence[Deviation], parts: Components) -> tuple[float, ...]:
    return weights(*_places(found), parts)


def inside(found: Iterable[Deviation], reach: float) -> float:
    """Share of figures inside an interval with a width added, each report counting the same."""
    groups = by_report(found).values()
    return fmean(fmean(each.needed <= reach for each in group) for group in groups)


def judged(found: Sequence[Deviation], figure: SpreadName) -> Iterator[tuple[Deviation, bool]]:
    """Each figure of a kind, and whether the width that all other reports give holds it."""
    known = learnt(found, figure)
    for report, group in by_report(each for each in found if each.figure == figure).items():
        reach = width([each for each in known if each.report != report])
        yield from ((each, each.needed <= reach) for each in group)


def _left_out(pairs: Sequence[tuple[Deviation, bool]]) -> float:
    """Share inside, each report counting the same."""
    grouped: dict[str, list[bool]] = defaultdict(list)
    for each, held in pairs:
        grouped[each.report].append(held)
    return fmean(fmean(group) for group in grouped.values())


def estimate(found: Sequence[Deviation]) -> dict[SpreadName, SpreadFigure]:
    """The spread of each kind of figure. Raises UsageError where reports are too few."""
    return {name: _estimate(found, name) for name in NAMES}


def estimate_known(found: Sequence[Deviation]) -> dict[SpreadName, SpreadFigure]:
    """The same of those kinds of figures that enough reports tell."""
    told = [name for name in NAMES if len(by_report(learnt(found, name))) > LEAST]
    return {name: _estimate(found, name) for name in told}


def _estimate(found: Sequence[Deviation], name: SpreadName) -> SpreadFigure:
    known = learnt(found, name)
    reports = len(by_report(known))
    if reports <= LEAST:
        message = f"figures of {name} are in {reports} reports: that tells no interval"
        raise UsageError(message, f"{LEAST + 1} reports or more, by the column report")
    parts = shares(known)
    pairs = list(judged(known, name))
    return SpreadFigure(
        width=width(known),
        reports=reports,
        cells=len({(each.report, each.cell) for each in known}),
        figures=len(known),
        worth=sum(_weights(known, parts)),
        alike_report=parts.report,
        alike_cell=parts.report + parts.cell,
        before=inside(known, 0.0),
        left_out=_left_out(pairs),
        left_out_figures=fmean(held for _, held in pairs),
    )


def reports(found: Sequence[Deviation], figures: Iterable[SpreadName] = NAMES) -> Iterator[Judged]:
    """Every report, those that tell all first."""
    for figure in figures:
        known = learnt(found, figure)
        counted = zip(known, _weights(known, shares(known)), strict=True)
        worth = {id(each): count for each, count in counted}
        groups: dict[tuple[Told, str], list[tuple[Deviation, bool]]] = defaultdict(list)
        for each, held in judged(found, figure):
            groups[each.told, each.report].append((each, held))
        order = sorted(groups, key=lambda key: (TOLD.index(key[0]), key[1].lower()))
        yield from (_judged(figure, key, groups[key], worth) for key in order)


def _judged(
    figure: SpreadName,
    key: tuple[Told, str],
    pairs: Sequence[tuple[Deviation, bool]],
    worth: Mapping[int, float],
) -> Judged:
    counts = [worth[id(each)] for each, _ in pairs if id(each) in worth]
    return Judged(
        figure,
        key[1],
        key[0],
        len(pairs),
        sum(counts) if counts else None,
        median(each.needed for each, _ in pairs),
        fmean(held for _, held in pairs),
    )


def traits(found: Sequence[Deviation]) -> Iterator[Trait]:
    """What plans know of runs, and whether it tells how far they are off."""
    for figure in NAMES:
        pairs = list(judged(found, figure))
        yield from _told_apart(figure, "told", [(_with_told(each), held) for each, held in pairs])
        known = {id(each) for each in learnt(found, figure)}
        mine = [pair for pair in pairs if id(pair[0]) in known]
        for name in dict.fromkeys(key for each, _ in mine for key in each.traits):
            yield from _told_apart(figure, name, mine)


def _with_told(each: Deviation) -> Deviation:
    return replace(each, traits={"told": each.told})


def _told_apart(
    figure: SpreadName, name: str, pairs: Sequence[tuple[Deviation, bool]]
) -> Iterator[Trait]:
    groups: dict[str, list[tuple[Deviation, bool]]] = defaultdict(list)
    for each, held in pairs:
        groups[each.traits[name]].append((each, held))
    if len(groups) > 1:
        yield _trait(figure, name, {value: groups[value] for value in sorted(groups)})


def _trait(
    figure: SpreadName, name: str, groups: Mapping[str, Sequence[tuple[Deviation, bool]]]
) -> Trait:
    only = {value: [each for each, _ in pairs] for value, pairs in groups.items()}
    counts = {value: len(by_report(group)) for value, group in only.items()}
    medians = [
        [median(each.needed for each in group) for group in by_report(group).values()]
        for group in only.values()
    ]
    return Trait(
        figure,
        name,
        counts,
        {value: len(group) for value, group in only.items()},
        {value: width(only[value]) if counts[value] >= LEAST else None for value in only},
        {value: _left_out(pairs) for value, pairs in groups.items()},
        rank_test(*medians) if len(medians) == len(("one", "other")) else None,
    )
