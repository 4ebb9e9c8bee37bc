"""The best capture sizes: by hand, and against every list there is."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.capture.best_sizes import SizeCosts

COST = st.floats(0.1, 10)


def padded_costs(batches, shares, sizes, uncaptured=100.0):
    """Each row of a step costs 1; without a graph a step costs so much."""
    paid = np.tile(np.array(sizes, dtype=float), (len(batches), 1))
    without = np.full(len(batches), float(uncaptured))
    return SizeCosts(batches, np.array(shares), sizes, paid, without)


def test_one_size_is_the_largest_batch():
    """A tenth of the steps holds 8, the rest 2. One size: all padded to 8, at 8; or 2 captured and
    8 without a graph, at 0.9 · 2 + 0.1 · 100 = 11.8."""
    costs = padded_costs((2, 8), (0.9, 0.1), (2, 8))
    none, one, both = costs.best(5)
    assert (none.sizes, none.cost) == ((), pytest.approx(100))
    assert (one.sizes, one.cost) == ((8,), pytest.approx(8))
    assert (both.sizes, both.cost) == ((2, 8), pytest.approx(0.9 * 2 + 0.1 * 8))


def test_a_rare_batch_is_left_without_a_graph_where_that_is_cheaper():
    """At 20 a step without a graph: 0.99 · 2 + 0.01 · 20 = 2.18 < 8."""
    costs = padded_costs((2, 8), (0.99, 0.01), (2, 8), uncaptured=20)
    assert [each.sizes for each in costs.best(1)] == [(), (2,)]


def test_the_middle_size_goes_where_most_padding_is_saved():
    """1, 4 and 8 share evenly. With 8 a list holds 1 too, saving 7/3, or 4, saving 2 · 4/3."""
    costs = padded_costs((1, 4, 8), (1 / 3, 1 / 3, 1 / 3), (1, 4, 8))
    assert [each.sizes for each in costs.best(3)][2] == (4, 8)


def test_a_size_that_no_batch_has_may_be_the_best():
    """A step of 8 rows that runs faster than one of 7: 3 against 9."""
    captured = np.array([[9.0, 3.0]])
    costs = SizeCosts((7,), np.ones(1), (7, 8), captured, np.array([50.0]))
    assert [each.sizes for each in costs.best(2)] == [(), (8,)]


def test_the_cost_of_any_list():
    """2 in a size of 4, 8 in no size: 0.5 · 4 + 0.5 · 100."""
    costs = padded_costs((2, 8), (0.5, 0.5), (2, 4, 8))
    assert costs.cost((4,)) == pytest.approx(52)
    assert costs.cost(()) == pytest.approx(100)


def test_two_batches_that_need_the_same_size_share_it():
    """Parts of steps that need 4, 4 and 6 rows; 4 costs the first 1 and the second 2, 6 costs each
    5. Of one size 6 serves all, at 15; with 4 beside it 1 + 2 + 5.
    """
    captured = np.array([[1.0, 5.0], [2.0, 5.0], [9.0, 5.0]])
    costs = SizeCosts((4, 4, 6), np.ones(3), (4, 6), captured, np.full(3, 50.0))
    assert [(each.sizes, each.cost) for each in costs.best(2)][1:] == [((6,), 15), ((4, 6), 8)]


@st.composite
def problems(draw):
    sizes = tuple(sorted(draw(st.sets(st.integers(1, 12), min_size=1, max_size=6))))
    batches = tuple(sorted(draw(st.lists(st.integers(1, 14), min_size=1, max_size=6))))
    cells = len(sizes) * len(batches)
    captured = draw(st.lists(COST, min_size=cells, max_size=cells))
    shares = np.array(draw(st.lists(COST, min_size=len(batches), max_size=len(batches))))
    without = draw(st.lists(COST, min_size=len(batches), max_size=len(batches)))
    matrix = np.array(captured).reshape(len(batches), len(sizes))
    return SizeCosts(batches, shares / shares.sum(), sizes, matrix, np.array(without))


def in_turn(costs, sizes):
    """Batch by batch: the smallest size that holds it, or none."""
    total = 0.0
    for row, batch in enumerate(costs.rows):
        fitting = [size for size in sizes if size >= batch]
        column = costs.sizes.index(min(fitting)) if fitting else None
        paid = costs.uncaptured[row] if column is None else costs.captured[row, column]
        total += costs.shares[row] * paid
    return total


@given(problems(), st.integers(0, 6))
@settings(max_examples=60)
def test_no_list_of_as_many_sizes_is_cheaper(costs, most):
    *_, found = costs.best(most)
    every = [
        in_turn(costs, sizes)
        for count in range(most + 1)
        for sizes in combinations(costs.sizes, count)
    ]
    assert found.cost == pytest.approx(min(every))
    assert found.cost == pytest.approx(in_turn(costs, found.sizes))
    assert len(found.sizes) <= most


@given(problems(), st.integers(1, 6))
@settings(max_examples=40)
def test_lists_that_must_hold_every_batch(costs, most):
    """The same among lists whose largest size holds the largest batch; none without such a size."""
    every = [
        in_turn(costs, sizes)
        for count in range(1, most + 1)
        for sizes in combinations(costs.sizes, count)
        if sizes[-1] >= costs.rows[-1]
    ]
    found = list(costs.best(most, whole=True))
    assert bool(found) == bool(every)
    if found:
        assert found[-1].cost == pytest.approx(min(every))
        assert all(each.sizes[-1] >= costs.rows[-1] for each in found)
