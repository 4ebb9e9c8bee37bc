"""How much figures count that come in reports, and in reports by cells: the nested random effects.

Two figures of one report are alike in part, two of one cell of it (the same machine, engine, model,
parallelism and precision) more so. How alike they are is estimated by the analysis of variance of
an unbalanced nested design (Henderson's first method: Searle, Casella and McCulloch, "Variance
Components", 1992, ch. 5), of ranks and not of values, so that one wild figure moves nothing. From
it follow the weights of the best linear estimate of a mean: of figures that are all alike only
their report counts, of figures that are not each counts for itself.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean

from planner.plan.ranks import doubled_ranks

_LEAST = 1e-9
"""Of a variance: no figure repeats another without any."""


@dataclass(frozen=True)
class Components:
    """Shares of the variance of one figure, together 1."""

    report: float
    cell: float
    """Of cells about their report."""
    figure: float
    """Of figures about their cell."""


def components(
    values: Sequence[float], reports: Sequence[Hashable], cells: Sequence[Hashable]
) -> Components:
    """How much of the variance of ranks is of reports, of their cells and of single figures.

    Cells are those of their reports. Where no cell has two figures, or no report two cells, the two
    cannot be told apart and count as the lower one; a negative estimate is none at all.
    """
    ranks = doubled_ranks(values)
    places = [(report, cell) for report, cell in zip(reports, cells, strict=True)]
    in_report, in_cell = _means(ranks, reports), _means(ranks, places)
    many, few = Counter(reports), Counter(places)
    squares = (
        sum((rank - in_cell[place]) ** 2 for rank, place in zip(ranks, places, strict=True)),
        sum((in_cell[place] - in_report[place[0]]) ** 2 for place in places),
        sum((in_report[report] - fmean(ranks)) ** 2 for report in reports),
    )
    total = len(ranks)
    freedom = (total - len(few), len(few) - len(many), len(many) - 1)
    own = sum(count**2 / many[place[0]] for place, count in few.items())
    return _solved(
        squares,
        freedom,
        total - own,
        own - sum(count**2 for count in few.values()) / total,
        total - sum(count**2 for count in many.values()) / total,
    )


def _solved(
    squares: tuple[float, float, float],
    freedom: tuple[int, int, int],
    cells_in_cells: float,
    cells_in_reports: float,
    reports_in_reports: float,
) -> Components:
    """From sums of squares and what a variance adds to each of them."""
    within, between, among = squares
    in_cells, in_reports, of_reports = freedom
    figure, cell = _LEAST, 0.0
    if in_cells:
        figure = max(_LEAST, within / in_cells)
    elif in_reports:
        figure = max(_LEAST, between / in_reports)
    if in_cells and in_reports:
        cell = max(0.0, (between - in_reports * figure) / cells_in_cells)
    report = 0.0
    if of_reports:
        rest = among - of_reports * figure - cells_in_reports * cell
        report = max(0.0, rest / reports_in_reports)
    total = report + cell + figure
    return Components(report / total, cell / total, figure / total)


def _means(ranks: Sequence[float], groups: Sequence[Hashable]) -> dict[Hashable, float]:
    found: dict[Hashable, list[float]] = defaultdict(list)
    for rank, group in zip(ranks, groups, strict=True):
        found[group].append(rank)
    return {group: fmean(each) for group, each in found.items()}


def weights(
    reports: Sequence[Hashable], cells: Sequence[Hashable], shares: Components
) -> tuple[float, ...]:
    """How much each figure counts; one that is alone in its report counts 1.

    A cell of n figures is worth 1 / (cell + figure / n), a report 1 / (report + 1 / the sum of its
    cells), each in units of one figure's variance.
    """
    places = [(report, cell) for report, cell in zip(reports, cells, strict=True)]
    counts = Counter(places)
    worth = {place: 1 / (shares.cell + shares.figure / n) for place, n in counts.items()}
    sums: dict[Hashable, float] = defaultdict(float)
    for (report, _), each in worth.items():
        sums[report] += each
    return tuple(
        worth[place] / counts[place] / sums[place[0]] / (shares.report + 1 / sums[place[0]])
        for place in places
    )


def quantile(values: Sequence[float], counts: Sequence[float], level: float) -> float:
    """The value that holds a share of further figures, each in a report of its own.

    Values are at least 0. A further figure counts 1 and may lie anywhere: the weights up to the
    value come to ``level`` of all and one more, as in split conformal prediction (with weights:
    Tibshirani, Barber, Candès and Ramdas, "Conformal prediction under covariate shift", 2019).
    Between two values it is interpolated, so that the share is met and not only reached (the
    positions of Weibull: Hyndman and Fan, "Sample quantiles in statistical packages", 1996, no. 6).
    The largest value where all of them come to less.
    """
    wanted = level * (math.fsum(counts) + 1)
    before, below = 0.0, 0.0
    for value, count in sorted(zip(values, counts, strict=True)):
        if before + count >= wanted:
            return below + (value - below) * (wanted - before) / count
        before, below = before + count, value
    return below
