"""Runs of a known number of requests: they begin with all users at once.

Those prompts wait for each other. The first to arrive finds the engine idle, which starts it alone;
meanwhile all others arrive. Of these half come first on average, in steps as full as the engine
makes them, and sequences that decode already wait along. From the second request of each user on
the steady state is taken to hold.
"""

from __future__ import annotations

from dataclasses import replace

from planner.num import ceil_div
from planner.serving.clock import Clock, Prompts
from planner.serving.room import Room
from planner.serving.state import Steady
from planner.serving.steady import fresh, prompt_budget
from planner.serving.types import ClosedLoop


def begun_together(
    clock: Clock, asked: ClosedLoop, users: int, room: Room, found: Steady
) -> Steady:
    """The means of a run: of the first request of each user, and of all others in steady state."""
    assert asked.requests
    places = found.places(users, room)
    sent = min(1.0, asked.concurrency / asked.requests)
    share = sent * places / users
    one_s, rest_s = _all_prompts_s(clock, asked, 1), _all_prompts_s(clock, asked, places - 1)
    steps = (asked.output - 1) / found.yields
    first_s = clock.host.arrival_s(fresh(asked)) + one_s + rest_s / 2
    alone = found.mixture.decode.time_s
    step_s = alone + (one_s + rest_s) / 2 / steps if steps else found.step_s
    # who finds no room at first waits for half of those before, on average
    waits = (1 - sent) + sent * max(0, users - places) / users / 2
    run = replace(
        found,
        step_s=share * step_s + (1 - share) * found.step_s,
        first_s=share * first_s + (1 - share) * found.first_s,
        wait_s=found.wait_s * waits,
    )
    pace = found.inside_s(asked.output) / run.inside_s(asked.output)
    return replace(run, requests_per_s=found.requests_per_s * pace)


def _all_prompts_s(clock: Clock, asked: ClosedLoop, places: int) -> float:
    """Steps that hold the prompts of all places, as full as they may be, nothing else in them."""
    tokens = fresh(asked)
    cached, room = asked.input - tokens, prompt_budget(clock, 0)
    if tokens > room and clock.scheduler.chunked:
        chunks = int(ceil_div(tokens, room))
        size = int(ceil_div(tokens, chunks))
        middle = Prompts(1, size, cached + (tokens - size) // 2)
        return places * chunks * clock.tick(0, 0, middle).time_s
    together = max(1, min(places, room // tokens))
    return places / together * clock.tick(0, 0, Prompts(together, tokens, cached)).time_s
