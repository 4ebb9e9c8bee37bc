"""The end of a counted run, by hand and against runs that are played."""

from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.serving.drain import served_share


def test_requests_that_are_all_alike_end_together():
    """Thirty on ten places are three full rounds; 25 are three of which half of one is idle. Where
    a sequence alone takes 0.4 of a full step, that round takes 0.4 and half of 0.6.
    """
    assert served_share(30, 10, 0.0, 1.0) == served_share(30, 10, 0.0, 0.4) == 1.0
    assert served_share(25, 10, 0.0, 1.0) == pytest.approx(2.5 / 3)
    assert served_share(25, 10, 0.0, 0.4) == pytest.approx(2.5 / 2.7)


def test_one_round_lasts_as_long_as_its_longest_request():
    """Lengths between nought and one are half of that on average, and the longest of 99 is 0.99.
    Twice as fast alone: half of 0.99, and half of the time that all places would take together.
    """
    assert served_share(99, 99, 1.0, 1.0) == pytest.approx(0.5 / 0.99)
    assert served_share(99, 99, 1.0, 0.5) == pytest.approx(0.5 / (0.495 + 0.25))


def test_many_rounds_lose_two_thirds_of_the_longest_request():
    """Mean 1/2, mean square 1/3, left on average 1/3, at most 1 − √(π/4 / 100) = 0.9114: 5 rounds
    last 2.5 − 0.3333 + 0.9114.
    """
    assert served_share(500, 100, 1.0, 1.0) == pytest.approx(2.5 / 3.0781, rel=1e-4)


def played(requests: int, places: int, spread: float, seed: int) -> float:
    """Busy share of places that take requests of even lengths one after another."""
    draw = random.Random(seed)
    lengths = [1 - spread * draw.random() for _ in range(requests)]
    ends = [0.0] * places
    for length in lengths:
        heapq.heapreplace(ends, ends[0] + length)
    return sum(lengths) / (places * max(ends))


@settings(max_examples=25)
@given(
    rounds=st.integers(3, 12),
    places=st.integers(64, 200),
    spread=st.floats(0.5, 1.0),
    seed=st.integers(0, 1000),
)
def test_the_share_is_that_of_runs_played_request_by_request(rounds, places, spread, seed):
    share = served_share(rounds * places, places, spread, 1.0)
    assert share == pytest.approx(played(rounds * places, places, spread, seed), rel=0.07)


@given(
    requests=st.integers(1, 10_000),
    places=st.integers(1, 1000),
    spread=st.floats(0, 0.999),
    alone=st.floats(0.05, 1),
)
def test_a_share_is_a_share(requests, places, spread, alone):
    assert 0 < served_share(requests, places, spread, alone) <= 1
