"""The search with a bound, against the exact one, brute force and an integer program."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.fusion.bounded import bounded_search
from planner.fusion.objective import Additive, Objective, TwoClock
from planner.fusion.search import search
from planner.fusion.types import Block, Candidate, NoSchedule, Price, Problem, SearchTooLarge
from planner.fusion.worth import Kernels, worths
from tests.fusion import integer_program
from tests.fusion.brute_force import Unrolled, close, replay
from tests.fusion.irregular import irregular
from tests.fusion.random_models import random_problem

SEEDS = st.integers(min_value=0, max_value=2**48)
US = 1e-6


def against_exact(seed: int, objective: Objective) -> float | None:
    """The cost above the exact one; None where there is no schedule, or none was found."""
    problem = random_problem(Random(seed), nodes=14, unit_s=US)
    try:
        exact = search(problem, objective).total
    except NoSchedule:
        exact = None
    try:
        found = bounded_search(problem, objective)
    except NoSchedule:
        assert exact is None
        return None
    except SearchTooLarge:
        return None
    assert exact is not None
    least, total = found.least, found.total
    assert least is not None
    assert (least.uncovered, least.time_s) <= (exact.uncovered, exact.time_s * (1 + 1e-12))
    assert (exact.uncovered, exact.time_s) <= (total.uncovered, total.time_s * (1 + 1e-12))
    assert close((total.uncovered, total.time_s), replay(Unrolled(problem), found, objective))
    return total.time_s - exact.time_s if total.uncovered == exact.uncovered else US


@settings(max_examples=60, deadline=None, database=None)
@given(SEEDS)
def test_bound_lies_below_and_schedule_above_the_exact_one_in_a_graph(seed):
    against_exact(seed, Additive())


@settings(max_examples=60, deadline=None, database=None)
@given(SEEDS)
def test_bound_lies_below_and_schedule_above_the_exact_one_in_a_launch_loop(seed):
    against_exact(seed, TwoClock())


@pytest.mark.parametrize("seed", range(6))
def test_exact_search_finds_what_an_integer_program_finds(seed):
    """Forty nodes and a hundred kernels: partitions that brute force cannot list."""
    problem = irregular(40, 3, seed)
    found = search(problem, Additive()).total.time_s
    assert round(found / US) == integer_program.least_sum(problem, US)


@pytest.mark.parametrize(("nodes", "width", "seed"), [(60, 4, 0), (120, 4, 1), (200, 3, 2)])
def test_bound_and_schedule_hold_the_integer_program_between_them(nodes, width, seed):
    problem = irregular(nodes, width, seed)
    found = bounded_search(problem, Additive())
    least = integer_program.least_sum(problem, US)
    assert found.least.time_s / US <= least + 1e-6
    assert least <= found.total.time_s / US + 1e-6
    assert (0, found.total.time_s) == pytest.approx(replay(Unrolled(problem), found, Additive()))


def test_a_launch_loop_is_bounded_by_host_and_device():
    """Three kernels of 1 µs on a host that takes 4 µs for each: 3 × 4 + 1 = 13 µs, and proven."""
    nodes = ("a", "b", "c")
    single = [Candidate(n, frozenset({(0, n)}), Price(0, 4 * US, US)) for n in nodes]
    block = Block("x", nodes, frozenset({("a", "b"), ("b", "c")}), tuple(single))
    found = bounded_search(Problem((("x", 1),), (block,), ()), TwoClock())
    assert found.total.time_s == pytest.approx(13 * US)
    assert found.gap_s == pytest.approx(0.0, abs=1e-12)


def test_kernels_that_wait_for_each_other_are_split():
    """a → b and c → d; {a, d} and {b, c} at 1 µs each wait for each other. With one of them split
    into nodes of 2 µs: 1 + 2 + 2 = 5 µs. The bound leaves order aside: 1 + 1 = 2 µs.
    """
    nodes = ("a", "c", "b", "d")
    single = [Candidate(n, frozenset({(0, n)}), Price(0, 0.0, 2 * US)) for n in nodes]
    pairs = [
        Candidate(x + y, frozenset({(0, x), (0, y)}), Price(0, 0.0, US)) for x, y in ("ad", "bc")
    ]
    block = Block("x", nodes, frozenset({("a", "b"), ("c", "d")}), (*single, *pairs))
    problem = Problem((("x", 1),), (block,), ())
    found = bounded_search(problem, Additive())
    assert found.total.time_s == pytest.approx(search(problem, Additive()).total.time_s)
    assert found.total.time_s == pytest.approx(5 * US)
    assert found.least.time_s == pytest.approx(2 * US)
    assert found.gap_s == pytest.approx(3 * US)


@settings(max_examples=40, deadline=None, database=None)
@given(SEEDS)
def test_no_kernel_covers_more_worth_than_it_costs(seed):
    rng = Random(seed)
    count = rng.randint(1, 12)
    nodes = [rng.sample(range(count), rng.randint(1, min(4, count))) for _ in range(20)]
    costs = [rng.choice((0, 1, 7, 10**6, 1 << 130)) for _ in nodes]
    often, times = [rng.randint(1, 40) for _ in nodes], [rng.randint(1, 40) for _ in range(count)]
    found = worths(Kernels(costs, nodes, often, times))
    assert all(
        sum(found[node] for node in each) <= cost for each, cost in zip(nodes, costs, strict=True)
    )
