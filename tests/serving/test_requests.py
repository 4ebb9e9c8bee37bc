"""What is drawn: lengths and arrivals; and what is told of many requests."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.percentiles import spread
from planner.serving.requests import drawn, fresh_tokens, gaps
from planner.serving.types import Lengths


def test_lengths_lie_evenly_between_their_ends():
    # whole numbers from 80 to 100: 21 of them, mean 90, variance (21² - 1) / 12
    lengths = Lengths(100, 1000, spread=0.2)
    found = [each.prompt for each in islice(drawn(lengths, np.random.default_rng(1)), 20_000)]
    assert (min(found), max(found)) == (80, 100)
    assert np.mean(found) == pytest.approx(90, rel=0.01)
    assert np.var(found) == pytest.approx((21**2 - 1) / 12, rel=0.03)
    assert lengths.mean == pytest.approx(0.9)


def test_requests_all_alike_need_no_chance():
    found = list(islice(drawn(Lengths(100, 7), np.random.default_rng(1)), 3))
    assert [(each.number, each.prompt, each.output) for each in found] == [
        (0, 100, 7),
        (1, 100, 7),
        (2, 100, 7),
    ]


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gaps_have_the_rate_s_mean_and_the_shape_s_variance(burstiness):
    # gamma of shape k and mean m has variance m² / k
    found = list(islice(gaps(4.0, burstiness, np.random.default_rng(2)), 50_000))
    assert np.mean(found) == pytest.approx(0.25, rel=0.03)
    assert np.var(found) == pytest.approx(0.25**2 / burstiness, rel=0.06)


def test_a_prompt_computes_one_token_at_least():
    assert (fresh_tokens(1000, 0.9), fresh_tokens(10, 0.99)) == (100, 1)


def test_percentiles_lie_between_neighbours():
    # 0 … 999: the place of P50 is 0.5 · 999
    found = spread([float(each) for each in range(1000)])
    assert (found.mean_s, found.p50_s) == (499.5, 499.5)
    assert found.p95_s == pytest.approx(949.05)
    assert found.p99_s == pytest.approx(989.01)


@pytest.mark.parametrize(("many", "told"), [(9, 0), (10, 1), (99, 1), (100, 2), (499, 2), (500, 3)])
def test_a_percentile_is_told_where_five_requests_lie_beyond_it(many, told):
    found = spread([1.0] * many)
    assert sum(each is not None for each in (found.p50_s, found.p95_s, found.p99_s)) == told


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_percentiles_are_in_order(times):
    found = spread(times * 500)
    assert min(times) <= found.p50_s <= found.p95_s <= found.p99_s <= max(times)


def test_of_nothing_nothing_is_told():
    assert spread([]).mean_s == 0
