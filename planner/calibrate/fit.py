"""Fits a handful of constants to a seeded share of rows, and scores them on the others.

Least squares on log time, so that a microsecond kernel counts as much as a millisecond one,
with soft-L1 loss, since residuals are heavy-tailed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.calibrate.residuals import Errors, Residuals, banded_errors, errors, residuals
from planner.calibrate.solver import position, predict, solve
from planner.calibrate.types import Floats, Indices, Rows
from planner.cost.kernels.types import Constant, Constants, KernelModel
from planner.cost.types import Device
from planner.errors import UsageError

SHARE = 0.2
MOST = 2500
LEAST = 20
"""Rows below which a dozen constants are no fit but a memory."""
FEW = 30
"""Drawn rows to a constant below which residuals are taken from rows left out of the fit."""
FOLDS = 8
_NEAR = 0.01
"""A constant within this share of its range is at its bound."""


@dataclass(frozen=True)
class Split:
    """Row indices: the fitted ones are drawn from `drawn`; `held` is the rest."""

    fitted: Indices
    drawn: Indices
    held: Indices


@dataclass(frozen=True)
class Fit:
    """Constants of one variant in one cell, and how they do on rows they never saw."""

    rows: Rows
    constants: dict[str, float]
    effective: tuple[str, ...]
    """Constants beyond what is physical: they stand for something the model leaves out."""
    at_bound: tuple[str, ...]
    fitted: int
    residuals: Residuals
    """Of the drawn 20 %; of few rows, of each left out in turn."""
    errors: Errors
    """Of the held-back rows; of few rows, of each left out in turn."""
    bands: dict[tuple[float, float], Errors]
    """Of the held-back rows, by predicted time."""


def split(rows: Rows, *, share: float = SHARE, most: int = MOST, seed: int = 0) -> Split:
    """A seeded draw of a share of the kept rows, at most ``most`` of which are fitted."""
    index = np.flatnonzero(rows.kept)
    generator = np.random.default_rng(seed)
    count = min(len(index), max(LEAST, round(share * len(index))))
    if rows.evenly:
        steps = (generator.random() + np.arange(count)) * len(index) / count
        drawn = index[steps.astype(np.int64)]
        return Split(drawn[:most], drawn, np.setdiff1d(index, drawn))
    order = generator.permutation(index)
    drawn = order[:count]
    return Split(drawn[:most], drawn, order[count:])


def fit(
    model: KernelModel[Any],
    rows: Rows,
    device: Device,
    *,
    share: float = SHARE,
    most: int = MOST,
    seed: int = 0,
    starts: Iterable[Constants] = (),
    lent: Constants | None = None,
) -> Fit:
    """Constants of ``rows.variant`` fitted on a seeded share, scored on all rows not drawn.

    ``lent`` are constants that stay as another fit has them. Raises UsageError where there are too
    few rows, or SciPy is missing.
    """
    parts = split(rows, share=share, most=most, seed=seed)
    if len(parts.fitted) < LEAST or len(parts.held) < LEAST:
        raise UsageError(f"{rows.cell}: {int(rows.kept.sum())} rows are too few to fit")
    starts = tuple(starts)
    drawn = rows.take(parts.fitted)
    constants = solve(model, drawn, device, starts=starts, seed=seed, fixed=lent)
    known = None
    if len(parts.drawn) < FEW * len(model.variants[rows.variant].constants):
        known = residuals(drawn.time_s, _folded(model, drawn, device, starts, seed, lent=lent))
    return score(model, rows, device, constants, parts, known=known)


def fit_few(
    model: KernelModel[Any],
    rows: Rows,
    device: Device,
    *,
    seed: int = 0,
    starts: Iterable[Constants] = (),
) -> Fit:
    """Constants fitted on every kept row, where holding most of them back would leave too few.

    Residuals and errors are those of rows left out in turn, each fold priced by the others'.
    Raises UsageError where there are too few rows even so, or SciPy is missing.
    """
    kept = rows.take(np.random.default_rng(seed).permutation(np.flatnonzero(rows.kept)))
    if len(kept.time_s) < LEAST:
        raise UsageError(f"{rows.cell}: {len(kept.time_s)} rows are too few to fit")
    starts = tuple(starts)
    constants = solve(model, kept, device, starts=starts, seed=seed)
    predicted_s = _folded(model, kept, device, starts, seed)
    known = residuals(kept.time_s, predicted_s)
    words = model.variants[rows.variant].constants
    return Fit(
        rows,
        constants,
        tuple(word.name for word in words if is_effective(word, constants[word.name])),
        tuple(word.name for word in words if _at_bound(word, constants[word.name])),
        len(kept.time_s),
        known,
        errors(kept.time_s, predicted_s, known),
        banded_errors(kept.time_s, predicted_s, known),
    )


def _folded(
    model: KernelModel[Any],
    drawn: Rows,
    device: Device,
    starts: Sequence[Constants],
    seed: int,
    *,
    lent: Constants | None = None,
) -> Floats:
    """Predicted times of rows that each fold's constants have not seen.

    With few rows to a constant a fit bends to them, and what it leaves over on them says little of
    what it will leave over elsewhere.
    """
    fold = np.arange(len(drawn.time_s)) % FOLDS
    predicted_s = np.empty(len(drawn.time_s))
    for number in range(FOLDS):
        out = fold == number
        constants = solve(model, drawn.take(~out), device, starts=starts, seed=seed, fixed=lent)
        predicted_s[out] = predict(model, drawn.take(out), device, constants)
    return predicted_s


def score(
    model: KernelModel[Any],
    rows: Rows,
    device: Device,
    constants: Constants,
    parts: Split,
    *,
    known: Residuals | None = None,
) -> Fit:
    """What given constants leave over on the drawn rows, and their errors on the held ones.

    ``known`` stands in for the drawn rows' residuals.
    """
    drawn, held = rows.take(parts.drawn), rows.take(parts.held)
    if known is None:
        known = residuals(drawn.time_s, predict(model, drawn, device, constants))
    predicted_s = predict(model, held, device, constants)
    words = model.variants[rows.variant].constants
    return Fit(
        rows,
        dict(constants),
        tuple(word.name for word in words if is_effective(word, constants[word.name])),
        tuple(word.name for word in words if _at_bound(word, constants[word.name])),
        len(parts.fitted),
        known,
        errors(held.time_s, predicted_s, known),
        banded_errors(held.time_s, predicted_s, known),
    )


def is_effective(word: Constant, value: float) -> bool:
    """Whether a value lies beyond what is physical."""
    return word.effective_above is not None and value > word.effective_above


def _at_bound(word: Constant, value: float) -> bool:
    low, high, here = (position(word, each) for each in (word.low, word.high, value))
    return min(here - low, high - here) < _NEAR * (high - low)
