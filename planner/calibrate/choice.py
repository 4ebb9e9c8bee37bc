"""Which parameters runs can carry: nested models, judged on runs that were left out.

The choice is made twice. Once with all runs, for the calibration; and once without each run in
turn, choice and all, for the errors that are told: so no error is of a run that had a say in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from planner.calibrate.overheads import (
    ALL,
    COLLECTIVE,
    RATIOS,
    SEQUENCE,
    STEP,
    Figures,
    Solved,
    Terms,
    residuals,
    solve,
    solve_all,
)
from planner.calibrate.steps import Indices
from planner.calibrate.types import Floats

LEAST = 3
"""Plans with runs below which nothing can be left out and still be learnt."""
MANY = 8
"""Plans with runs from which each family may have an efficiency of its own."""
_FOLDS = 10
"""Runs are left out one by one up to so many, then some at a time: time grows with the folds."""


@dataclass(frozen=True)
class Scored:
    """A model and how it does on runs that were left out."""

    terms: Terms
    score: float
    """Mean of log(1 + r²/2), r in standard deviations: what is far off counts little more."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The model that was chosen, and all that were tried."""

    solved: Solved
    scored: tuple[Scored, ...]
    before: Floats
    """log(measured / predicted) as planned, by plan."""
    left_out: Floats
    """The same, each plan predicted from the others."""
    reason: str


def groups(figures: Figures) -> Indices:
    """The plans that have figures, numbered from 0."""
    return np.unique(figures.group)


def candidates(figures: Figures, among: Indices) -> tuple[Terms, ...]:
    """Models that the variation among some plans can tell apart, the simplest first."""
    rows = _rows(figures, among)
    used = figures.steps_of(rows)
    overheads = [STEP]
    if len({step.sequences for step in used}) > 1:
        overheads.append(SEQUENCE)
    counts = {step.collectives for step in used}
    if len(counts) > 1:
        overheads.append(COLLECTIVE)
    ratios: list[Terms] = [(), (ALL,)]
    if len(among) >= MANY:
        met = {int(family) for step in used for family in step.family}
        ratios.append(tuple(ratio for i, ratio in enumerate(RATIOS) if i in met))
    found = {(*ratio, *taken) for ratio, taken in product(ratios, _subsets(overheads))}
    return tuple(sorted(found, key=lambda terms: (len(terms), terms)))


def _subsets(names: Sequence[str]) -> Iterator[Terms]:
    for taken in product((False, True), repeat=len(names)):
        yield tuple(name for name, take in zip(names, taken, strict=True) if take)


def choose(figures: Figures) -> Choice:
    """The simplest model that does as well as the best, unless the plan itself does better.

    Needs figures of `LEAST` plans.
    """
    everything = groups(figures)
    folds = list(_folds(everything))
    none = Solved((), np.zeros(0), np.zeros((0, 0)))
    before = _by_group(figures, residuals(figures, (), none.z))
    (terms, scored), *others = _best(figures, [everything, *(rest for rest, _ in folds)])
    left_out = np.zeros(len(everything))
    for (rest, fold), (chosen, _) in zip(folds, others, strict=True):
        left_out[fold] = _by_group(figures, _fitted(figures, rest, chosen))[fold]
    if not terms:
        return Choice(none, scored, before, before, "nothing does better on runs left out")
    if float(np.median(np.abs(left_out))) > float(np.median(np.abs(before))):
        reason = (
            f"the plan itself is nearer to runs left out than {' + '.join(terms)}: "
            f"{_off(before)} off in the median, not {_off(left_out)}"
        )
        return Choice(none, scored, before, before, reason)
    solved = solve(figures, _rows(figures, everything), terms)
    reason = "the simplest that does as well on runs left out as the best one"
    return Choice(solved, scored, before, left_out, reason)


def _off(logs: Floats) -> str:
    return f"{100 * np.expm1(float(np.median(np.abs(logs)))):.1f} %"


def _fitted(figures: Figures, among: Indices, terms: Terms) -> Floats:
    """log(measured / predicted) of every figure, from some plans alone."""
    return residuals(figures, terms, solve(figures, _rows(figures, among), terms).z)


def _best(figures: Figures, choices: Sequence[Indices]) -> list[tuple[Terms, tuple[Scored, ...]]]:
    """By choice of plans, the simplest model within its standard error of the best."""
    folds = [list(_folds(among)) for among in choices]
    counted = np.array([np.isin(figures.group, rest) for each in folds for rest, _ in each])
    scores: list[dict[Terms, Floats]] = [{} for _ in choices]
    wanted = [candidates(figures, among) for among in choices]
    sigma = _by_group(figures, figures.sigma)
    for terms in dict.fromkeys(terms for each in wanted for terms in each):
        z, _ = solve_all(figures, counted, terms)
        off = _by_group(figures, residuals(figures, terms, z)) / sigma
        rows = iter(np.log1p(off**2 / 2))
        for each, found in zip(folds, scores, strict=True):
            found[terms] = np.concatenate([next(rows)[fold] for _, fold in each])
    return [_simplest(models, found) for models, found in zip(wanted, scores, strict=True)]


def _simplest(
    models: Sequence[Terms], scores: Mapping[Terms, Floats]
) -> tuple[Terms, tuple[Scored, ...]]:
    table = np.array([scores[terms] for terms in models])
    worse = table - table[table.mean(axis=1).argmin()]
    error = worse.std(axis=1, ddof=1) / np.sqrt(table.shape[1])
    chosen = int(np.argmax(worse.mean(axis=1) <= error))
    means = map(float, table.mean(axis=1))
    return models[chosen], tuple(map(Scored, models, means))


def _folds(among: Indices) -> Iterator[tuple[Indices, Indices]]:
    """(the others, those left out)."""
    count = min(_FOLDS, len(among))
    for start in range(count):
        fold = among[start::count]
        yield np.setdiff1d(among, fold), fold


def _rows(figures: Figures, among: Indices) -> Indices:
    return np.flatnonzero(np.isin(figures.group, among))


def _by_group(figures: Figures, values: Floats) -> Floats:
    """Means over the figures of each plan; the last axis is by figure."""
    plans = groups(figures)
    member = (figures.group[:, None] == plans) * figures.share[:, None]
    return np.asarray(values @ member)
