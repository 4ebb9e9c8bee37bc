"""The exact fusion search against brute force and against itself, on random small models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.fusion.objective import Additive, TwoClock
from planner.fusion.search import search
from planner.fusion.types import NoSchedule, Price
from tests.fusion.brute_force import mismatch
from tests.fusion.random_models import random_problem

US = 1e-6
SEEDS = st.integers(min_value=0, max_value=2**48)


@settings(max_examples=many(500, 2000), deadline=None, database=None)
@given(SEEDS)
def test_sums_equal_brute_force_over_all_schedules_of_the_unrolled_graph(seed):
    """A captured graph's optimum and its replay agree with every chain of downsets tried."""
    assert mismatch(seed, two_clock=False, nodes=12) is None


@example(seed=23_525_436_329)  # no order completes it, and its labels are bounded
@settings(max_examples=many(500, 2000), deadline=None, database=None)
@given(SEEDS)
def test_launch_loops_equal_brute_force_over_all_orders_of_the_unrolled_graph(seed):
    """An eager loop's optimum and its replay agree with every order tried."""
    assert mismatch(seed, two_clock=True, nodes=9) is None


@dataclass(frozen=True)
class AllOrders(Additive):
    """Sums, but searched as if the order mattered."""

    order_free: ClassVar[bool] = False


@settings(max_examples=many(60, 300), deadline=None, database=None)
@given(SEEDS)
def test_trying_fewer_orders_leaves_the_least_sum_as_it_is(seed):
    """Skipping orders loses no schedule when times add."""
    problem = random_problem(Random(seed), nodes=40, unit_s=US)
    try:
        expected = search(problem, AllOrders()).total
    except NoSchedule:
        with pytest.raises(NoSchedule):
            search(problem, Additive())
        return
    assert search(problem, Additive()).total == expected


@settings(max_examples=many(50, 200), deadline=None, database=None)
@given(SEEDS)
def test_bounds_change_no_launch_loop(seed):
    """With and without dropping labels by lower bounds the loop ends at the same time."""
    rng = Random(seed)
    problem = random_problem(rng, nodes=40, unit_s=0.3 * US)
    longer = tuple((k, n * rng.randint(2, 6) if n > 1 else n) for k, n in problem.sequence)
    problem = replace(problem, sequence=longer)
    try:
        plain = search(problem, TwoClock(), easy_labels=10**6)
    except NoSchedule:
        return
    assert search(problem, TwoClock(), easy_labels=0).total == plain.total


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8), st.data())
def test_a_paths_effect_on_the_clocks_is_that_of_its_kernels_in_turn(prices, data):
    """However the joins are bracketed: h + H and max(d + A, h + B)."""
    objective = TwoClock()
    labels = [objective.kernel(Price(0, 2.0**-70 * l, 2.0**-70 * d), 0) for l, d in prices]
    while len(labels) > 1:
        at = data.draw(st.integers(0, len(labels) - 2))
        labels[at : at + 2] = [objective.join(labels[at], labels[at + 1])]
    start_host, start_device = data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30)))
    host, device = start_host, start_device
    for launch, time in prices:
        host += launch
        device = max(device, host) + time
    _, H, A, B, _, _ = labels[0]
    assert (host, device) == (start_host + H, max(start_device + A, start_host + B))
