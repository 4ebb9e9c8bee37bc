"""What a fit leaves over: errors, quantiles of log(measured / predicted), bias by size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.calibrate.types import Floats, Mask

EDGES_S = (0.0, 5e-6, 1e-5, 3e-5, 1e-4, 1e-3, float("inf"))
"""Bands of predicted time. Predicted, since that is what a plan knows, and since bands of
measured time would show bias where there is only noise."""
LEAST_ROWS = 30
"""Fewer residuals say nothing about a tenth and nine tenths."""


@dataclass(frozen=True)
class Band:
    """Quantiles of log(measured / predicted) among rows predicted to take so long."""

    low_s: float
    high_s: float
    rows: int
    q10: float
    q50: float
    q90: float


@dataclass(frozen=True)
class Residuals:
    """Quantiles of log(measured / predicted) of the rows that constants were drawn from."""

    rows: int
    q10: float
    q50: float
    q90: float
    bands: tuple[Band, ...]
    """Only bands with at least `LEAST_ROWS` rows; elsewhere the overall quantiles hold."""

    def interval(self, predicted_s: Floats) -> tuple[Floats, Floats]:
        """Ends of the 80 % interval of log(measured / predicted) at predicted times."""
        low = np.full(predicted_s.shape, self.q10)
        high = np.full(predicted_s.shape, self.q90)
        for band in self.bands:
            inside = (predicted_s >= band.low_s) & (predicted_s < band.high_s)
            low[inside], high[inside] = band.q10, band.q90
        return low, high


@dataclass(frozen=True)
class Errors:
    """How far predictions are off, as fractions of the measured time."""

    rows: int
    median: float
    mean: float
    bias: float
    """Median of predicted / measured − 1: above zero is too slow a prediction."""
    coverage: float
    """Share of rows inside the 80 % interval of the residuals; nan without residuals."""


def residuals(measured_s: Floats, predicted_s: Floats) -> Residuals:
    """Overall quantiles, and those of each band that holds enough rows."""
    logs = np.log(measured_s / predicted_s)
    bands = tuple(
        Band(low, high, int(inside.sum()), *_quantiles(logs[inside]))
        for low, high, inside in _banded(predicted_s)
        if inside.sum() >= LEAST_ROWS
    )
    return Residuals(len(logs), *_quantiles(logs), bands)


def _quantiles(logs: Floats) -> tuple[float, float, float]:
    low, middle, high = np.quantile(logs, (0.1, 0.5, 0.9))
    return float(low), float(middle), float(high)


def _banded(predicted_s: Floats) -> Iterator[tuple[float, float, Mask]]:
    for low, high in itertools.pairwise(EDGES_S):
        yield low, high, (predicted_s >= low) & (predicted_s < high)


def errors(measured_s: Floats, predicted_s: Floats, known: Residuals | None = None) -> Errors:
    """Errors over rows; coverage against the residuals of other rows. Needs at least one row."""
    off = predicted_s / measured_s - 1
    return Errors(
        len(off),
        float(np.median(np.abs(off))),
        float(np.mean(np.abs(off))),
        float(np.median(off)),
        _coverage(measured_s, predicted_s, known) if known else float("nan"),
    )


def _coverage(measured_s: Floats, predicted_s: Floats, known: Residuals) -> float:
    low, high = known.interval(predicted_s)
    logs = np.log(measured_s / predicted_s)
    return float(np.mean((logs >= low) & (logs <= high)))


def banded_errors(
    measured_s: Floats, predicted_s: Floats, known: Residuals | None = None
) -> dict[tuple[float, float], Errors]:
    """Errors by band of predicted time, of the bands with at least `LEAST_ROWS` rows."""
    return {
        (low, high): errors(measured_s[inside], predicted_s[inside], known)
        for low, high, inside in _banded(predicted_s)
        if inside.sum() >= LEAST_ROWS
    }
