"""KV caches that run out, followed by hand, and the laws that hold for any of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.serving.replay import Cache, Replay
from planner.serving.turnover import turnover


def test_the_last_to_begin_goes_and_is_computed_again():
    """Two sequences of 10 + 10 tokens in a cache of 30: after 5 steps they hold 15 each, and the
    second goes. It comes back when the first is done, after 9 steps, with its 15 tokens and one
    more that they give. With it comes a third, of 10: after 2 steps 18 + 12 tokens are there, and
    the third goes, to come back with 13. The second is done a step later.
    """
    replay = Replay(Cache("prompt", 30, 10, 10, 2))
    replay.play(1)
    assert (replay.now, replay.evictions, replay.again) == (9, 1, 16)
    replay.play(2)
    assert (replay.now, replay.evictions, replay.again) == (12, 2, 16 + 13)


def test_an_estimate_keeps_others_out():
    """The first is to generate 9 more, of which 0.7 is kept: 10 + 6.3 for it, 10 + 9 for the second
    are 35.3 tokens. The estimate falls by 0.001 a step, and the first one's tokens are there: 16 +
    3 · 0.694 + 19 are no less, until it is done after 9 steps.
    """
    narrow, wide = (Replay(Cache("estimate", tokens, 10, 10, 2)) for tokens in (35, 36))
    for each in (narrow, wide):
        each.play(1)
        assert each.now == 9
    assert (narrow.begun, wide.begun) == (1, 2)


def test_sequences_that_end_one_by_one_are_as_old_as_not():
    """Of 200 + 100 tokens, alike: 250 are held on average, so that 32 · 250 tokens run 32."""
    cache = Cache("prompt", 8_000, 200, 100, 100)
    assert cache.holds == 32
    # of mean 100, even between 20 and 180: long ones are found more often, (20² + 20 · 180 + 180²)
    # / 3 / 2 / 100 = 60.7 tokens are there
    spread = Cache("prompt", 8_000, 200, 100, 100, spread=1 - 20 / 180)
    assert spread.holds == pytest.approx(8_000 / (200 + 60.667), rel=1e-4)


def test_a_cache_that_holds_all_at_their_longest_has_no_turnover():
    assert turnover(Cache("prompt", 3_000, 200, 100, 10)) is None
    assert turnover(Cache("prompt", 3_000, 200, 100, 11)) is not None
    # the longest of spread ones has 300 / 0.9 tokens
    assert not Cache("prompt", 3_333, 200, 100, 10, spread=0.2).enough
    assert Cache("prompt", 3_334, 200, 100, 10, spread=0.2).enough
    # an engine that keeps whole requests out evicts none
    assert turnover(Cache("whole", 3_000, 200, 100, 100)) is None


def test_more_that_wait_change_nothing_for_those_that_run():
    few, more = (turnover(Cache("prompt", 8_000, 200, 100, n)) for n in (200, 2_000))
    assert few == more


def test_longer_prompts_are_evicted_less_and_estimates_evict_less():
    def evicted(rule, prompt, output):
        return turnover(Cache(rule, 32 * (prompt + output // 2), prompt, output, 100)).evictions

    often = [evicted("prompt", prompt, 256) for prompt in (64, 256, 1024, 4096)]
    assert often == sorted(often, reverse=True)
    assert evicted("estimate", 256, 256) < evicted("prompt", 256, 256) / 2


CACHES = st.builds(
    lambda rule, holds, prompt, output, pressure, spread: Cache(
        rule,
        round(holds * (prompt + output / 2)) + prompt + 2 * output,
        prompt,
        output,
        max(1, round(holds * pressure)),
        spread,
    ),
    st.sampled_from(["prompt", "estimate"]),
    st.floats(1.0, 12.0),
    st.integers(20, 600),
    st.integers(20, 200),
    st.floats(0.5, 4.0),
    st.sampled_from([0.0, 0.2, 0.8]),
)


@settings(max_examples=many(20, 500), deadline=None)
@given(CACHES)
def test_any_cache_keeps_the_laws(cache):
    found = Replay(cache).turned()
    assert 0 < found.kv_share <= 1 + 1e-9
    assert 0 <= found.out < 1
    assert found.away >= 0
    if cache.enough:
        assert (found.out, found.evictions, found.again) == (pytest.approx(0), 0, 0)
    # what is computed again is a prompt at least, and a whole request at most
    shortest = int(round(cache.prompt * cache.longest) * (1 - cache.spread))
    longest = (cache.prompt + cache.output) * cache.longest + 1
    assert found.evictions * shortest <= found.again <= found.evictions * (longest + 1)
    if not cache.spread:
        # each token is generated once, so that ages are even
        running = cache.sequences * (1 - found.out)
        assert found.kv_share * cache.holds == pytest.approx(running, rel=0.1)
