"""Closed loops in steady state, against arithmetic on steps of known length."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.scheduler import HostCosts, Scheduler
from planner.serving.burst import begun_together
from planner.serving.clock import NONE, Clock, Tick
from planner.serving.room import Room, room
from planner.serving.steady import steady
from planner.serving.types import ClosedLoop

HOST = HostCosts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
MIXING = Scheduler(
    "decode_first", True, True, 2048, "all", 256, True, "prompt", "recompute", False, 1
)
PROMPTS_FIRST = replace(MIXING, order="prefill_first", mixed=False, counts="prompts")
WIDE = Room(256, "sequences", 10**6)


@dataclass(eq=False)
class Made(Clock):
    """A machine whose step takes 10 ms, and 0.01 ms more for each prompt token in it."""

    prepared: object = field(
        default_factory=lambda: SimpleNamespace(
            question=SimpleNamespace(deployment=SimpleNamespace(speculation=None))
        )
    )
    scheduler: Scheduler = MIXING
    host: HostCosts = HOST

    def _tick(self, decoding, context, prompts):
        device_s = 0.010 + 1e-5 * prompts.total
        host_s = self.host.loop_s(decoding, prompts.count)
        return Tick(device_s, device_s, device_s, host_s, self.wall_s(device_s, host_s))


def test_one_user_waits_for_its_own_steps_alone():
    """1,000 prompt tokens: 20 ms; 101 tokens: 100 decode steps of 10 ms and its share of prefills.

    Synchronous, so that it waits half a step for the one that runs; a hundredth of all steps holds
    prompts, 1/100: between tokens lie 0.99 · 10 + 0.01 · 20 = 10.1 ms.
    """
    found = steady(Made(), ClosedLoop(1, 1000, 101), 1, WIDE)
    assert found.tpot_s == pytest.approx(0.0101)
    assert found.first_s == pytest.approx(0.020 + 0.0101 / 2)
    assert found.requests_per_s == pytest.approx(1 / (0.02505 + 100 * 0.0101))


def test_users_in_step_fill_steps_with_their_prompts():
    """32 users, 2,048 tokens a step: room for 2,016 beside them, two prompts of 1,000.

    16 steps of 30 ms with prompts among 100: 0.84 · 10 + 0.16 · 30 = 13.2 ms a token, as long as
    all of them decode; a request is in its prefill a fiftieth of its time.
    """
    found = steady(Made(), ClosedLoop(32, 1000, 101), 32, WIDE)
    assert found.mixture.prompts.count == 2
    assert found.mixture.decoding in {31, 32}
    assert found.tpot_s == pytest.approx(0.0132, rel=0.01)


def test_users_that_drifted_apart_send_prompts_one_by_one():
    """The same with lengths that vary: 0.31 prompts arrive in a step, seldom two at once."""
    found = steady(Made(), ClosedLoop(32, 1000, 101, spread=0.2), 32, WIDE)
    assert found.mixture.prompts.count == 1
    share = found.mixture.decoding / 100
    assert found.mixture.prefill_share == pytest.approx(share)
    assert found.tpot_s == pytest.approx((1 - share) * 0.010 + share * 0.020)


def test_prompts_that_go_first_stall_users_in_step_by_half():
    """8 users, prompts of 1,000 and two to a step: 4 steps of 30 ms come one after another.

    First tokens come after 1 … 4 of them, 2.5 on average; the sequences wait for 1.5 more, over
    100 steps of 10 ms: 10 + 1.5 · 30 / 100 = 10.45 ms a token.
    """
    clock = Made(scheduler=PROMPTS_FIRST)
    found = steady(clock, ClosedLoop(8, 1000, 101), 8, WIDE)
    assert found.mixture.together * 0.030 == pytest.approx(0.12, rel=0.15)
    assert found.tpot_s == pytest.approx(0.01045, rel=0.02)


def test_prompts_that_go_first_stall_others_by_all_of_them():
    """Drifted apart, each of 8 users waits for the prefill of the 7.8 others of its 100 steps."""
    clock = Made(scheduler=PROMPTS_FIRST)
    found = steady(clock, ClosedLoop(8, 1000, 101, spread=0.2), 8, WIDE)
    arriving = found.mixture.decoding / 100
    assert found.tpot_s == pytest.approx(0.010 + arriving * 0.020)


def test_a_long_prompt_is_cut_where_the_engine_cuts():
    """6,000 tokens beside 4 sequences: 2,044 fit, three chunks of 2,000."""
    found = steady(Made(), ClosedLoop(4, 6000, 101, spread=0.2), 4, WIDE)
    assert found.mixture.chunks == 3
    assert found.mixture.prompts.tokens == 2000
    assert found.mixture.prompts.before == 2000  # the middle one


def test_tokens_that_the_prefix_cache_holds_are_not_computed_again():
    """Nine tenths of 1,000 cached: 100 tokens are new, behind 900."""
    found = steady(Made(), ClosedLoop(1, 1000, 101, cached=0.9), 1, WIDE)
    assert (found.mixture.prompts.tokens, found.mixture.prompts.before) == (100, 900)
    assert found.mixture.prefill.time_s == pytest.approx(0.011)


def test_users_without_a_place_wait():
    """16 users, 4 places: each waits for three turns of the four that run."""
    found = steady(Made(), ClosedLoop(16, 1000, 101), 16, Room(4, "kv", 10**4))
    alone = steady(Made(), ClosedLoop(4, 1000, 101), 4, WIDE)
    assert found.requests_per_s == pytest.approx(alone.requests_per_s)
    assert found.wait_s == pytest.approx(12 / found.requests_per_s)


def test_prompts_can_take_all_steps():
    """Outputs of 2 tokens: each decode step brings as many prompts of 2,000 as there are users."""
    found = steady(Made(), ClosedLoop(8, 2000, 2), 8, WIDE)
    assert found.mixture.prefill_share == 1
    assert found.tpot_s == pytest.approx(found.mixture.prefills * found.mixture.prefill.time_s)


def test_a_synchronous_host_adds_up_and_an_asynchronous_one_hides():
    """The loop takes 4 ms beside the GPU's 10: 14 ms, or 10 and the 1 ms that nothing hides."""
    host = replace(HOST, step_s=0.004)
    assert Made(host=host).tick(1, 100).time_s == pytest.approx(0.014)
    hidden = replace(MIXING, asynchronous=True)
    clock = Made(host=replace(host, exposed_s=0.001), scheduler=hidden)
    assert clock.tick(1, 100).time_s == pytest.approx(0.011)
    slow = Made(host=replace(host, step_s=0.025), scheduler=hidden)
    assert slow.tick(1, 100).time_s == pytest.approx(0.025)


def test_an_engine_that_polls_seldom_lets_requests_wait():
    """Every 30 steps of 10.1 ms: half of that on average, 145 ms more than half a step."""
    often = steady(Made(), ClosedLoop(1, 1000, 101), 1, WIDE)
    seldom = Made(scheduler=replace(MIXING, poll_steps=30))
    found = steady(seldom, ClosedLoop(1, 1000, 101), 1, WIDE)
    assert found.first_s - often.first_s == pytest.approx(29 / 2 * 0.0101)


def test_a_short_run_is_partly_its_beginning():
    """4 users, 8 requests: half of them begin at once. Two prompts of 1,000 to a step of 30 ms:
    60 ms for all, 60 · 5 / 8 = 37.5 ms on average until the first token.
    """
    asked = ClosedLoop(4, 1000, 101, requests=8)
    clock = Made()
    found = steady(clock, asked, 4, WIDE)
    run = begun_together(clock, asked, 4, WIDE, found)
    assert run.first_s == pytest.approx(0.5 * 0.0375 + 0.5 * found.first_s)


def test_room_is_the_smaller_of_cache_and_limit():
    """1,000 + 500 / 2 tokens each: 80 in 100,000; an engine that keeps room for all: 66."""
    assert room(MIXING, 100_000, 1000, 500) == Room(80, "kv", 100_000)
    whole = replace(MIXING, admission="whole")
    assert room(whole, 100_000, 1000, 500).sequences == 66
    assert room(MIXING, 10**6, 1000, 500) == Room(256, "sequences", 10**6)
    assert room(MIXING, 100_000, 1000, 500).share(40, 1250) == pytest.approx(0.5)


@given(
    users=st.integers(1, 200),
    prompt=st.integers(1, 6000),
    output=st.integers(2, 2000),
    spread=st.sampled_from([0.0, 0.2]),
    mixed=st.booleans(),
)
def test_little_s_law_holds(users, prompt, output, spread, mixed):
    """Requests that are in flight are the rate at which they finish times how long each takes."""
    clock = Made(scheduler=MIXING if mixed else PROMPTS_FIRST)
    found = steady(clock, ClosedLoop(users, prompt, output, spread=spread), users, WIDE)
    places = min(users, WIDE.sequences)
    each_s = found.first_s + (output - 1) * found.tpot_s
    assert found.requests_per_s * each_s == pytest.approx(places)
    assert found.tpot_s >= 0.010 - 1e-12
    assert found.first_s >= found.mixture.prefill.time_s - 1e-12


def test_nothing_is_no_step():
    with pytest.raises(ValueError, match="a sequence"):
        Made().tick(0, 0, NONE)
