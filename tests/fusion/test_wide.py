"""Windows of many downsets: found in arrays, and searched without arcs of no use."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.fusion.explore import explore
from planner.fusion.objective import TwoClock
from planner.fusion.search import search
from planner.fusion.types import Block, Candidate, NoSchedule, Price, Problem, SearchTooLarge
from tests.fusion.brute_force import Unrolled, replay
from tests.fusion.irregular import irregular
from tests.fusion.random_models import random_problem

US = 1e-6
SEEDS = st.integers(min_value=0, max_value=2**48)
FEW = 1
"""States beyond which arrays are used: every window of several."""


def free(kernels: list[tuple[float, float]], *fused: tuple[str, float, float]) -> Problem:
    """Nodes a, b, … that wait for nothing; (launch, device) in microseconds of each, and of fused
    ones.
    """
    names = "abcdefghijklmnopqrstuvwxyz"[: len(kernels)]
    every = [(n, l, d) for n, (l, d) in zip(names, kernels, strict=True)] + list(fused)
    candidates = tuple(
        Candidate(nodes, frozenset((0, n) for n in nodes), Price(0, l * US, d * US))
        for nodes, l, d in every
    )
    return Problem((("b", 1),), (Block("b", tuple(names), frozenset(), candidates),), ())


def both(problem: Problem) -> tuple[float, float]:
    """Microseconds with and without arrays."""
    plain = search(problem, TwoClock(), explore(problem, order_free=False)).total
    wide = search(problem, TwoClock(), explore(problem, order_free=False, few_states=FEW)).total
    assert plain.uncovered == wide.uncovered
    return plain.time_s / US, wide.time_s / US


def test_kernels_that_wait_for_nothing_run_in_johnsons_order():
    """Launches 3, 1, 2 and device times 2, 4, 1: b first (1 + 4 ends at 5), then a (launched at 4,
    ends at 7), then c (launched at 6, ends at 8). No order beats 1 + 7: the first launch and all
    device times.
    """
    assert both(free([(3, 2), (1, 4), (2, 1)])) == pytest.approx((8, 8), rel=1e-12)


def test_a_loop_between_its_bounds_is_still_the_quickest():
    """Kernels of (launch, device) 1, 5 and 5, 1 last 7 in that order: launches and the last kernel.
    Fused as 4, 2 they end at 6, above its own sums of 4 and 2 and below the others'.
    """
    assert both(free([(1, 5), (5, 1)], ("ab", 4, 2))) == pytest.approx((6, 6), rel=1e-12)
    assert both(free([(1, 5), (5, 1)], ("ab", 4, 4))) == pytest.approx((7, 7), rel=1e-12)


@settings(max_examples=many(100, 1000), deadline=None, database=None)
@given(SEEDS, st.booleans())
def test_arrays_hold_the_downsets_that_are_found_one_by_one(seed, gated):
    """States that lead to the end, and every arc between them, are the same ones."""
    problem = random_problem(Random(seed), nodes=12, unit_s=US, gated=gated)
    try:
        plain = explore(problem, order_free=False).graphs
    except NoSchedule:
        return
    wide = explore(problem, order_free=False, few_states=FEW).graphs
    assert {pair: each.keys() for pair, each in plain.items()} == {
        pair: each.keys() for pair, each in wide.items()
    }
    for pair, graphs in plain.items():
        for entry, graph in graphs.items():
            assert _paths(graph) == _paths(wide[pair][entry])


def _paths(graph) -> set[tuple[tuple[int, ...], int]]:
    """Every way to an exit, as moves, with the boundary state."""
    ways: list[list[tuple[int, ...]]] = [[()]]
    for into in graph.arcs:
        ways.append([(*way, move) for state, move in into for way in ways[state]])
    return {(way, out) for state, out in graph.exits for way in ways[state]}


NUMBERS = st.integers(0, 6)


@settings(max_examples=many(60, 600), deadline=None, database=None)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=6),
    st.lists(st.tuples(st.sets(NUMBERS, min_size=2, max_size=3), NUMBERS, NUMBERS), max_size=6),
    st.sampled_from((1, 1e-3, 1e6)),
)
def test_ties_and_trades_lose_no_quickest_loop(kernels, fused, scale):
    """Few small numbers make many ties, zeros and sums that bound nothing; any unit of time."""
    names = "abcdef"[: len(kernels)]
    groups = [
        ("".join(sorted({names[n % len(names)] for n in nodes})), l * scale, d * scale)
        for nodes, l, d in fused
    ]
    problem = free([(l * scale, d * scale) for l, d in kernels], *groups)
    plain, wide = both(problem)
    assert wide == plain


@settings(max_examples=many(20, 200), deadline=None, database=None)
@given(SEEDS, st.integers(0, 30), st.booleans())
def test_what_is_left_out_of_wide_windows_is_in_no_quickest_loop(seed, launch_us, fused_longer):
    """Irregular graphs, whose launches are short, as long as kernels, or longer where fused."""
    rng = Random(seed)
    problem = irregular(14, 4, seed)
    prices = [
        Price(
            rng.choice((0, 0, 0, 1)),
            launch_us
            * US
            * rng.uniform(0.5, 1.5)
            * (len(each.nodes) ** 0.5 if fused_longer else 1),
            each.price.device_s,
        )
        for each in problem.candidates
    ]
    wide = explore(problem, order_free=False, few_states=FEW)
    found = search(problem, TwoClock(), wide, prices)
    assert found.total == search(problem, TwoClock(), None, prices).total


@settings(max_examples=many(20, 200), deadline=None, database=None)
@given(SEEDS)
def test_wide_windows_of_equal_layers_lose_no_quickest_loop(seed):
    """Bounds hold wherever in the model a window lies; the schedule is replayed node by node."""
    problem = random_problem(Random(seed), nodes=30, unit_s=0.3 * US, gated=True)
    try:
        plain = search(problem, TwoClock())
    except NoSchedule:
        return
    wide = explore(problem, order_free=False, few_states=FEW)
    found = search(problem, TwoClock(), wide)
    assert found.total == plain.total
    end_s = replay(Unrolled(problem), found, TwoClock())[1]
    assert end_s == pytest.approx(found.total.time_s, rel=1e-12)


def test_more_downsets_than_allowed_are_refused_as_before():
    """2^16 downsets of 16 nodes that wait for nothing."""
    with pytest.raises(SearchTooLarge, match="needs 20001 states"):
        explore(free([(1, 1)] * 16), order_free=False)


def test_arcs_in_arrays_read_like_tuples():
    """The third state's arcs by number, from the end and in a slice."""
    (graph,) = (
        explore(free([(1, 1)] * 4), order_free=False, few_states=FEW).graphs["b", None].values()
    )
    every = list(graph.arcs)
    assert len(every) == len(graph.arcs) == 15
    assert graph.arcs[2] == every[2] == ((0, 2),)
    assert graph.arcs[-1] == every[-1]
    assert graph.arcs[3:5] == every[3:5]
