"""How well predictions order what was measured: pairs, whole groups, and the first choice.

Figures are such that less is better: times, or inverse rates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

import numpy as np

SEED = 20260101
RESAMPLES = 2000
_ENDS = (2.5, 97.5)


@dataclass(frozen=True)
class Option:
    """One way to serve a piece of work."""

    work: Hashable
    """Only options of the same work are compared."""
    kind: Hashable
    """Options of one kind are repetitions: never a pair."""
    measured: float
    predicted: float


@dataclass(frozen=True)
class Order:
    """Pairs whose measured figures differ, and how many are predicted in that order."""

    groups: int
    """Pieces of work with a pair."""
    pairs: int
    right: float | None
    """Share of pairs; a predicted tie counts half."""
    low: float | None
    """95 % interval: groups drawn again and again, since pairs of one are no strangers."""
    high: float | None


@dataclass(frozen=True)
class Choice:
    """The order of all options of a piece of work, over many of them."""

    groups: int
    """Pieces of work with two options or more."""
    options: int
    tau: float | None
    """Mean of Kendall's tau: (pairs in order − pairs out of order) / pairs."""
    first: float | None
    """Share of groups whose predicted best option is the measured best."""
    regret: float | None
    """Mean of how much worse the predicted best option is than the measured best, as a share."""
    worst_tenth: float | None
    """The regret that one group in ten exceeds."""


def order(options: Iterable[Option]) -> Order:
    """Share of pairs of different kinds that are predicted in the measured order."""
    groups = [found for group in _works(options) if (found := _pairs(group))]
    if not groups:
        return Order(0, 0, None, None, None)
    right = np.array([sum(scores) for scores in groups], float)
    count = np.array([len(scores) for scores in groups], float)
    draws = np.random.default_rng(SEED).integers(0, len(groups), (RESAMPLES, len(groups)))
    shares = right[draws].sum(axis=1) / count[draws].sum(axis=1)
    low, high = (float(end) for end in np.percentile(shares, _ENDS))
    return Order(len(groups), int(count.sum()), float(right.sum() / count.sum()), low, high)


def choice(options: Iterable[Option]) -> Choice:
    """Kendall's tau and top-1 regret over pieces of work with two kinds of options or more."""
    groups = [(group, found) for group in _works(options) if (found := _pairs(group))]
    if not groups:
        return Choice(0, 0, None, None, None, None)
    taus = [2 * fmean(scores) - 1 for _, scores in groups]
    regrets = [regret(group) for group, _ in groups]
    return Choice(
        len(groups),
        sum(len(group) for group, _ in groups),
        fmean(taus),
        fmean(found == 0 for found in regrets),
        fmean(regrets),
        float(np.percentile(regrets, 90)),
    )


def regret(group: Sequence[Option]) -> float:
    """How much worse the predicted best option was measured than the measured best, as a share."""
    best = min(option.measured for option in group)
    chosen = min(group, key=lambda option: option.predicted)
    return chosen.measured / best - 1


def _works(options: Iterable[Option]) -> list[list[Option]]:
    """Options by work; repetitions of one kind stand as their medians."""
    found: dict[Hashable, dict[Hashable, list[Option]]] = defaultdict(lambda: defaultdict(list))
    for option in options:
        found[option.work][option.kind].append(option)
    return [[_middle(same) for same in kinds.values()] for kinds in found.values()]


def _middle(same: Sequence[Option]) -> Option:
    first = same[0]
    measured = median(option.measured for option in same)
    return Option(first.work, first.kind, measured, median(option.predicted for option in same))


def _pairs(group: Sequence[Option]) -> list[float]:
    """1 of a pair in order, 0 out of order, half where the prediction ties."""
    return [_score(a, b) for a, b in combinations(group, 2) if a.measured != b.measured]


def _score(one: Option, other: Option) -> float:
    if one.predicted == other.predicted:
        return 0.5
    return float((one.predicted < other.predicted) == (one.measured < other.measured))
