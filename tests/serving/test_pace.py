"""Waits between tokens, followed by hand and by what they must add up to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_samples import served, server, trace

from planner.serving.percentiles import spread, weighted
from planner.serving.tally import gaps


def waits(played):
    """Every wait of the run, the shortest first."""
    log = [gap for entries in played.logs for entry in entries for gap in entry.gaps]
    return sorted(seconds for seconds, count in log for _ in range(count))


def test_each_decode_step_is_a_wait():
    # a prompt at 0-1, then three steps of a second
    assert waits(served(trace((0, 100, 4)), server())) == [1, 1, 1]


def test_a_prompt_that_goes_first_is_a_long_wait_for_those_that_run():
    # prompts at 0-1 and 1-2, both decode at 2-3 and 3-4: the first waits from 1 to 3
    demand = trace((0, 100, 3), (0.5, 100, 3))
    found = served(demand, server(order="prefill_first", mixed=False))
    assert waits(found) == [1, 1, 1, 2]
    # mean 5/4; no percentile, since none has five waits beyond it
    assert gaps(found).mean_s == pytest.approx(1.25)
    assert gaps(found).p50_s is None


REQUESTS = st.lists(
    st.tuples(st.floats(0, 20), st.integers(1, 3000), st.integers(1, 12)), min_size=1, max_size=8
)


@settings(max_examples=30)
@given(REQUESTS, st.booleans(), st.booleans())
def test_waits_are_the_time_from_first_to_last_token(rows, first, asynchronous):
    """Each token but the first ends one; of a request they add up to what it took."""
    order = "prefill_first" if first else "decode_first"
    rules = {"order": order, "mixed": not first, "asynchronous": asynchronous}
    found = served(trace(*sorted(rows)), server(**rules))
    assert len(waits(found)) == sum(each.output - 1 for each in found.counted)
    took = sum(each.done_s - each.first_s for each in found.counted)
    assert sum(waits(found)) == pytest.approx(took)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 200)), min_size=1, max_size=9))
def test_waits_that_happened_often_count_as_often(times):
    """As each of them by itself, but that no value between two is made up."""
    found = weighted([(float(value), count) for value, count in times])
    alone = [float(value) for value, count in times for _ in range(count)]
    assert found.mean_s == pytest.approx(spread(alone).mean_s)
    if found.p95_s is None:
        assert len(alone) < 100
    else:
        assert sum(value <= found.p95_s for value in alone) >= 0.95 * len(alone)
        assert sum(value < found.p95_s for value in alone) < 0.95 * len(alone)


def test_of_no_waits_nothing_is_told():
    assert weighted([]) == spread([])
