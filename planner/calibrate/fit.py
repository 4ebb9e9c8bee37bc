"""Fits a handful of constants to a seeded share of rows, and scores them on the others.

Least squares on log time, so that a microsecond kernel counts as much as a millisecond one,
with soft-L1 loss, since residuals are heavy-tailed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.calibrate.aiconfigurator import INSTALL
from planner.calibrate.residuals import Errors, Residuals, banded_errors, errors, residuals
from planner.calibrate.types import Floats, Indices, Rows
from planner.cost.kernels.types import Constant, Constants, KernelModel
from planner.cost.types import Device
from planner.errors import UsageError

SHARE = 0.2
MOST = 2500
LEAST = 20
"""Rows below which a dozen constants are no fit but a memory."""
_LOSS_SCALE = 0.1
"""Log residual where the loss turns from squares to absolutes."""
_PULL = 0.04
"""Log residual, per root of the number of rows, that a constant counts as at the far end of its
range. Without it, and still at 0.006, GEMMs fitted without their largest tenth are predicted up to
twice too slow in some cells; at 0.04 few are, and held-back errors stay as they were."""
_SHAKEN = 4
"""Random starts beside the given ones: constants trade off, so there are local minima."""
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
    """Of the drawn 20 %."""
    errors: Errors
    """Of the held-back rows."""
    bands: dict[tuple[float, float], Errors]
    """Of the held-back rows, by predicted time."""


def split(rows: Rows, *, share: float = SHARE, most: int = MOST, seed: int = 0) -> Split:
    """A seeded draw of a share of the kept rows, at most ``most`` of which are fitted."""
    index = np.flatnonzero(rows.kept)
    order = np.random.default_rng(seed).permutation(index)
    count = min(len(order), max(LEAST, round(share * len(order))))
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
) -> Fit:
    """Constants of ``rows.variant`` fitted on a seeded share, scored on all rows not drawn.

    Raises UsageError where there are too few rows, or SciPy is missing.
    """
    parts = split(rows, share=share, most=most, seed=seed)
    if len(parts.fitted) < LEAST or len(parts.held) < LEAST:
        raise UsageError(f"{rows.cell}: {int(rows.kept.sum())} rows are too few to fit")
    constants = solve(model, rows.take(parts.fitted), device, starts=starts, seed=seed)
    return score(model, rows, device, constants, parts)


def score(
    model: KernelModel[Any], rows: Rows, device: Device, constants: Constants, parts: Split
) -> Fit:
    """What given constants leave over on the drawn rows, and their errors on the held ones."""
    drawn, held = rows.take(parts.drawn), rows.take(parts.held)
    known = residuals(drawn.time_s, predict(model, drawn, device, constants))
    predicted_s = predict(model, held, device, constants)
    words = model.variant(rows.variant).constants
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


def predict(model: KernelModel[Any], rows: Rows, device: Device, constants: Constants) -> Floats:
    """Predicted seconds of rows as the benchmark ran them: repeated, so caches may be warm."""
    time_s = model.time_s(rows.variant, rows.shape, device, constants, warm=True)
    return np.broadcast_to(np.asarray(time_s, np.float64), rows.time_s.shape)


def solve(
    model: KernelModel[Any],
    rows: Rows,
    device: Device,
    *,
    starts: Iterable[Constants] = (),
    seed: int = 0,
    free: Sequence[str] = (),
    base: Constants | None = None,
) -> dict[str, float]:
    """The constants that fit all ``rows`` best, over several starts; the same every time.

    With ``free`` only those constants move, from ``base``. Values have 4 significant digits, so
    that what is scored is what is written. Raises UsageError when SciPy is missing.
    """
    words = model.variant(rows.variant).constants
    fixed = dict(base or {})
    moving = [word for word in words if not free or word.name in free]
    first = {word.name: word.start for word in words} | fixed
    residual = _residual(model, rows, device, moving, first)
    best: tuple[float, Floats] | None = None
    shaken = (_shaken(moving, first, seed + number) for number in range(_SHAKEN))
    for start in (first, *starts, *shaken):
        cost, found = _least(residual, moving, first | dict(start))
        if best is None or cost < best[0]:
            best = (cost, found)
    assert best is not None
    solved = zip(moving, _values(moving, best[1]), strict=True)
    values = {word.name: _snapped(word, value) for word, value in solved}
    values |= {name: first[name] for name in _idle(residual, moving, best[1], first)}
    return {name: _rounded(value) for name, value in (first | values).items()}


def _idle(
    residual: Callable[[Floats], Floats],
    moving: Sequence[Constant],
    place: Floats,
    first: Constants,
) -> Iterable[str]:
    """Constants that no row feels: they keep their start, and a random value means nothing."""
    here = residual(place)
    for index, word in enumerate(moving):
        moved = place.copy()
        moved[index] = _position(word, first[word.name])
        if moved[index] != place[index] and np.allclose(residual(moved), here, rtol=0, atol=1e-9):
            yield word.name


def _residual(
    model: KernelModel[Any],
    rows: Rows,
    device: Device,
    moving: Sequence[Constant],
    first: Constants,
) -> Callable[[Floats], Floats]:
    """Log residuals of rows, then a weak pull of each constant towards where it starts.

    Rows outweigh it by far where they say anything; a constant that no row speaks of, as the
    slow-down of long products where none is long, stays at its usual value.
    """
    goal = np.log(rows.time_s)
    weight = _PULL * math.sqrt(len(goal))
    usual = np.array([_position(word, first[word.name]) for word in moving])
    span = np.array([_position(w, w.high) - _position(w, w.low) for w in moving])

    def residual(position: Floats) -> Floats:
        values = dict(zip((word.name for word in moving), _values(moving, position), strict=True))
        predicted_s = predict(model, rows, device, {**first, **values})
        pull = weight * (position - usual) / span
        return np.concatenate([np.log(predicted_s) - goal, pull])

    return residual


def _least(
    residual: Callable[[Floats], Floats], moving: Sequence[Constant], start: Constants
) -> tuple[float, Floats]:
    try:
        from scipy.optimize import least_squares
    except ModuleNotFoundError:
        raise UsageError("SciPy is not installed", INSTALL) from None
    low = np.array([_position(word, word.low) for word in moving])
    high = np.array([_position(word, word.high) for word in moving])
    inside = (high - low) * 1e-3
    first = np.array([_position(word, start[word.name]) for word in moving])
    found = least_squares(
        residual,
        np.clip(first, low + inside, high - inside),
        bounds=(low, high),
        loss="soft_l1",
        f_scale=_LOSS_SCALE,
        diff_step=1e-4,
        xtol=1e-6,
        ftol=1e-7,
        max_nfev=100,
    )
    return float(found.cost), found.x


def _position(word: Constant, value: float) -> float:
    """Where a value stands on the scale that the solver moves along: logarithms, if positive."""
    return math.log(value) if word.low > 0 else value / _scale(word)


def _scale(word: Constant) -> float:
    return abs(word.start) or (word.high - word.low) / 10


def _values(moving: Sequence[Constant], position: Floats) -> list[float]:
    return [
        math.exp(place) if word.low > 0 else place * _scale(word)
        for word, place in zip(moving, position.tolist(), strict=True)
    ]


def _shaken(moving: Sequence[Constant], start: Constants, seed: int) -> dict[str, float]:
    """A start a third of the way to a random point of the box: another basin, perhaps."""
    places = []
    for word, share in zip(
        moving, np.random.default_rng(seed + 1).random(len(moving)), strict=True
    ):
        low, high = _position(word, word.low), _position(word, word.high)
        here = _position(word, start[word.name])
        places.append(here + (low + share * (high - low) - here) / 3)
    values = _values(moving, np.array(places))
    return {**start, **dict(zip((word.name for word in moving), values, strict=True))}


def _snapped(word: Constant, value: float) -> float:
    """A value that the solver left a hair inside a bound is that bound."""
    hair = (word.high - word.low) * 1e-6
    if value - word.low < hair:
        return word.low
    return word.high if word.high - value < hair else value


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def is_effective(word: Constant, value: float) -> bool:
    """Whether a value lies beyond what is physical."""
    return word.effective_above is not None and value > word.effective_above


def _at_bound(word: Constant, value: float) -> bool:
    low, high, here = (_position(word, each) for each in (word.low, word.high, value))
    return min(here - low, high - here) < _NEAR * (high - low)
