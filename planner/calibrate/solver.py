"""The solver of a fit: least squares on log time over constants within their bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from planner.calibrate.aiconfigurator import INSTALL
from planner.calibrate.types import Floats, Rows
from planner.cost.kernels.types import Constant, Constants, KernelModel
from planner.cost.types import Device
from planner.errors import UsageError

_LOSS_SCALE = 0.1
"""Log residual where the loss turns from squares to absolutes."""
_PULL = 0.04
"""Log residual, per root of the number of rows, that a constant counts as at the far end of its
range. Without it, and still at 0.006, GEMMs fitted without their largest tenth are predicted up to
twice too slow in some cells; at 0.04 few are, and held-back errors stay as they were."""
_SHAKEN = 4
"""Random starts beside the given ones: constants trade off, so there are local minima."""


def predict(model: KernelModel[Any], rows: Rows, device: Device, constants: Constants) -> Floats:
    """Predicted seconds of rows as the benchmark ran them: repeated, so caches may be warm."""
    time_s = model.time_s(rows.variant, rows.shape, device, constants, warm=not rows.cold)
    return np.broadcast_to(np.asarray(time_s, np.float64), rows.time_s.shape)


def solve(
    model: KernelModel[Any],
    rows: Rows,
    device: Device,
    *,
    starts: Iterable[Constants] = (),
    seed: int = 0,
    fixed: Constants | None = None,
) -> dict[str, float]:
    """The constants that fit all ``rows`` best, over several starts; the same every time.

    Those of ``fixed`` stay. Values have 4 significant digits, so that what is scored is what is
    written. Raises UsageError when SciPy is missing.
    """
    words = model.variants[rows.variant].constants
    stay = dict(fixed or {})
    moving = [word for word in words if word.name not in stay]
    first = {word.name: word.start for word in words} | stay
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
        moved[index] = position(word, first[word.name])
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
    usual = np.array([position(word, first[word.name]) for word in moving])
    span = np.array([position(w, w.high) - position(w, w.low) for w in moving])

    def residual(place: Floats) -> Floats:
        values = dict(zip((word.name for word in moving), _values(moving, place), strict=True))
        predicted_s = predict(model, rows, device, {**first, **values})
        pull = weight * (place - usual) / span
        return np.concatenate([np.log(predicted_s) - goal, pull])

    return residual


def _least(
    residual: Callable[[Floats], Floats], moving: Sequence[Constant], start: Constants
) -> tuple[float, Floats]:
    try:
        from scipy.optimize import least_squares
    except ModuleNotFoundError:
        raise UsageError("SciPy is not installed", INSTALL) from None
    low = np.array([position(word, word.low) for word in moving])
    high = np.array([position(word, word.high) for word in moving])
    inside = (high - low) * 1e-3
    first = np.array([position(word, start[word.name]) for word in moving])
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


def position(word: Constant, value: float) -> float:
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
        low, high = position(word, word.low), position(word, word.high)
        here = position(word, start[word.name])
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
