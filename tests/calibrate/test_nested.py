"""What figures count that come in reports and in cells of them, worked by hand."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibrate.nested import Components, components, quantile, weights


def test_components_are_those_of_the_analysis_of_variance():
    """Values 1 to 8 by twos in two cells of two reports. Of doubled ranks 2 … 16: cells have means
    3, 7, 11, 15, reports 5 and 13, all 9. Within cells 8 · 1² over 4 is 2. Between them 8 · 2² over
    2 is 16 = 2 + 2 · 7. Between reports 8 · 4² over 1 is 128 = 2 + 2 · 7 + 4 · 28.
    """
    found = components(range(1, 9), "AAAABBBB", "aabbaabb")
    shares = found.report, found.cell, found.figure
    assert shares == pytest.approx((28 / 37, 7 / 37, 2 / 37))


def test_cells_of_one_figure_each_count_as_figures():
    """Reports of means 3 and 7 of doubled ranks 2 … 8: within 4 · 1² over 2 is 2, between reports
    4 · 2² over 1 is 16 = 2 + 2 · 7. No cell has two figures to tell them apart.
    """
    found = components((1, 2, 3, 4), "AABB", "abab")
    assert (found.report, found.cell, found.figure) == pytest.approx((7 / 9, 0, 2 / 9))


def test_figures_that_are_alike_within_reports_leave_nothing_to_cells_and_figures():
    found = components((0.0, 0.0, 0.0, 0.5, 0.7), "AAABC", "aabab")
    assert found.report == pytest.approx(1)


def test_a_negative_component_is_none():
    """Reports of equal means: the variance is all within them."""
    found = components((1, 4, 2, 3), "AABB", "aaaa")
    assert (found.report, found.cell, found.figure) == pytest.approx((0, 0, 1))


def test_a_report_counts_as_its_independent_figures():
    """Half of the variance is of reports, half of figures. Two figures of A: 1 / (1/2 + 1/4) = 4/3
    together, B's one is 1.
    """
    parts = Components(0.5, 0.0, 0.5)
    assert weights("AAB", "aaa", parts) == pytest.approx((2 / 3, 2 / 3, 1))


def test_cells_count_between_their_report_and_their_figures():
    """A quarter each of reports and cells. The cell of two is worth 1 / (1/4 + 1/4) = 2, the other
    1 / (1/4 + 1/2) = 4/3; their report 1 / (1/4 + 3/10) = 20/11, shared 3 to 2.
    """
    parts = Components(0.25, 0.25, 0.5)
    expected = (6 / 11, 6 / 11, 8 / 11)
    assert weights("AAA", "aab", parts) == pytest.approx(expected)


def test_the_quantile_meets_the_share_of_one_figure_more():
    """Of nine 0.8 · 10 = 8: the eighth. Of six 0.8 · 7 = 5.6: between the fifth and the sixth. Of
    three 0.8 · 4 = 3.2 is more than there are: the largest.
    """
    assert quantile([k / 10 for k in range(1, 10)], [1] * 9, 0.8) == pytest.approx(0.8)
    assert quantile([k / 10 for k in range(1, 7)], [1] * 6, 0.8) == pytest.approx(0.56)
    assert quantile([0.1, 0.2, 0.3], [1] * 3, 0.8) == pytest.approx(0.3)


def test_weights_move_the_quantile():
    """Weights 3 and 1: half of 3 + 1 + 1 is 2.5, five sixths of the way from nought to the first."""
    assert quantile([0.6, 1.0], [3, 1], 0.5) == pytest.approx(0.5)


_PLACES = st.lists(
    st.tuples(st.sampled_from("ABCDE"), st.sampled_from("xyz"), st.floats(0, 3)),
    min_size=2,
    max_size=30,
)


@settings(max_examples=50)
@given(_PLACES)
def test_a_report_counts_for_one_figure_at_least_and_for_all_it_has_at_most(places):
    reports, cells, values = ([each[k] for each in places] for k in range(3))
    parts = components(values, reports, cells)
    assert parts.report + parts.cell + parts.figure == pytest.approx(1)
    found = weights(reports, cells, parts)
    for report in set(reports):
        mine = [each for each, of in zip(found, reports, strict=True) if of == report]
        assert 1 - 1e-6 <= sum(mine) <= len(mine) + 1e-6
    assert 0 <= quantile(values, found, 0.8) <= max(values)


@pytest.mark.parametrize("apart", [(0.2, 0.0, 0.1), (0.1, 0.1, 0.1), (0.0, 0.0, 0.3)])
def test_a_new_report_is_held_four_times_in_five(apart):
    """Reports of 1 to 40 figures whose errors are drawn report by report, cell by cell and one by
    one. What the width holds of a normal error of all three together is erf(width / (σ · √2)).
    """
    draw = random.Random(7).gauss
    sigma = math.hypot(*apart)
    held = []
    for _ in range(150):
        places, values = [], []
        for report, size in enumerate((1, 1, 1, 2, 2, 3, 4, 6, 9, 12, 20, 40)):
            of_report = draw(0, apart[0])
            of_cells = [draw(0, apart[1]) for _ in range(4)]
            for place in range(size):
                places.append((report, place % 4))
                values.append(abs(of_report + of_cells[place % 4] + draw(0, apart[2])))
        reports, cells = zip(*places, strict=True)
        found = weights(reports, cells, components(values, reports, cells))
        held.append(math.erf(quantile(values, found, 0.8) / (sigma * math.sqrt(2))))
    assert 0.77 <= sum(held) / len(held) <= 0.83
