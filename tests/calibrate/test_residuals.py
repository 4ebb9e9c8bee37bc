"""Residuals: quantiles, intervals and coverage, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.calibrate.residuals import Band, Residuals, banded_errors, errors, residuals


def test_errors_are_fractions_of_the_measured_time():
    """Predictions 1.1, 0.8 and 1.0 of a measured 1: absolute errors 10, 20 and 0 %."""
    off = errors(np.ones(3), np.array([1.1, 0.8, 1.0]))
    assert off.rows == 3
    assert off.median == pytest.approx(0.1)
    assert off.mean == pytest.approx(0.1)
    assert off.bias == pytest.approx(0.0)
    assert math.isnan(off.coverage)


def test_quantiles_are_of_the_logarithm_of_measured_over_predicted():
    """Eleven residuals from -0.5 to 0.5 in tenths: the tenth percentile is -0.4."""
    logs = np.linspace(-0.5, 0.5, 11)
    found = residuals(np.exp(logs), np.ones(11))
    assert (found.q10, found.q50, found.q90) == pytest.approx((-0.4, 0.0, 0.4))


def test_a_band_with_few_rows_has_no_quantiles_of_its_own():
    """Five kernels of a microsecond among fifty of a second."""
    predicted_s = np.concatenate([np.full(5, 1e-6), np.full(50, 1.0)])
    found = residuals(predicted_s, predicted_s)
    assert [(band.low_s, band.rows) for band in found.bands] == [(1e-3, 50)]


def test_the_interval_follows_the_band_of_the_predicted_time():
    """A band's own quantiles hold inside it, the overall ones elsewhere."""
    known = Residuals(100, -0.1, 0.0, 0.1, (Band(0.0, 1e-5, 50, -0.3, 0.0, 0.4),))
    low, high = known.interval(np.array([1e-6, 1e-5]))
    assert low.tolist() == [-0.3, -0.1]
    assert high.tolist() == [0.4, 0.1]


def test_coverage_is_the_share_inside_the_interval():
    """Two of four measured times lie within a tenth of the predicted one."""
    known = Residuals(100, -0.1, 0.0, 0.1, ())
    measured_s = np.exp([0.0, 0.09, 0.2, -0.2])
    assert errors(measured_s, np.ones(4), known).coverage == 0.5


def test_errors_by_band_keep_to_predicted_times():
    """Forty kernels of 2 us and forty of 2 ms: two bands."""
    predicted_s = np.concatenate([np.full(40, 2e-6), np.full(40, 2e-3)])
    found = banded_errors(predicted_s * 2, predicted_s)
    assert {band: off.bias for band, off in found.items()} == {
        (0.0, 5e-6): -0.5,
        (1e-3, math.inf): -0.5,
    }
