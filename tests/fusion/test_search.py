"""The exact fusion search on models small enough to work out by hand."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from planner.fusion.explore import explore
from planner.fusion.objective import Additive, TwoClock
from planner.fusion.search import search
from planner.fusion.types import (
    Block,
    Candidate,
    NoSchedule,
    Price,
    Problem,
    Seam,
    SearchTooLarge,
)

US = 1e-6


def kernel(name: str, nodes: str, device: float, launch: float = 0.0, uncovered: int = 0):
    """A kernel priced in microseconds; ``a b / c`` covers a and b here and c in the next block."""
    here, _, after = nodes.partition("/")
    keys = {(0, n) for n in here.split()} | {(1, n) for n in after.split()}
    return Candidate(name, frozenset(keys), Price(uncovered, launch * US, device * US))


def path_block(kind: str, nodes: str, *kernels: Candidate) -> Block:
    """A block whose nodes follow one another."""
    names = tuple(nodes.split())
    edges = frozenset(pairwise(names))
    return Block(kind, names, edges, kernels)


def layers(times: int, *, price_of_fused: float = 3.0) -> Problem:
    """Layers norm → mlp → add; add may fuse with the next layer's norm."""
    singles = [kernel(n, n, 2, 1) for n in ("norm", "mlp", "add")]
    layer = path_block("layer", "norm mlp add", *singles)
    seam = Seam(
        "layer",
        "layer",
        frozenset({("add", "norm"), ("add", "add")}),
        (kernel("add_norm", "add / norm", price_of_fused, 1),),
    )
    return Problem((("layer", times),), (layer,), (seam,))


def names(schedule) -> list[tuple[str, int, list[str]]]:
    return [
        (run.kind, run.times, [launch.candidate.name for launch in run.launches])
        for run in schedule.runs
    ]


def test_a_fused_kernel_is_taken_when_it_is_cheaper():
    """5 µs for both beats 3 + 3 µs."""
    block = path_block("b", "x y", kernel("x", "x", 3), kernel("y", "y", 3), kernel("xy", "x y", 5))
    schedule = search(Problem((("b", 1),), (block,), ()), Additive())
    assert names(schedule) == [("b", 1, ["xy"])]
    assert schedule.total.time_s == pytest.approx(5 * US, rel=1e-12)


def test_uncovered_nodes_count_before_time():
    """A rule that applies is taken even when the fused kernel is slower."""
    block = path_block(
        "b",
        "x y",
        kernel("x", "x", 1, uncovered=1),
        kernel("y", "y", 1, uncovered=1),
        kernel("xy", "x y", 50),
    )
    schedule = search(Problem((("b", 1),), (block,), ()), Additive())
    assert names(schedule) == [("b", 1, ["xy"])]
    assert schedule.total.uncovered == 0


def test_a_kernel_around_an_outside_node_is_never_taken():
    """x and z cannot fuse while y between them runs outside."""
    block = path_block("b", "x y z", *(kernel(n, n, 3) for n in "xyz"), kernel("xz", "x z", 1))
    schedule = search(Problem((("b", 1),), (block,), ()), Additive())
    assert schedule.total.time_s == pytest.approx(9 * US, rel=1e-12)


def test_residual_adds_fuse_with_the_next_layers_norm():
    """80 layers: 79 seams at 3 µs, one norm, 80 mlps and one add at 2 µs each."""
    schedule = search(layers(80), Additive())
    assert schedule.total.time_s == pytest.approx((79 * 3 + 2 + 80 * 2 + 2) * US, rel=1e-12)
    assert names(schedule) == [
        ("layer", 1, ["norm", "mlp", "add_norm"]),
        ("layer", 78, ["mlp", "add_norm"]),
        ("layer", 1, ["mlp", "add"]),
    ]


def test_equal_layers_are_one_run():
    """Where nothing crosses the seams all 80 layers run alike."""
    schedule = search(layers(80, price_of_fused=9), Additive())
    assert names(schedule) == [("layer", 80, ["norm", "mlp", "add"])]


def test_a_launch_loop_waits_for_the_slower_of_host_and_device():
    """Launches end at 4, 8, 12; kernels of 1, 9, 1 µs end at 5, 17, 18."""
    kernels = [kernel(n, n, d, 4) for n, d in (("x", 1), ("y", 9), ("z", 1))]
    problem = Problem((("b", 1),), (path_block("b", "x y z", *kernels),), ())
    assert search(problem, TwoClock()).total.time_s == pytest.approx(18 * US, rel=1e-12)
    assert search(problem, Additive()).total.time_s == pytest.approx(11 * US, rel=1e-12)
    assert search(problem, Additive(with_launch=True)).total.time_s == pytest.approx(
        (11 + 12) * US, rel=1e-12
    )


def test_a_launch_loop_runs_long_kernels_first():
    """y first ends at 1 + 9 = 10, then x at max(10, 1 + 5) + 1 = 11; x first makes it 15."""
    block = Block("b", ("x", "y"), frozenset(), (kernel("x", "x", 1, 5), kernel("y", "y", 9, 1)))
    schedule = search(Problem((("b", 1),), (block,), ()), TwoClock())
    assert names(schedule) == [("b", 1, ["y", "x"])]
    assert schedule.total.time_s == pytest.approx(11 * US, rel=1e-12)


def test_a_launch_loop_may_prefer_a_slower_fused_kernel():
    """Host-bound: one launch of 5 and 4 µs on the device end at 9; two launches end at 10 + 1."""
    block = path_block(
        "b", "x y", kernel("x", "x", 1, 5), kernel("y", "y", 1, 5), kernel("xy", "x y", 4, 5)
    )
    problem = Problem((("b", 1),), (block,), ())
    assert names(search(problem, TwoClock())) == [("b", 1, ["xy"])]
    assert names(search(problem, Additive())) == [("b", 1, ["x", "y"])]


def test_a_kernel_across_a_seam_may_wait_for_one_of_the_next_block():
    """q of the next block reads p there, so p runs ahead of the fused kernel of x and q."""
    first = Block("a", ("x",), frozenset(), (kernel("x", "x", 9),))
    second = path_block("b", "p q", kernel("p", "p", 1), kernel("q", "q", 9))
    seam = Seam("a", "b", frozenset(), (kernel("xq", "x / q", 2),))
    schedule = search(Problem((("a", 1), ("b", 1)), (first, second), (seam,)), Additive())
    assert names(schedule) == [("a", 1, ["p", "xq"]), ("b", 1, [])]
    assert [launch.ahead for launch in schedule.runs[0].launches] == [True, False]
    assert schedule.total.time_s == pytest.approx(3 * US, rel=1e-12)


class Counting(TwoClock):
    """Counts kernels appended to labels and labels joined across blocks."""

    def __init__(self) -> None:
        object.__setattr__(self, "counts", Counter())

    def join(self, first, second):
        self.counts["kernel" if second[-1] is None else "block"] += 1
        return super().join(first, second)


def test_more_equal_layers_cost_no_more_kernel_steps():
    """32 and 80 layers extend equally many labels by a kernel; block joins grow like a logarithm."""
    counts = {}
    for times in (32, 80, 80 * 2**10):
        objective = Counting()
        search(layers(times), objective)
        counts[times] = objective.counts
    assert counts[32]["kernel"] == counts[80]["kernel"] == counts[80 * 2**10]["kernel"]
    # 16 bits of 81,919 layers before the last against 5 bits of 31
    assert counts[80 * 2**10]["block"] <= 4 * counts[32]["block"]


def test_the_empty_path_changes_nothing():
    """Joining the identity on either side leaves a label's cost as it is."""
    for objective in (Additive(), TwoClock()):
        label = objective.kernel(Price(2, 3 * US, 5 * US), 7)
        for joined in (
            objective.join(objective.identity, label),
            objective.join(label, objective.identity),
        ):
            assert joined[:-2] == label[:-2]


def test_one_space_serves_every_price_of_a_shape():
    """Prices and the number of layers may change without exploring again."""
    space = explore(layers(2), order_free=True)
    for times, price in ((32, 3.0), (80, 9.0)):
        problem = layers(times, price_of_fused=price)
        assert search(problem, Additive(), space) == search(problem, Additive())


def test_a_space_of_another_shape_or_objective_is_refused():
    """Wrong state graphs must not give a wrong answer."""
    space = explore(layers(1), order_free=True)
    with pytest.raises(ValueError, match="another problem"):
        search(layers(2), Additive(), space)
    with pytest.raises(ValueError, match="objective"):
        search(layers(1), TwoClock(), space)


def antichain(count: int) -> Problem:
    nodes = tuple(f"n{i}" for i in range(count))
    singles = tuple(kernel(n, n, 1, 1) for n in nodes)
    return Problem((("wide", 1),), (Block("wide", nodes, frozenset(), singles),), ())


def test_too_many_states_are_refused_by_name_and_count():
    """Sixteen independent nodes have 2^16 downsets, more than 20,000."""
    with pytest.raises(SearchTooLarge, match="window wide → end needs 20001 states") as caught:
        search(antichain(16), TwoClock())
    assert (caught.value.window, caught.value.count, caught.value.limit) == (
        "wide → end",
        20_001,
        20_000,
    )


def test_independent_nodes_are_no_trouble_when_order_is_free():
    """Sixteen kernels of 1 µs add to 16 µs in any order; one order is looked at."""
    assert search(antichain(16), Additive()).total.time_s == pytest.approx(16 * US, rel=1e-12)


def test_a_node_in_no_kernel_is_named():
    """The message says which node of which block."""
    block = path_block("b", "x y", kernel("x", "x", 1))
    with pytest.raises(NoSchedule, match="node y of block b"):
        search(Problem((("b", 1),), (block,), ()), Additive())


def test_a_block_that_only_a_following_block_could_complete_is_named():
    """The last layer has no next one to fuse its add with."""
    problem = layers(3)
    layer = problem.blocks[0]
    problem = replace(problem, blocks=(replace(layer, candidates=layer.candidates[:2]),))
    for objective in (Additive(), TwoClock()):
        with pytest.raises(NoSchedule, match="layer → end"):
            search(problem, objective)


def test_an_infinite_price_rules_a_kernel_out():
    """The fused kernel does not fit, so the two single ones run; without them nothing does."""
    single = [kernel("x", "x", 3, 1), kernel("y", "y", 3, 1)]
    fused = kernel("xy", "x y", math.inf)
    for objective in (Additive(), TwoClock()):
        problem = Problem((("b", 1),), (path_block("b", "x y", *single, fused),), ())
        assert names(search(problem, objective)) == [("b", 1, ["x", "y"])]
        problem = Problem((("b", 1),), (path_block("b", "x y", fused),), ())
        with pytest.raises(NoSchedule, match="cannot run"):
            search(problem, objective)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem((), (), ()), "not a sequence"),
        (replace(layers(1), sequence=(("layer", 0),)), "not a sequence"),
        (replace(layers(2), seams=()), "no seam from layer to layer"),
        (
            Problem((("b", 1),), (path_block("b", "x", kernel("k", "x y", 1)),), ()),
            "candidate k covers",
        ),
        (
            Problem(
                (("b", 1),),
                (Block("b", ("x", "y"), frozenset({("y", "x")}), (kernel("k", "x y", 1),)),),
                (),
            ),
            "y must stand before x",
        ),
        (
            replace(
                layers(2), seams=(Seam("layer", "layer", frozenset(), (kernel("k", "add", 1),)),)
            ),
            "candidate k does not cross",
        ),
    ],
)
def test_malformed_problems_are_bugs_of_the_caller(problem, message):
    """Each is a ValueError that says what is wrong."""
    with pytest.raises(ValueError, match=message):
        search(problem, Additive())


def test_negative_and_undefined_prices_are_refused():
    """A cost model that gives them has a bug."""
    for wrong in (-1.0, math.nan):
        with pytest.raises(ValueError, match="impossible price"):
            Price(0, 0.0, wrong)


@pytest.mark.parametrize(
    ("objective", "first_us"), [(Additive(), 0), (TwoClock(), 1)], ids=["graph", "loop"]
)
def test_prices_may_come_with_the_search(objective, first_us):
    """One problem, explored once, serves fused kernels at 3 us (a norm 2, 80 MLPs 160, 79 fused
    237 and an add 2: 401 us) and at 5 us, where norm and add take 4 (80 · 6 = 480 us). A loop
    begins with a launch of 1 us.
    """
    problem = layers(80)
    space = explore(problem, order_free=objective.order_free)
    for fused, expected in ((3.0, 401), (5.0, 480)):
        prices = [candidate.price for candidate in layers(80, price_of_fused=fused).candidates]
        found = search(problem, objective, space, prices)
        assert found.total.time_s == pytest.approx((expected + first_us) * US)
        assert names(found) == names(search(layers(80, price_of_fused=fused), objective))
