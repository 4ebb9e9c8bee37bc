"""Intervals widened by what whole runs scatter."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.plan.interval import widened


def test_widths_add_as_squares_of_logarithms():
    """0.3 and 0.4 make 0.5."""
    low, high = widened(2.0, 2 * math.exp(-0.3), 2 * math.exp(0.3), 0.4)
    assert (low, high) == pytest.approx((2 * math.exp(-0.5), 2 * math.exp(0.5)))


def test_without_a_width_the_interval_is_as_it_was():
    assert widened(2.0, 1.0, 3.0, 0.0) == (1.0, 3.0)


def test_an_interval_that_reaches_nought_still_does():
    """No logarithm of nought: the end is a millionth of the value at the most."""
    low, _ = widened(2.0, 0.0, 3.0, 0.4)
    assert 0 <= low < 2e-6


@given(
    value=st.floats(1e-6, 1e3),
    down=st.floats(0, 3),
    up=st.floats(0, 3),
    width=st.floats(0, 3),
)
def test_it_holds_the_old_interval_and_is_one_for_arrays(value, down, up, width):
    ends = (value * math.exp(-down), value * math.exp(up))
    low, high = widened(value, *ends, width)
    assert low <= ends[0] * (1 + 1e-12)
    assert high >= ends[1] * (1 - 1e-12)
    many = widened(np.array([value]), *(np.array([end]) for end in ends), width)
    assert [float(each[0]) for each in many] == pytest.approx([low, high], rel=1e-12)
