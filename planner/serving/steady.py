"""Closed-loop serving in steady state, from a handful of steps.

Each of c users sends its next request when the last one is answered. A request of i prompt and o
output tokens passes through its prefill and o − 1 decode steps. By Little's law X requests per
second finish where c = X · (waiting + TTFT + (o − 1) · TPOT), and X · (o − 1) · TPOT sequences
decode at once. How often a step also holds prompt tokens follows from X: every request brings i of
them, and a step takes so many as its token budget allows. The three equations are solved by
iteration, each time on real steps of the plan.

Where prompts and running sequences share a step, a token costs the mean step. Where prompts go
first, in steps of their own, running sequences wait for them, and a token costs a decode step and
its share of the prefill steps.

Whether lengths vary matters. Where they do, users drift apart, and prompts arrive like a Poisson
stream. Where all requests are alike, as in most benchmarks, those whose prompts shared a step end
together and come back together: prompts stay in groups that fill a step, and the groups follow each
other.

Where steps shared with prompts are all full, prompts wait and not tokens: as many sequences decode
as come out of full steps.

Left out: evictions when KV runs out, and that users keep in step for a while although their lengths
vary.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from planner.num import ceil_div
from planner.plan.speculation import yielded
from planner.serving.clock import Beat, Clock, Prompts, Tick
from planner.serving.room import Room
from planner.serving.types import ClosedLoop

_ROUNDS = 4
_CLOSE = 0.005
"""Rounds end when the rate of requests changes by less."""
_MOST_LOAD = 0.95
"""Of the queue of prompts: a closed loop keeps it finite, however full its steps are."""


@dataclass(frozen=True)
class Mixture:
    """The steps of one replica, and how often each comes."""

    decode: Tick
    prefill: Tick
    """With the decoding sequences in it where ``mixed``."""
    decoding: int
    beside: int
    """Of them in a step with prompts."""
    prompts: Prompts
    """In a step that holds any."""
    chunks: int
    """Steps that one prompt takes."""
    prefills: float
    """Steps with prompts for each decode step; where both are one, of all steps."""
    stalls: float
    """Steps with prompts that a sequence meets between two of its own; where ``mixed``, of its
    own."""
    ahead: float
    """Steps with prompts that come before those of a request."""
    running: float
    """Other steps that a request waits for."""
    mixed: bool

    @property
    def prefill_share(self) -> float:
        """Steps with prompts, of all steps."""
        return min(1.0, self.prefills) if self.mixed else self.prefills / (1 + self.prefills)

    def step_s(self, decode_s: float, prefill_s: float) -> float:
        """Time between two steps that decode the same sequence."""
        if not self.mixed:
            return decode_s + self.stalls * prefill_s
        return (1 - self.stalls) * decode_s + self.stalls * prefill_s


@dataclass(frozen=True)
class Steady:
    """Steady state of one replica. Times in seconds."""

    mixture: Mixture
    step_s: float
    """Between two steps that decode the same sequence."""
    yields: float
    """Tokens that each gives it: one without speculation."""
    wait_s: float
    """Until a request finds room."""
    first_s: float
    """From then to the first token."""
    requests_per_s: float

    @property
    def ttft_s(self) -> float:
        """From the send to the first token."""
        return self.wait_s + self.first_s

    @property
    def tpot_s(self) -> float:
        """Between two tokens after the first."""
        return self.step_s / self.yields


def steady(clock: Clock, asked: ClosedLoop, users: int, room: Room) -> Steady:
    """The steady state of one replica with so many users. ``room`` is for one sequence at least."""
    places = min(users, room.sequences)
    found = _state(clock, asked, places, users, places)
    for _ in range(_ROUNDS):
        steps = (asked.output - 1) / found.yields
        decoding = found.requests_per_s * steps * found.step_s
        again = _state(clock, asked, max(1, min(places, round(decoding))), users, places)
        close = math.isclose(again.requests_per_s, found.requests_per_s, rel_tol=_CLOSE)
        found = again
        if close:
            break
    return found


def fresh(asked: ClosedLoop) -> int:
    """Prompt tokens that the prefix cache does not hold: one at least."""
    return max(1, round(asked.input * (1 - asked.cached)))


def _state(clock: Clock, asked: ClosedLoop, decoding: int, users: int, places: int) -> Steady:
    """The state that follows when so many sequences decode at once."""
    speculation = clock.prepared.question.deployment.speculation
    yields = yielded(speculation) if speculation else 1.0
    steps = (asked.output - 1) / yields
    full = _full(clock, asked, steps)
    mixture = _mixture(clock, asked, (min(decoding, _whole(full)), places), steps)
    step_s = mixture.step_s(mixture.decode.time_s, mixture.prefill.time_s)
    first_s = first_token_s(clock, asked, mixture, step_s, mixture.prefill.time_s)
    # no more prompts come out of full steps than make up for the sequences that end
    first_s = max(first_s, (places / full - 1) * steps * step_s)
    requests_per_s = places / (first_s + steps * step_s)
    wait_s = (users - places) / requests_per_s
    return Steady(mixture, step_s, yields, wait_s, first_s, requests_per_s)


def _full(clock: Clock, asked: ClosedLoop, steps: float) -> float:
    """The most sequences that decode at once where every step is full of prompts beside them;
    fewer than one where a prompt takes more steps than its output.
    """
    rules, tokens = clock.scheduler, fresh(asked)
    if not rules.mixed or not steps:
        return math.inf
    taken = steps if rules.counts == "all" else 0.0
    if rules.chunked:
        return rules.tokens * steps / (tokens + taken)
    return max(1.0, steps * max(1, int(rules.tokens / (tokens + taken))))


def _whole(full: float) -> int:
    return max(1, int(min(full, sys.maxsize)))


def _mixture(clock: Clock, asked: ClosedLoop, sequences: tuple[int, int], steps: float) -> Mixture:
    """The steps of so many sequences that decode, on average, of so many in the engine."""
    now, places = sequences
    decoding = now
    each, mixed = max(steps, 1.0), clock.scheduler.mixed and steps > 0
    context = asked.input + int(ceil_div(asked.output, 2))
    full = _full(clock, asked, steps)
    if asked.in_step:
        decoding = min(places, _whole(full))
    chunks, prompts, prefills = _prefill(clock, asked, decoding, each)
    packed = mixed and clock.scheduler.chunked and (prefills > 1 or places > full)
    if packed:
        decoding = now
        chunks, prompts, prefills = _packed(clock, asked, decoding, each)
    beside = decoding if mixed else 0
    if asked.in_step:  # those whose prompts they are do not decode meanwhile
        beside = max(0, beside - prompts.count)
    decode, prefill = clock.ticks(Beat(decoding, context), Beat(beside, context, prompts))
    if places > 1 and not mixed:
        prefill = clock.following(prefill, decode)
    running = 0.0 if places == 1 else _unseen(clock)
    held = 0.0 if places == 1 else _held_back(clock, asked, decoding, each)
    if asked.in_step:
        met, ahead = _follow(clock, asked, max(1.0, decoding / prompts.count), decode.time_s)
        stalls = prefills if packed else met * chunks / each
        ahead, running = ahead * chunks, held
    else:
        load = min(prefills if mixed else prefills / (1 + prefills), _MOST_LOAD)
        stalls, ahead = prefills, load / (2 * (1 - load)) * chunks
        running += _mean_wait(held, decoding / each)
    if places > full:
        prefills = stalls = 1.0
    stalls = min(1.0, stalls) if mixed else stalls
    rest = (chunks, prefills, stalls, ahead, running, mixed)
    return Mixture(decode, prefill, decoding, beside, prompts, *rest)


def _unseen(clock: Clock) -> float:
    """Steps from a request's arrival at a busy scheduler to the step that its prompt can be in."""
    return clock.scheduler.poll_steps / 2 + (1 if clock.scheduler.asynchronous else 0)


def _held_back(clock: Clock, asked: ClosedLoop, decoding: int, steps: float) -> float:
    """Decode steps that the first of some prompts waits for others: until a step holds enough
    tokens, or no longer.
    """
    rules, tokens = clock.scheduler, fresh(asked)
    if not rules.hold_steps:
        return 0.0
    wanted = ceil_div(max(0.0, rules.hold_share * rules.tokens - decoding), tokens) - 1
    if asked.in_step:  # nobody else comes while they wait, and where all come nothing decodes
        others = min(decoding, prompt_budget(clock, decoding) // tokens) - 1
        return float(rules.hold_steps if others < min(wanted, decoding - 1) else 0)
    return float(min(rules.hold_steps, wanted * steps / decoding)) if wanted > 0 else 0.0


def _mean_wait(held: float, arriving: float) -> float:
    """Of the first prompt, which waits for all of it, and of those that come meanwhile."""
    return held * (1 + arriving * held / 2) / (1 + arriving * held)


def _follow(clock: Clock, asked: ClosedLoop, count: float, decode_s: float) -> tuple[float, float]:
    """Of so many groups that follow each other: prompts of other groups that a sequence meets
    while it decodes, and that it waits for before its own.

    Groups began one step after another, so they end one step after another. Until the first one's
    prompts are back in the engine ``back`` groups have ended, and wait for each other. The others
    end beside the prompts of those before them. Where prompts come first nothing decodes until all
    prompts are done, so that all groups come to end together.
    """
    back = count
    if clock.scheduler.mixed:
        front = clock.host.arrival_s(fresh(asked)) / decode_s
        back = min(count, 0.5 + front + _unseen(clock))
    late = count - back
    met = (back * count - back * (back + 1) / 2 + late**2) / count
    ahead = (back * (back - 1) / 2 + late * (back - 1)) / count
    return met, ahead


def _prefill(
    clock: Clock, asked: ClosedLoop, decoding: int, steps: float
) -> tuple[int, Prompts, float]:
    """Steps that one prompt takes, the prompts of such a step, and how many of them there are for
    each decode step.
    """
    scheduler, tokens = clock.scheduler, fresh(asked)
    arriving, cached = decoding / steps, asked.input - tokens
    room = prompt_budget(clock, decoding)
    if tokens > room and scheduler.chunked:
        chunks = int(ceil_div(tokens, room))
        size = int(ceil_div(tokens, chunks))
        return chunks, Prompts(1, size, cached + (tokens - size) // 2), arriving * chunks
    together = max(1, room // tokens)
    if asked.in_step:
        count = min(decoding, together)
    else:  # of steps in which any arrive, as they come
        held = _held_back(clock, asked, decoding, steps)
        seen = arriving * scheduler.poll_steps  # at once, by a scheduler that looks seldom
        alone = 1 + arriving * held if held else seen / -math.expm1(-seen)
        count = max(1, min(together, round(alone)))
    return 1, Prompts(count, tokens, cached), arriving / count


def _packed(
    clock: Clock, asked: ClosedLoop, decoding: int, steps: float
) -> tuple[int, Prompts, float]:
    """The same where more prompts come than one to a step, so that some wait: a step takes what
    its budget allows of them, and cuts the last.
    """
    tokens, room = fresh(asked), prompt_budget(clock, decoding)
    count = int(ceil_div(room, tokens))
    size = room // count
    before = asked.input - tokens + (tokens - size) // 2
    share = decoding / steps * tokens / room
    return int(ceil_div(tokens, room)), Prompts(count, size, before), min(1.0, share)


def prompt_budget(clock: Clock, decoding: int) -> int:
    """Prompt tokens that a step has room for beside its decoding sequences."""
    scheduler = clock.scheduler
    taken = decoding if scheduler.counts == "all" and scheduler.mixed else 0
    return max(1, scheduler.tokens - taken)


def first_token_s(
    clock: Clock, asked: ClosedLoop, mixture: Mixture, step_s: float, prefill_s: float
) -> float:
    """From a send to the first token: front end, the step that runs, prompts ahead, its own.

    Prompts ahead as in a queue with constant service (Pollaczek-Khinchine) where users drift apart;
    of users in step those of groups that ended before. An asynchronous scheduler has put together
    the next step already when a request arrives.
    """
    prompts_s = (mixture.ahead + mixture.chunks) * prefill_s
    return clock.host.arrival_s(fresh(asked)) + mixture.running * step_s + prompts_s
