"""Speed of the fusion search against nodes and width. Run with ``make bench``.

The graphs are irregular: every node reads one or two of those before it, none repeats. Each has
about three kernels for every node. ``extra_info`` holds the proven gap of each. Times are those of
this process, so that others on the machine do not count.
"""

from __future__ import annotations

from random import Random
from time import process_time

import pytest

from planner.fusion.bounded import bounded_search
from planner.fusion.explore import explore
from planner.fusion.objective import Additive, TwoClock
from planner.fusion.search import search
from planner.fusion.types import Price, SearchTooLarge
from tests.fusion.irregular import irregular

SIZES = ((50, 4), (100, 4), (200, 4), (500, 4), (1000, 4), (2000, 4), (2000, 8), (2000, 32))
MOST_S = 5.0
"""What 2,000 irregular nodes may take."""
MOST_DOWNSETS = 20_000
MOST_EXACT_S = 0.2
"""What a window of so many downsets may take."""
EXACT_SIZES = ((20, 6), (30, 4), (30, 6), (40, 3))
LOOPS = {
    "short": (4.0, 4.0, 0.0),
    "even": (18.0, 18.0, 0.0),
    "apart": (2.0, 35.0, 0.0),
    "traded": (10.0, 30.0, 0.5),
}
"""Microseconds of a launch from and to, times a power of a kernel's nodes: shorter than kernels, as
long, unlike each other, and longer where fused, so that launches trade against device times.
"""


@pytest.mark.parametrize(("nodes", "width"), SIZES)
@pytest.mark.parametrize("objective", [Additive(), TwoClock()], ids=["graph", "loop"])
@pytest.mark.benchmark(group="fusion", timer=process_time)
def test_bounded_search(benchmark, nodes, width, objective):
    problem = irregular(nodes, width)
    found = benchmark.pedantic(bounded_search, (problem, objective), rounds=3)
    benchmark.extra_info["gap_percent"] = 100 * found.gap_s / found.total.time_s
    assert benchmark.stats.stats.min < MOST_S


@pytest.mark.parametrize(("nodes", "width"), EXACT_SIZES)
@pytest.mark.benchmark(group="fusion-exact", timer=process_time)
def test_exact_search_of_a_captured_graph(benchmark, nodes, width):
    """All downsets are counted by a loop's search; a graph's looks at few of them."""
    problem = irregular(nodes, width)
    try:
        looser = explore(problem, order_free=False, max_states=MOST_DOWNSETS)
    except SearchTooLarge:
        pytest.skip("more downsets than the search is exact for")
    (graph,) = looser.graphs["whole", None].values()
    benchmark.extra_info["downsets"] = len(graph.arcs) + 1
    benchmark.pedantic(search, (problem, Additive()), rounds=3)
    assert benchmark.stats.stats.min < MOST_EXACT_S


@pytest.mark.parametrize(("nodes", "width"), EXACT_SIZES)
@pytest.mark.parametrize("launches", LOOPS)
@pytest.mark.benchmark(group="fusion-exact", timer=process_time)
def test_exact_search_of_a_launch_loop(benchmark, nodes, width, launches):
    """Finding the downsets counts."""
    problem, rng = irregular(nodes, width), Random(nodes)
    least, most, power = LOOPS[launches]
    prices = [
        Price(0, rng.uniform(least, most) * len(each.nodes) ** power * 1e-6, each.price.device_s)
        for each in problem.candidates
    ]
    benchmark.pedantic(search, (problem, TwoClock(), None, prices), rounds=3)
    (graph,) = explore(problem, order_free=False).graphs["whole", None].values()
    benchmark.extra_info["downsets"] = len(graph.arcs) + 1
    assert benchmark.stats.stats.min < MOST_EXACT_S
