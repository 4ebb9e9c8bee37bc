"""Least costs for many loads at once, against the search for each of them."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.fusion.explore import explore
from planner.fusion.least import known_least, least_clock, least_paths, least_sum
from planner.fusion.objective import IMPOSSIBLE, Additive, TwoClock
from planner.fusion.search import search
from planner.fusion.types import Block, Candidate, NoSchedule, Price, Problem, Seam, SearchTooLarge
from tests.fusion.random_models import random_problem

US = 1e-6
LOADS = 4
SEEDS = st.integers(min_value=0, max_value=2**48)


def loads(problem, rng):
    """Device times of every kernel under some loads; those that cannot run under the first never
    can."""
    times = [
        [
            each.price.device_s * rng.choice((0.5, 1, 1, 3)) if n else each.price.device_s
            for n in range(LOADS)
        ]
        for each in problem.candidates
    ]
    return np.array(times).reshape(-1, LOADS)


def searched(problem, objective, times):
    """What the search finds under each load."""
    found = []
    for column in times.T:
        prices = [
            replace(each.price, device_s=float(time_s))
            for each, time_s in zip(problem.candidates, column, strict=True)
        ]
        found.append(search(problem, objective, prices=prices).total.time_s)
    return found


def paths_of(problem, *, order_free):
    weights = [
        IMPOSSIBLE if np.isinf(each.price.device_s) else each.price.uncovered
        for each in problem.candidates
    ]
    return least_paths(problem, explore(problem, order_free=order_free), weights)


@settings(max_examples=many(60, 300), deadline=None, database=None)
@given(SEEDS)
def test_least_sums_are_those_of_the_search(seed):
    rng = Random(seed)
    problem = random_problem(rng, nodes=14, unit_s=US)
    times = loads(problem, rng)
    try:
        expected = searched(problem, Additive(), times)
    except NoSchedule:
        with pytest.raises(NoSchedule):
            paths_of(problem, order_free=True)
        return
    paths = paths_of(problem, order_free=True)
    costs = {slot: times[slot] for slot in paths.kernels}
    assert np.broadcast_to(least_sum(paths, costs), LOADS) == pytest.approx(expected, abs=1e-18)


@settings(max_examples=many(60, 300), deadline=None, database=None)
@given(SEEDS)
def test_least_clocks_are_those_of_the_search(seed):
    """The order of kernels counts here, and may be another under each load."""
    rng = Random(seed)
    problem = random_problem(rng, nodes=12, unit_s=US)
    times = loads(problem, rng)
    try:
        expected = searched(problem, TwoClock(), times)
        paths = paths_of(problem, order_free=False)
    except NoSchedule:
        return
    launches = [each.price.launch_s for each in problem.candidates]
    costs = {slot: (launches[slot], times[slot]) for slot in paths.kernels}
    try:
        found = least_clock(paths, costs)
    except SearchTooLarge:
        return  # such rows are planned one by one
    assert np.broadcast_to(found, LOADS) == pytest.approx(expected, abs=1e-18)


def two_ways():
    """Two nodes: each by itself, or both as one kernel; three such blocks in a row."""
    alone = [Candidate(name, frozenset({(0, name)}), Price(0, 0, 0)) for name in "ab"]
    both = Candidate("ab", frozenset({(0, "a"), (0, "b")}), Price(0, 0, 0))
    block = Block("k", ("a", "b"), frozenset({("a", "b")}), (*alone, both))
    return Problem((("k", 3),), (block,), (Seam("k", "k", frozenset({("b", "a")})),))


@settings(max_examples=many(60, 600), deadline=None, database=None)
@given(SEEDS, st.sampled_from([Additive(), TwoClock()]))
def test_the_space_of_least_paths_holds_the_very_schedule_of_the_search(seed, objective):
    """The same kernels in the same order, though many schedules cost the same."""
    problem = random_problem(Random(seed), nodes=14, unit_s=US)
    weights = [
        IMPOSSIBLE if np.isinf(each.price.device_s) else each.price.uncovered
        for each in problem.candidates
    ]
    try:
        space = explore(problem, order_free=objective.order_free)
    except NoSchedule:
        return
    try:
        expected = search(problem, objective, space)
    except NoSchedule:
        with pytest.raises(NoSchedule):
            known_least(problem, space, weights)
        return
    paths, least = known_least(problem, space, weights)
    assert search(problem, objective, least) == expected
    assert known_least(problem, space, weights) == (paths, least)


def test_each_load_has_its_own_best_kernels():
    """Alone a + b = 1 + 2 = 3 µs; fused 4 µs under the first load, 2 µs under the second: three
    blocks take 9 and 6."""
    paths = least_paths(two_ways(), explore(two_ways(), order_free=True), [0, 0, 0])
    costs = {0: np.array([1.0, 1.0]), 1: np.array([2.0, 2.0]), 2: np.array([4.0, 2.0])}
    assert least_sum(paths, costs).tolist() == [9.0, 6.0]


def test_what_leaves_more_uncovered_needs_no_price():
    """With one node uncovered by each kernel of its own, only the fused one lies on least paths."""
    paths = least_paths(two_ways(), explore(two_ways(), order_free=True), [1, 1, 0])
    assert paths.kernels == {2}
    assert least_sum(paths, {2: np.array([4.0, 2.0])}).tolist() == [12.0, 6.0]


def test_a_slow_host_and_a_slow_device_by_hand():
    """Three fused kernels: the host launches at 1, 2, 3. A device that takes 5 each is done at
    1 + 15, one that takes 0.5 at 3.5."""
    paths = least_paths(two_ways(), explore(two_ways(), order_free=False), [1, 1, 0])
    assert least_clock(paths, {2: (1.0, np.array([5.0, 0.5]))}).tolist() == [16.0, 3.5]
