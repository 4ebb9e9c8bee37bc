"""Closed loops in steady state, against arithmetic on steps of known length."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.scheduler import HostCosts, Scheduler
from planner.serving.burst import begun_together
from planner.serving.clock import NONE, Clock, DeviceTime, Tick
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

    def device(self, beat):
        time_s = 0.010 + 1e-5 * beat.prompts.total
        return DeviceTime(time_s, time_s, time_s)


def test_one_user_waits_for_its_own_steps_alone():
    """1,000 prompt tokens: 20 ms; 101 tokens: 100 decode steps of 10 ms that nobody disturbs, and
    when its prompt comes no step is running.
    """
    found = steady(Made(), ClosedLoop(1, 1000, 101), 1, WIDE)
    assert found.tpot_s == pytest.approx(0.010)
    assert found.first_s == pytest.approx(0.020)
    assert found.requests_per_s == pytest.approx(1 / (0.020 + 100 * 0.010))


def test_users_in_step_fill_steps_with_their_prompts():
    """32 users, 2,048 tokens a step: room for 2,016 beside them, two prompts of 1,000.

    16 groups follow each other, each back in the step after its end, as nothing delays it: a
    sequence meets the prompts of the 15 others: 0.85 · 10 + 0.15 · 30 = 13 ms a token.
    """
    found = steady(Made(), ClosedLoop(32, 1000, 101), 32, WIDE)
    assert found.mixture.prompts.count == 2
    assert found.mixture.decoding == 32
    assert found.tpot_s == pytest.approx(0.013)


def test_groups_that_come_back_late_wait_for_each_other():
    """4 users with a prompt a step each, of 2,000 tokens: 30 ms. The front end takes 15 ms, a step
    and a half, and half a step runs: when the first prompt starts 0.5 + 1.5 + 0.5 = 2.5 groups have
    ended. Met: (2.5 · 4 - 2.5 · 3.5 / 2 + 1.5²) / 4 = 1.96875 of 100 steps. Ahead: (2.5 · 1.5 / 2 +
    1.5 · 1.5) / 4 = 1.03125.
    """
    clock = Made(host=replace(HOST, request_s=0.015))
    found = steady(clock, ClosedLoop(4, 2000, 101), 4, WIDE)
    assert found.tpot_s == pytest.approx(0.010 + 0.0196875 * 0.020)
    assert found.first_s == pytest.approx(0.015 + 2.03125 * 0.030)


def test_prompts_wait_where_every_step_is_full_of_them():
    """Prompts of 2,000, outputs of 101: a full step of 2,048 tokens holds D sequences and what makes
    up for those that end, 2,000 · D / 100: D = 2,048 / 21 = 97.5. The step takes 10 ms and 19.51 for
    the 1,951 tokens beside 97. Of 200 users the others wait for their prompts: 200 / 97.5 - 1 as
    long as a request decodes.
    """
    for spread in (0.0, 0.2):
        found = steady(Made(), ClosedLoop(200, 2000, 101, spread=spread), 200, WIDE)
        assert found.mixture.decoding == 97
        assert found.tpot_s == pytest.approx(0.02951)
        assert found.first_s == pytest.approx((200 * 21 / 2048 - 1) * 100 * 0.02951)


def test_more_prompts_than_whole_ones_fit_are_cut_and_fill_some_steps():
    """36 users, prompts of 1,500, outputs of 31: were all of them decoding, 36 / 30 = 1.2 prompts
    would come in a step, and one fits whole. A step with prompts takes all of its 2,048 tokens, in
    10 ms and 0.01 a token, so that at most 2,048 / 30.48 ms are computed.
    """
    found = steady(Made(), ClosedLoop(36, 1500, 31), 36, WIDE)
    tokens = 2048 - found.mixture.decoding
    assert found.mixture.prompts.total == pytest.approx(tokens, abs=1)
    share = found.mixture.decoding / 30 * 1500 / tokens
    assert found.mixture.prefill_share == pytest.approx(share)
    assert found.tpot_s == pytest.approx(0.010 + share * 1e-5 * tokens, rel=1e-3)
    assert found.requests_per_s * 1500 < 2048 / 0.03048


@given(st.integers(1, 300), st.integers(10, 9000), st.integers(2, 300), st.sampled_from([0.0, 0.2]))
def test_no_more_prompt_tokens_come_through_than_full_steps_take(users, prompt, output, spread):
    """Up to what the cut of a prompt to whole tokens, and of sequences to whole ones, gives away."""
    found = steady(Made(), ClosedLoop(users, prompt, output, spread=spread), users, WIDE)
    assert found.requests_per_s * prompt < 1.1 * 2048 / 0.03048


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
    assert found.tpot_s == pytest.approx(0.01045)
    assert found.first_s == pytest.approx(2.5 * 0.030)


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
    """Outputs of 2 tokens: each decode step brings as many prompts of 2,000 as sequences end."""
    found = steady(Made(), ClosedLoop(8, 2000, 2), 8, WIDE)
    assert found.mixture.prefill_share == 1
    assert found.tpot_s == pytest.approx(found.mixture.prefills * found.mixture.prefill.time_s)


def test_answers_of_one_token_wait_for_all_prompts():
    """Two prompts of 1,000 a step of 30 ms: 40 users take 20 of them, whether they drift or not;
    drifted ones are of 900 tokens, two to a step of 28 ms.
    """
    assert steady(Made(), ClosedLoop(40, 1000, 1), 40, WIDE).first_s == pytest.approx(0.600)
    drifted = steady(Made(), ClosedLoop(40, 900, 1, spread=0.2), 40, WIDE)
    assert drifted.first_s == pytest.approx(0.560)
    assert drifted.requests_per_s == pytest.approx(40 / 0.560)


def test_a_user_alone_is_not_stalled_by_its_own_prompt():
    """Lengths that vary change nothing for it: 1,000 tokens in 20 ms, then 10 ms a token."""
    for rules in (MIXING, PROMPTS_FIRST):
        found = steady(Made(scheduler=rules), ClosedLoop(1, 1000, 3, spread=0.5), 1, WIDE)
        assert (found.first_s, found.tpot_s) == pytest.approx((0.020, 0.010))


def test_a_user_alone_decodes_alone_however_long_its_prompt():
    """6,000 tokens in three steps of 2,000 before its first token; then nothing but 10 ms."""
    found = steady(Made(), ClosedLoop(1, 6000, 2), 1, WIDE)
    assert (found.first_s, found.tpot_s) == pytest.approx((0.090, 0.010))


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
    """Every 30 steps: half of that on average, instead of half a step, where others run. Of prompts
    of 1,600 tokens one fits a step of 2,048, however many have come.
    """
    asked = ClosedLoop(8, 1600, 101, spread=0.2)
    often = steady(Made(), asked, 8, WIDE)
    seldom = steady(Made(scheduler=replace(MIXING, poll_steps=30)), asked, 8, WIDE)
    assert (often.mixture.running, seldom.mixture.running) == (0.5, 15)
    assert seldom.first_s - often.first_s == pytest.approx(14.5 * seldom.step_s, rel=0.01)


def test_an_engine_that_polls_seldom_takes_prompts_together():
    """Nearly 80 sequences of 1,000 steps send 0.08 prompts a step, 2.4 between two looks: of looks
    that see any, 2.4 / (1 − e^−2.4) = 2.64, that is three. So steps with prompts are a third as
    many as where every step looks, and sees 1.04.
    """
    asked = ClosedLoop(80, 500, 1001, spread=0.2)
    often = steady(Made(scheduler=PROMPTS_FIRST), asked, 80, WIDE).mixture
    seldom = steady(Made(scheduler=replace(PROMPTS_FIRST, poll_steps=30)), asked, 80, WIDE).mixture
    assert (often.prompts.count, seldom.prompts.count) == (1, 3)
    assert often.prefills == pytest.approx(often.decoding / 1000)
    assert seldom.prefills == pytest.approx(seldom.decoding / 1000 / 3)


def test_prompts_that_wait_for_others_come_together():
    """0.9 of 2,048 tokens are two prompts of 1,000. With d sequences of 100 steps the second comes
    after 100 / d steps, and one of two waits as long, the other not: of three quarters on average,
    for others that come meanwhile wait half of it, (1 + 1 / 2) / (1 + 1).
    """
    asked = ClosedLoop(8, 1000, 101, spread=0.2)
    gathering = replace(MIXING, hold_steps=30, hold_share=0.9)
    found = steady(Made(scheduler=gathering), asked, 8, WIDE).mixture
    assert found.prompts.count == 2
    assert found.running == pytest.approx(0.5 + 0.75 * 100 / found.decoding)
    # at most five steps: 5 · (1 + 5 d / 200) / (1 + 5 d / 100) of them
    soon = steady(Made(scheduler=replace(gathering, hold_steps=5)), asked, 8, WIDE).mixture
    each = 5 * soon.decoding / 100
    assert soon.running == pytest.approx(0.5 + 5 * (1 + each / 2) / (1 + each))
    # users in step come together: two prompts are there, and one user is alone
    alike = ClosedLoop(8, 1000, 101)
    assert steady(Made(scheduler=gathering), alike, 8, WIDE).mixture.running == 0
    assert steady(Made(scheduler=gathering), asked, 1, WIDE).mixture.running == 0


def test_a_short_run_is_partly_its_beginning():
    """4 users, 8 requests: half of them begin at once. The first prompt of 1,000 takes a step of
    20 ms by itself, while the others arrive; of these two come to a step of 30 ms, 45 ms for three.
    On average 20 + 45 / 2 = 42.5 ms until the first token.
    """
    asked = ClosedLoop(4, 1000, 101, requests=8)
    clock = Made()
    found = steady(clock, asked, 4, WIDE)
    run = begun_together(clock, asked, 4, WIDE, found)
    assert run.first_s == pytest.approx(0.5 * 0.0425 + 0.5 * found.first_s)


def test_an_asynchronous_host_launches_prompts_while_sequences_decode():
    """Of a step of 30 ms the GPU waits for launches 18. They begin while a step of 10 ms decodes,
    4 of which the loop takes: 6 ms sooner, 24 ms and 0.5 exposed. After one of 40 ms nothing is
    left to wait for: 12 ms.
    """
    host = replace(HOST, exposed_s=0.0005)
    clock = Made(scheduler=replace(PROMPTS_FIRST, asynchronous=True), host=host)
    prompts = Tick(0.030, 0.027, None, 0.001, 0.0305, 0.018)
    decode = Tick(0.010, None, None, 0.004, 0.0105)
    found = clock.following(prompts, decode)
    assert (found.device_s, found.low_s) == pytest.approx((0.024, 0.021))
    assert (found.high_s, found.starved_s) == (None, pytest.approx(0.012))
    assert found.time_s == pytest.approx(0.0245)
    assert clock.following(prompts, replace(decode, device_s=0.040)).device_s == pytest.approx(
        0.012
    )
    assert Made(scheduler=PROMPTS_FIRST).following(prompts, decode) is prompts


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
