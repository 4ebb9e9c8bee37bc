"""The steady state where KV runs out, against its own laws and against a run of requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from serving_samples import Steps, server
from test_steady import PROMPTS_FIRST, WIDE, Made

from planner.serving.burst import begun_together
from planner.serving.crowded import served
from planner.serving.events import play
from planner.serving.room import Room, room
from planner.serving.steady import steady
from planner.serving.types import ClosedLoop, Demand, Lengths

ESTIMATING = replace(PROMPTS_FIRST, admission="estimate")


def crowded(users, prompt, output, *, tokens=8_000, rules=None, **more):
    """A machine whose step takes 10 ms, and 0.01 ms more for each prompt token in it."""
    clock = Made(**({"scheduler": rules} if rules else {}))
    asked = ClosedLoop(users, prompt, output, **more)
    return served(clock, asked, users, room(clock.scheduler, tokens, prompt, output))


def test_where_all_fit_nothing_changes():
    """10 · 300 tokens are there for 10 users; in 2,400 some of them have to wait."""
    asked = ClosedLoop(10, 200, 100)
    for tokens, same in ((3_000, True), (2_400, False)):
        places = Room(256, "sequences", tokens)
        found = served(Made(), asked, 10, places)
        assert (found == steady(Made(), asked, 10, places)) is same
        assert (found.crowd is None) is same


@pytest.mark.parametrize("rules", [None, ESTIMATING], ids=["mixed", "prompts first"])
@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_users_are_in_flight_at_the_rate_of_requests_times_how_long_each_takes(rules, spread):
    found = crowded(100, 200, 100, rules=rules, spread=spread)
    latency_s = found.ttft_s + 99 * found.tpot_s
    assert found.requests_per_s * latency_s == pytest.approx(100)
    assert found.crowd.running < 100
    # tokens out of the cache come on top of those of steps
    turned = found.crowd.turnover
    away_s = turned.away * 0.010 + turned.evictions / 99 * found.mixture.prefill.time_s
    assert found.tpot_s == pytest.approx(found.step_s + away_s)


def test_engines_that_let_in_what_they_can_finish_are_left_alone():
    whole = replace(Made().scheduler, admission="whole", preemption="none")
    assert crowded(100, 200, 100, rules=whole).crowd is None


def test_ever_more_behind_them_do_not_lengthen_a_request():
    """Without the queue before them: nobody waits, and as many are in flight as rate and time say."""
    found = crowded(32, 200, 100, endless=True)
    assert found.wait_s == 0
    assert found.requests_per_s == pytest.approx(crowded(1_000, 200, 100).requests_per_s, rel=0.02)


@pytest.mark.parametrize("users", [40, 100])
@pytest.mark.parametrize("spread", [0.0, 0.2])
@pytest.mark.parametrize("rules", [Made().scheduler, ESTIMATING], ids=["prompt", "estimate"])
@pytest.mark.parametrize(("prompt", "output"), [(64, 256), (256, 128)])
def test_a_run_of_requests_sees_the_same(prompt, output, rules, spread, users):
    """The longest of spread lengths is 1 / (1 - 0.1) of their mean."""
    tokens = 24 * (prompt + output // 2)
    longest = 1 / (1 - spread / 2)
    lengths = Lengths(round(prompt * longest), round(output * longest), spread)
    times = Steps(lambda _, prompts: 0.010 + 1e-5 * prompts.tokens)
    replica = replace_rules(server(times, tokens), rules)
    run = play(Demand(lengths, users=users, requests=200), (replica,), 1)
    tpot_s = sum(each.tpot_s for each in run.counted) / len(run.counted)
    latency_s = sum(each.latency_s for each in run.counted) / len(run.counted)
    found = crowded(users, prompt, output, tokens=tokens, rules=rules, spread=spread)
    assert found.crowd is not None
    assert found.tpot_s == pytest.approx(tpot_s, rel=0.08)
    assert users / found.requests_per_s == pytest.approx(latency_s, rel=0.07)


def replace_rules(replica, rules):
    """The same server under other rules."""
    return replace(replica, rules=rules)


def test_who_finds_no_room_in_a_counted_run_waits_for_half_of_those_before():
    """16 requests sent at once, 4 places: 12 wait, the last of them for all others, half of that
    on average; and 4 do not wait. In steady state everybody waits for 12 others.
    """
    asked = ClosedLoop(16, 1000, 101, requests=16)
    narrow = Room(4, "kv", 10**6)
    found = steady(Made(), asked, 16, narrow)
    run = begun_together(Made(), asked, 16, narrow, found)
    assert run.wait_s == pytest.approx(12 / found.requests_per_s * 12 / 16 / 2)
    # with room for all nobody does
    found = steady(Made(), asked, 16, WIDE)
    assert begun_together(Made(), asked, 16, WIDE, found).wait_s == 0
