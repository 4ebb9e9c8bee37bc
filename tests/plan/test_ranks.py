"""The rank test and the reach of a median, against counting by hand and by brute force."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.plan.ranks import EXACT, leaning, least_p, median_interval, rank_test

SAMPLES = st.lists(st.integers(1, 6).map(float), min_size=1, max_size=5)


def by_brute_force(first, second):
    """Every way to pick the first side out of all, by its rank sum."""
    pool = [*first, *second]
    ranks = [sum(o < v for o in pool) + (sum(o == v for o in pool) + 1) / 2 for v in pool]
    seen = sum(ranks[: len(first)])
    sums = [sum(pick) for pick in combinations(ranks, len(first))]
    below, above = sum(s <= seen for s in sums), sum(s >= seen for s in sums)
    return min(1.0, 2 * min(below, above) / len(sums))


def test_three_that_are_all_larger_than_three():
    """One of C(6, 3) = 20 picks is as extreme on either side: p = 2 / 20."""
    assert rank_test([4, 5, 6], [1, 2, 3]) == pytest.approx(0.1)


def test_a_published_example():
    """0.80 0.83 1.89 1.04 1.45 1.38 1.91 1.64 0.73 1.46 against 1.15 0.88 0.90 0.74 1.21 (Hollander
    and Wolfe, recalled): W = 35 of 50, two-sided exact p = 0.2544.
    """
    first = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
    assert rank_test(first, [1.15, 0.88, 0.90, 0.74, 1.21]) == pytest.approx(0.2544, abs=1e-4)


@settings(deadline=None)
@given(SAMPLES, SAMPLES)
def test_few_measurements_are_counted_out(first, second):
    """Ties and all."""
    assert rank_test(first, second) == pytest.approx(by_brute_force(first, second))


@given(SAMPLES, SAMPLES)
def test_which_side_comes_first_does_not_matter(first, second):
    assert rank_test(first, second) == pytest.approx(rank_test(second, first))


@given(SAMPLES)
def test_equal_sides_do_not_differ(values):
    assert rank_test(values, values) == 1.0


def test_many_measurements_take_the_normal_law_and_join_the_exact_one():
    """At the border, 15 and 15 against 15 and 16 measurements of interleaved ranks."""
    first = [float(2 * i + 6) for i in range(15)]
    second = [float(2 * i + 1) for i in range(15)]
    assert len(first) + len(second) == EXACT
    exact, normal = rank_test(first, second), rank_test(first, [*second, 20.5])
    assert normal == pytest.approx(exact, rel=0.25)


def test_many_equal_measurements_do_not_differ():
    """No variance is left."""
    assert rank_test([1.0] * 20, [1.0] * 20) == 1.0


def test_the_least_p_of_some_numbers_of_measurements():
    """C(10, 5) = 252; nothing can be told from none."""
    assert least_p(5, 5) == pytest.approx(2 / 252)
    assert least_p(1, 1) == 1.0
    assert least_p(0, 9) == 1.0


def test_few_measurements_do_not_bound_their_median():
    """Even the extremes of 5 miss it with 2 / 2⁵ = 6 %."""
    assert median_interval([1.0, 2.0, 3.0, 4.0, 5.0], 0.01) is None


@pytest.mark.parametrize("count", [8, 12, 30, 101, 400])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_bounds_of_a_median_miss_it_no_more_often_than_they_say(count, alpha):
    """P(miss) = 2 · P(Binomial(n, 1/2) ≤ k), k the measurements below the lower bound."""
    values = [float(i) for i in range(count)]
    found = median_interval(values, alpha)
    if found is None:
        assert 2 / 2**count > alpha / 4
        return
    low, high = found
    below = int(low)
    assert high == count - 1 - below
    assert low <= median(values) <= high
    miss = 2 * sum(math.comb(count, i) for i in range(below + 1)) / 2**count
    assert miss <= alpha


def test_which_side_ranks_higher():
    """1 and 4 against 2 and 3: rank sums 5 and 5."""
    assert leaning([3.0], [1.0, 2.0]) == 1
    assert leaning([1.0, 2.0], [3.0]) == -1
    assert leaning([1.0, 4.0], [2.0, 3.0]) == 0
