"""How long prompts wait for each other, against queues that are known and against arithmetic."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.waits import Queue, Steps


def queue(others=9, arriving=1.0, share=1.0, away=20.0):
    return Queue(others, arriving, share, away)


def test_nobody_waits_alone():
    """No other's prompt is there, however they are served."""
    alone = queue(0, 0.0)
    assert (
        alone.ahead(mixed=True)
        == alone.ahead(mixed=False)
        == alone.gathered_s(Steps(1, 0.0, 0.01, 0.01, 0.01, False))
        == 0
    )


def test_few_prompts_wait_as_in_an_open_queue():
    """A million others, each back after two million steps: half of all steps are taken, and of
    Pollaczek and Khinchine 0.5 / (2 · 0.5) of a service, here of 3 steps.
    """
    assert queue(10**6, share=3.0, away=6e6).ahead(mixed=True) == pytest.approx(1.5, rel=1e-4)


def test_many_prompts_wait_for_all_that_do_not_fit():
    """1,000 others whose prompts take half a step each take 500; 100 of them they are away."""
    assert queue(1_000, share=0.5, away=100).ahead(mixed=True) == pytest.approx(400, rel=0.002)


@given(st.integers(1, 2_000), st.floats(0.01, 20), st.floats(1, 2_000))
def test_a_prompt_finds_what_the_others_send(others, share, away):
    """They send others / (away + w) prompts a step, each of which is there for w and its own."""
    w = Queue(others, 1.0, share, away).ahead(mixed=True)
    assert 0 <= w <= (others + 0.5) * share
    sent = others / (away + w)
    assert math.isclose(w, sent * share * (w + share / 2), rel_tol=1e-6, abs_tol=1e-9)
    assert Queue(others + 1, 1.0, share, away).ahead(mixed=True) >= w


def test_prompts_that_go_first_wait_for_half_of_those_of_one_step():
    """Three others of two steps each: six steps, half of them before. Nine of a tenth fit with
    one's own in one step; 29 take 2.9, of which one's own leaves room for 0.9 in its step: 2 / 2.
    """
    assert queue(arriving=3, share=2.0).ahead(mixed=False) == 3
    assert queue(arriving=9, share=0.1).ahead(mixed=False) == 0
    assert queue(arriving=29, share=0.1).ahead(mixed=False) == pytest.approx(1)


def test_a_step_of_many_prompts_is_found_by_many():
    """2.5 others end with one and share its step: 3.5 prompts, half a prompt of 8 ms more than
    three. Of thirds of a step two others fit, of a prompt of two steps none.
    """

    def steps(count):
        return Steps(count, 0.9, 0.030, 0.030, 0.008, open=False)

    assert queue(arriving=2.5, share=0.1).gathered_s(steps(3)) == pytest.approx(0.004)
    assert queue(arriving=2.5, share=1 / 3).gathered_s(steps(2)) == pytest.approx(0.008)
    assert queue(arriving=2.5, share=2.0).gathered_s(steps(1)) == 0


def test_prompts_that_come_in_time_find_long_steps():
    """Half of the time of steps goes to prompts, 10 ms each and one a step of 20 ms: lengths vary
    by 0.01 · 0.5 · 0.02 / (1 - 0.25) = 0.000133, so that 0.02 + 0.00667 are found, and
    1.333 prompts come meanwhile.
    """
    steps = Steps(2, 0.5, 0.020, 0.020, 0.010, open=True)
    assert steps.found_s(100) == pytest.approx(0.020 + 1 / 150)
    longer_s = 1 / 300 + 0.010 * (1 + 4 / 3 - 2)
    assert queue(arriving=1.0, share=0.01).gathered_s(steps) == pytest.approx(longer_s)
    # of no more than one prompt a step they vary by (10 ms / 2)² at most
    assert steps.found_s(1) == pytest.approx(0.020 + 0.000025 / 0.020)
