"""Lint flags what is wrong with measured rows, and drops nothing."""

from __future__ import annotations

import numpy as np
import pytest

from planner.calibrate import lint


def test_a_shape_measured_again_counts_once_with_the_median():
    """Times 3, 1 and 2 of one shape become 2; a pair becomes its mean."""
    rows = np.array([7, 5, 7, 7, 9, 9])
    depth = np.array([1, 1, 1, 1, 2, 2])
    time_s = np.array([3.0, 8.0, 1.0, 2.0, 4.0, 6.0])
    merged = lint.merge([rows, depth], time_s)
    found = dict(zip(rows[merged.first].tolist(), merged.time_s.tolist(), strict=True))
    assert found == {5: 8.0, 7: 2.0, 9: 5.0}
    assert merged.repeats == 3


def test_shapes_that_differ_in_one_key_stay_apart():
    """(1, 2) and (2, 1) are two shapes."""
    merged = lint.merge([np.array([1, 2]), np.array([2, 1])], np.array([1.0, 1.0]))
    assert len(merged.first) == 2


def test_times_that_are_no_times_are_flagged():
    """Zero, negative and not-a-number have no logarithm."""
    flagged = lint.non_positive(np.array([1.0, 0.0, -1.0, np.nan, np.inf]))
    assert flagged.tolist() == [False, True, True, True, True]


def test_a_row_faster_than_physics_is_flagged_beyond_the_clocks_slack():
    """At 5 % slack a least time of 1 s is beaten by 0.94 s, not by 0.96 s."""
    flagged = lint.faster_than(np.array([0.94, 0.96]), np.array([1.0, 1.0]))
    assert flagged.tolist() == [True, False]


def test_spikes_and_dips_stand_out_from_both_neighbours():
    """Runs are sorted by size first; other runs are no neighbours."""
    key = np.array([0, 0, 0, 0, 1, 1, 1])
    size = np.array([3, 1, 2, 4, 1, 2, 3])
    time_s = np.array([1.2, 1.0, 2.0, 1.3, 5.0, 1.0, 5.0])
    found = lint.neighbours(time_s, lint.runs([key], size))
    assert found["spike"].tolist() == [False, False, True, False, False, False, False]
    assert found["dip"].tolist() == [False, False, False, False, False, True, False]


def test_a_larger_size_that_is_faster_falls():
    """A drop of more than a tenth is flagged, a smaller one is noise."""
    found = lint.neighbours(
        np.array([1.0, 0.95, 0.8]), lint.runs([np.zeros(3)], np.array([1, 2, 3]))
    )
    assert found["falls"].tolist() == [False, False, True]


def test_only_excluding_flags_keep_a_row_out():
    """Rows in a warm L2 are fitted, since the model knows of the L2; spikes are not."""
    flags = {"l2-hot": np.array([True, False]), "spike": np.array([False, True])}
    assert lint.kept(flags, 2).tolist() == [True, False]
    assert lint.kept(flags, 2, also=("l2-hot",)).tolist() == [False, False]


@pytest.mark.parametrize("flag", sorted(lint.EXCLUDING))
def test_every_excluding_flag_has_a_reason(flag):
    """A count in a file must be explained somewhere."""
    assert lint.REASONS[flag]
