"""Which laps of a lab count, and what is made of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.lab.journal import Point
from planner.lab.laps import drift, pooled, steady


def lap(number, *pace_s, step_s=()):
    """A lap whose two products, bound by cores and by memory, took so long at its start and end."""
    for moment, time_s in zip(("start", "end"), pace_s, strict=True):
        for bound, times in (("compute", 1.0), ("memory", 2.0)):
            sizes = {"moment": moment, "bound": bound}
            yield Point("sentinel", sizes, {"median_s": times * time_s}, number)
    if step_s:
        yield Point("step", {"mode": "eager"}, {"samples_s": list(step_s)}, number)


def test_laps_of_the_pace_that_was_seen_most_count():
    """Two fast laps against three that are a fifth slower: the slower ones are the machine."""
    paces = (1.0, 1.2, 1.21, 1.01, 1.19)
    points = [point for number, pace in enumerate(paces) for point in lap(number, pace, pace)]
    assert steady(points) == {1, 2, 4}
    assert drift(points) == pytest.approx(0.21)


def test_of_as_many_the_faster_count():
    points = [*lap(0, 1.3, 1.3), *lap(1, 1.0, 1.0), *lap(2, 1.3, 1.3), *lap(3, 1.0, 1.0)]
    assert steady(points) == {1, 3}


def test_a_lap_that_changed_its_pace_half_way_counts_for_nothing():
    points = [*lap(0, 1.0, 1.2), *lap(1, 1.0, 1.05), *lap(2, 1.02, 1.0)]
    assert steady(points) == {1, 2}


def test_parts_and_step_are_those_of_the_same_laps():
    """The step's samples of laps 0 and 2 lie together; lap 1 was slower and leaves nothing.

    A part's time is the median of 1.0 and 1.4 us, its count the sum. A part that only the slower
    lap measured is better than none.
    """
    points = [
        *lap(0, 1.0, 1.0, step_s=(0.10, 0.12)),
        *lap(1, 1.3, 1.3, step_s=(0.20, 0.20, 0.20)),
        *lap(2, 1.0, 1.0, step_s=(0.14,)),
        *(Point("gemm", {"rows": 1}, {"median_s": t, "count": 5}, n)
          for n, t in enumerate((1e-6, 9e-6, 1.4e-6))),
        Point("collective", {"bytes": 8}, {"median_s": 7e-6}, 1),
    ]  # fmt: skip
    found = {point.kind: point for point in pooled(points)}
    assert found["step"].values["samples_s"] == [0.10, 0.12, 0.14]
    assert found["step"].values["median_s"] == pytest.approx(0.12)
    assert found["gemm"].values == {"median_s": pytest.approx(1.2e-6), "count": 10}
    assert found["collective"].values == {"median_s": 7e-6}


def test_without_two_laps_of_one_pace_all_are_kept():
    points = [
        *lap(0, 1.0, 1.0, step_s=(0.1,)),
        *lap(1, 1.3, 1.3, step_s=(0.2,)),
        *lap(2, 1.6, 1.6, step_s=(0.3,)),
    ]
    assert len(steady(points)) == 1
    (step,) = (point for point in pooled(points) if point.kind == "step")
    assert step.values["samples_s"] == [0.1, 0.2, 0.3]


def test_nothing_measured_is_nothing_kept():
    assert steady([]) == frozenset()
    assert drift([]) == 0
    assert pooled([]) == ()


@given(st.lists(st.floats(1.0, 2.0), min_size=1, max_size=8))
def test_laps_that_count_are_within_the_two_limits_of_each_other(paces):
    """7 % each way from the lap in their middle: at most 1.07² apart."""
    points = [point for number, pace in enumerate(paces) for point in lap(number, pace, pace)]
    chosen = [paces[number] for number in steady(points)]
    assert chosen
    assert max(chosen) / min(chosen) <= 1.07**2 + 1e-9
