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

Whether lengths vary matters. Where they do, users drift apart, and prompts wait for each other as
in a queue (`planner.serving.waits`). Where all requests are alike, as in most benchmarks, those
whose prompts shared a step end together and come back together: prompts stay in groups that fill a
step, and the groups follow each other.

Where steps shared with prompts are all full, prompts wait and not tokens: as many sequences decode
as come out of full steps.

Left out: a KV cache that runs out (`planner.serving.crowded`), and that users keep in step for a
while although their lengths vary.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

from planner.num import ceil_div
from planner.plan.speculation import yielded
from planner.serving.clock import Beat, Clock, Prompts
from planner.serving.room import Room
from planner.serving.state import Mixture, Steady
from planner.serving.types import ClosedLoop
from planner.serving.waits import Queue, Steps

_ROUNDS = 4
_CLOSE = 0.005
"""Rounds end when the rate of requests changes by less."""


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


def middle(asked: ClosedLoop) -> int:
    """Keys that a sequence attends to halfway through its output."""
    return asked.input + int(ceil_div(asked.output, 2))


def _state(clock: Clock, asked: ClosedLoop, decoding: int, users: int, places: int) -> Steady:
    """The state that follows when so many sequences decode at once."""
    speculation = clock.prepared.question.deployment.speculation
    yields = yielded(speculation) if speculation else 1.0
    steps = (asked.output - 1) / yields
    full = fullest(clock, asked, steps)
    sequences = min(decoding, whole(full)), places
    mixture = mixture_of(clock, asked, sequences, steps, middle(asked))
    step_s = mixture.step_s(mixture.decode.time_s, mixture.prefill.time_s)
    first_s = first_token_s(clock, asked, mixture, mixture.decode.time_s, mixture.prefill.time_s)
    # no more prompts come out of full steps than make up for the sequences that end
    first_s = max(first_s, (places / full - 1) * steps * step_s)
    if not steps:  # nor without tokens after the first, where all users wait for prompts
        taken = places / mixture.prompts.count * mixture.chunks
        first_s = max(first_s, taken * mixture.prefill.time_s)
    requests_per_s = places / (first_s + steps * step_s)
    wait_s = (users - places) / requests_per_s
    return Steady(mixture, step_s, yields, wait_s, first_s, requests_per_s)


def fullest(clock: Clock, asked: ClosedLoop, steps: float) -> float:
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


def whole(full: float) -> int:
    """Sequences of `fullest`, one at least."""
    return max(1, int(min(full, sys.maxsize)))


def mixture_of(
    clock: Clock, asked: ClosedLoop, sequences: tuple[int, int], steps: float, context: int
) -> Mixture:
    """The steps of so many sequences that decode, on average, of so many in the engine.

    Each attends to ``context`` keys, and a prompt of the loop comes for so many of its steps.
    """
    now, places = sequences
    decoding = now if steps else places
    each, mixed = max(steps, 1.0), clock.scheduler.mixed and steps > 0
    full = fullest(clock, asked, steps)
    if asked.in_step:
        decoding = min(places, whole(full))
    chunks, prompts, prefills = _prefill(clock, asked, decoding, each)
    packed = mixed and clock.scheduler.chunked and (prefills > 1 or places > full) and places > 1
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
        stalls, ahead = prefills, 0.0
        running += _mean_wait(held, decoding / each)
    if places > full:
        prefills = stalls = 1.0
    stalls = min(1.0, stalls) if mixed else stalls
    stalls = 0.0 if places == 1 else stalls  # its own prompt does not stall it
    rest = (chunks, prefills, stalls, ahead, running, mixed)
    found = Mixture(decode, prefill, decoding, beside, prompts, *rest)
    return found if asked.in_step else _queued(clock, asked, sequences, each, found)


def _queued(
    clock: Clock, asked: ClosedLoop, sequences: tuple[int, int], steps: float, found: Mixture
) -> Mixture:
    """The same with the prompts of users that drift apart before one's own."""
    (now, places), alone = sequences, asked.output == 1
    room, tokens = prompt_budget(clock, 0 if alone else now), fresh(asked)
    share = tokens / room if clock.scheduler.chunked else 1 / max(1, room // tokens)
    late = found.running + clock.host.arrival_s(tokens) / found.decode.time_s + found.chunks
    queue = Queue(places - 1, min(places - 1, now / steps), share, steps + late)
    if alone:  # users wait for all others (`_state`), and what comes as it comes in a queue
        return replace(found, ahead=queue.ahead(mixed=True) if asked.drifted else 0.0, running=0.0)
    longer_s = queue.gathered_s(_steps(asked, found))
    return replace(found, ahead=queue.ahead(mixed=found.mixed) + longer_s / found.prefill.time_s)


def _steps(asked: ClosedLoop, found: Mixture) -> Steps:
    """The steps of users that drift apart."""
    decode_s, prefill_s, count = found.decode.time_s, found.prefill.time_s, found.prompts.count
    share = min(1.0, found.prefills) if found.mixed else found.prefills
    gap_s = (1 - share if found.mixed else 1) * decode_s + share * prefill_s
    mean_s = gap_s if found.mixed else gap_s / (1 + share)
    each_s = max(0.0, prefill_s - decode_s) / count
    return Steps(count, share, mean_s, gap_s, each_s, asked.drifted)


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
    room = prompt_budget(clock, decoding if asked.output > 1 else 0)
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
        alone = max(alone, math.ceil(arriving), asked.together)  # one step holds all that come
        count = max(1, min(together, decoding, round(alone)))
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
    clock: Clock, asked: ClosedLoop, mixture: Mixture, decode_s: float, prefill_s: float
) -> float:
    """From a send to the first token: front end, the step that runs, prompts ahead, its own.

    Prompts ahead are those of `planner.serving.waits` where users drift apart; of users in step
    those of groups that ended before. An asynchronous scheduler has put together the next step
    already when a request arrives.
    """
    prompts_s = (mixture.ahead + mixture.chunks) * prefill_s
    running_s = mixture.running * mixture.mean_s(decode_s, prefill_s)
    return clock.host.arrival_s(fresh(asked)) + running_s + prompts_s
