"""The bare roofline."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.roofline import roofline

AMOUNTS = st.floats(0, 1e18)
RATES = st.floats(1e6, 1e18)


def l40s(flops: float, hbm_bytes: float):
    return roofline(
        flops=flops, hbm_bytes=hbm_bytes, peak_flops_per_s=362e12, bandwidth_bytes_per_s=864e9
    )


def test_the_article_s_example_takes_nine_milliseconds_and_not_microseconds():
    found = l40s(2e12, 8e9)
    # Memory: 8e9 / 864e9 = 9.259 ms; compute: 2e12 / 362e12 = 5.525 ms.
    assert found.time_s == pytest.approx(9.259e-3, rel=1e-4)
    assert found.bound == "memory"
    assert found.flops_per_byte == 250
    assert found.ridge_flops_per_byte == pytest.approx(418.98, rel=1e-5)


def test_past_the_ridge_compute_decides():
    found = l40s(362e12, 1e9)
    assert (found.time_s, found.bound) == (1.0, "compute")


def test_on_the_ridge_both_take_as_long_and_compute_is_said():
    found = roofline(flops=100, hbm_bytes=10, peak_flops_per_s=10, bandwidth_bytes_per_s=1)
    assert (found.time_s, found.bound) == (10, "compute")


def test_work_without_bytes_is_bound_by_compute():
    found = l40s(362e12, 0)
    assert (found.time_s, found.bound, found.flops_per_byte) == (1.0, "compute", math.inf)


def test_no_work_takes_no_time():
    found = l40s(0, 0)
    assert (found.time_s, found.flops_per_byte) == (0, 0)


@given(AMOUNTS, AMOUNTS, RATES, RATES)
def test_the_time_is_the_longer_of_the_two(flops, hbm_bytes, peak, bandwidth):
    found = roofline(
        flops=flops, hbm_bytes=hbm_bytes, peak_flops_per_s=peak, bandwidth_bytes_per_s=bandwidth
    )
    longer = flops / peak if found.bound == "compute" else hbm_bytes / bandwidth
    assert found.time_s == max(flops / peak, hbm_bytes / bandwidth)
    assert found.time_s == pytest.approx(longer, rel=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [{"flops": -1}, {"hbm_bytes": -1}, {"peak_flops_per_s": 0}, {"bandwidth_bytes_per_s": -864e9}],
)
def test_amounts_below_nought_and_rates_of_nought_are_refused(wrong):
    good = {"flops": 1, "hbm_bytes": 1, "peak_flops_per_s": 1, "bandwidth_bytes_per_s": 1}
    with pytest.raises(ValueError, match="must not be negative"):
        roofline(**{**good, **wrong})
