"""What users see of a deployment in a closed loop: the steady state of a replica, for all of them.

Intervals: what the GPU takes is as far off as the plan's steps are; host times of the catalogue
are of rented servers, and half or twice as long elsewhere. Both add as squares, and to them what
whole runs of others scatter beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from planner.errors import SpecError
from planner.num import ceil_div
from planner.plan.interval import ENOUGH_RUNS, spread_width, widened
from planner.plan.prepare import prepare
from planner.plan.serving_types import Range, ServingPlan, StepKind
from planner.serving.burst import begun_together
from planner.serving.clock import Clock, Tick
from planner.serving.crowded import served
from planner.serving.drain import served_share
from planner.serving.room import Room, room
from planner.serving.setup import Setup, setup
from planner.serving.state import Mixture, Steady
from planner.serving.steady import first_token_s
from planner.serving.types import ClosedLoop
from planner.spec.question import Question
from planner.spec.types import Workload

_HOST = 2.0
"""How many times faster or slower another host is, at 80 %."""
Device = Callable[[Tick], float | None]


@dataclass(frozen=True)
class Replica:
    """One replica of a deployment under a load."""

    clock: Clock
    room: Room
    users: int
    state: Steady

    @property
    def running(self) -> int:
        """Sequences in the engine at once."""
        return self.state.places(self.users, self.room)

    def kv_share(self, asked: ClosedLoop) -> float:
        """Of the KV cache that is in use."""
        if self.state.crowd:
            return self.state.crowd.turnover.kv_share
        return self.room.share(self.running, asked.input + asked.output / 2)


def closed_loop(workload: Workload, sizes: tuple[int, int, int] | None = None) -> ClosedLoop:
    """The users of a workload, with requests of mean length; one for a rate of requests.

    ``sizes`` are users, input and output where they are not the workload's own.
    """
    users, prompt, output = sizes or (workload.concurrency, workload.input, workload.output)
    mean = 1 - (workload.spread or 0.0) / 2
    return ClosedLoop(
        min(users or 1, workload.requests or users or 1),
        max(1, round(prompt * mean)),
        max(1, round(output * mean)),
        workload.spread or 0.0,
        workload.cached or 0.0,
        workload.requests,
    )


def serve(question: Question) -> ServingPlan:
    """The serving of a deployment's closed-loop workload.

    Raises SpecError where not one request of its lengths fits the KV cache, UsageError for an
    engine that serves no requests.
    """
    assert question.deployment.workload is not None
    return serve_loop(question, closed_loop(question.deployment.workload))


def serve_loop(question: Question, asked: ClosedLoop) -> ServingPlan:
    """The same for any closed loop."""
    return serve_on(setup(prepare(question), asked.input + asked.output), asked)


def serve_on(found: Setup, asked: ClosedLoop) -> ServingPlan:
    """The same on replicas that are ready. Raises SpecError as `serve`."""
    parallel = found.clock.prepared.question.deployment.parallel
    replica = _replica(found, asked, int(ceil_div(asked.concurrency, parallel.data)))
    return _plan(replica, asked, parallel.data, parallel.replica)


def _replica(found: Setup, asked: ClosedLoop, users: int) -> Replica:
    clock, pool = found.clock, found.pool_tokens
    places = room(clock.scheduler, pool, asked.input, asked.output)
    if places.sequences < 1:
        origin = clock.prepared.question.deployment.origin.at("workload")
        message = (
            f"not one request of {asked.input + asked.output:,} tokens fits: room for {pool:,}"
        )
        raise SpecError([origin.fault(message, "more GPUs, or a narrower KV cache")])
    state = served(clock, asked, users, places)
    if asked.requests:
        state = begun_together(clock, asked, users, places, state)
    return Replica(clock, places, users, state)


def _plan(replica: Replica, asked: ClosedLoop, replicas: int, gpus: int) -> ServingPlan:
    state, running = replica.state, replica.running
    later = asked.output - 1
    tpot, ttft = _ranges(replica, asked)
    # a whole request is as far off as its tokens: waiting is as long as others take
    pace = _pace(replica)
    latency = _scattered(_line(ttft, tpot, later), pace)
    tpot, ttft = _scattered(tpot, pace), _scattered(ttft, _first(replica))
    taken = min(replicas, asked.concurrency / replica.users)  # users may not divide evenly
    rate = taken * _rate_of(replica, asked, latency) * _served_share(replica, asked, replicas)
    output = _rate(rate * asked.output, latency)
    return ServingPlan(
        asked.concurrency,
        asked.input,
        asked.output,
        ttft,
        tpot,
        latency,
        output,
        rate * (asked.input + asked.output),
        output.value / (gpus * replicas),
        1 / tpot.value if tpot.value else 0.0,
        rate,
        running,
        replica.users - running,
        replica.room.sequences,
        replica.kv_share(asked),
        _device_share(state.mixture),
        *_kinds(state.mixture),
        _limit(replica),
        evictions=state.crowd.turnover.evictions if state.crowd else 0.0,
        again_tokens=state.crowd.turnover.again if state.crowd else 0.0,
    )


def _ranges(replica: Replica, asked: ClosedLoop) -> tuple[Range, Range]:
    """TPOT and TTFT with the intervals of kernels and host."""
    state = replica.state
    low = _widths(replica, asked, _low, 1 / _HOST)
    high = _widths(replica, asked, _high, _HOST)
    tpot = _range(state.tpot_s, low and low[0], high and high[0])
    ttft = _range(state.ttft_s, low and low[1], high and high[1])
    return (tpot if asked.output > 1 else Range(0.0, 0.0, 0.0)), ttft


def _pace(replica: Replica) -> float:
    """What whole runs scatter; nothing more where there are enough of this machine's own."""
    prepared = replica.clock.prepared
    runs = prepared.adjusted.runs
    if runs and runs.count >= ENOUGH_RUNS:
        return 0.0
    return spread_width(prepared.question, "pace")


def _first(replica: Replica) -> float:
    """The same of first tokens, whatever is known of steps."""
    return spread_width(replica.clock.prepared.question, "ttft")


def _scattered(each: Range, width: float) -> Range:
    """A figure whose interval holds what whole runs scatter too."""
    if each.low is None or each.high is None or not each.value:
        return each
    low, high = widened(each.value, each.low, each.high, width)
    return Range(each.value, float(low), float(high))


def _widths(
    replica: Replica, asked: ClosedLoop, device: Device, host: float
) -> tuple[float, float] | None:
    """How far time between tokens and to the first one lie from their values on one side, as shares
    of them; None where nothing tells how far the device is off.
    """
    base = _times(replica, asked, _value, 1.0)
    moved = _times(replica, asked, device, 1.0)
    elsewhere = _times(replica, asked, _value, host)
    if base is None or moved is None or elsewhere is None:
        return None
    step, first = (
        math.hypot(a / b - 1, c / b - 1) for a, b, c in zip(moved, base, elsewhere, strict=True)
    )
    return step, first


def _times(
    replica: Replica, asked: ClosedLoop, device: Device, host: float
) -> tuple[float, float] | None:
    """Time between steps and to the first token with other times of devices and host."""
    mixture, clock = replica.state.mixture, replica.clock
    ticks = [(device(tick), tick.host_s * host) for tick in (mixture.decode, mixture.prefill)]
    walls = [clock.wall_s(time_s, host_s) for time_s, host_s in ticks if time_s is not None]
    if len(walls) < len(ticks):
        return None
    return mixture.step_s(*walls), first_token_s(clock, asked, mixture, *walls)


def _value(tick: Tick) -> float | None:
    return tick.device_s


def _low(tick: Tick) -> float | None:
    return tick.low_s


def _high(tick: Tick) -> float | None:
    return tick.high_s


def _range(value: float, down: float | None, up: float | None) -> Range:
    if down is None or up is None:
        return Range(value)
    return Range(value, value * max(0.0, 1 - down), value * (1 + up))


def _line(first: Range, each: Range, times: float) -> Range:
    """``first`` + ``times`` · ``each``: what is wrong with one is wrong with both."""
    low, high = (
        None if a is None or b is None else a + times * b
        for a, b in ((first.low, each.low), (first.high, each.high))
    )
    return Range(first.value + times * each.value, low, high)


def _rate(per_s: float, latency: Range) -> Range:
    """A rate that is inverse to a time."""
    low, high = (
        None if bound is None or not bound else per_s * latency.value / bound
        for bound in (latency.high, latency.low)
    )
    return Range(per_s, low, high)


def _rate_of(replica: Replica, asked: ClosedLoop, latency: Range) -> float:
    """Requests that a replica serves in a second, while all its places are taken."""
    if asked.requests and replica.running < replica.users:  # of which a share is sent at once
        return replica.state.requests_per_s
    return replica.users / latency.value


def _served_share(replica: Replica, asked: ClosedLoop, replicas: int) -> float:
    """Of a counted run, what its end leaves of the places' time; all of one without end."""
    if asked.requests is None or asked.output < 2:  # noqa: PLR2004 - no token after the first
        return 1.0
    state, context = replica.state, asked.input + asked.output // 2
    # those that begin together bring their prompts into the last round too, and fewer of them
    full_s = state.mixture.decode.time_s if asked.spread else state.step_s
    alone = min(1.0, replica.clock.tick(1, context).time_s / full_s)
    each = max(1, round(asked.requests / replicas))
    return served_share(each, replica.running, asked.spread, alone)


def _device_share(mixture: Mixture) -> float:
    """Of the time between two steps that the GPUs compute."""
    wall_s = mixture.step_s(mixture.decode.time_s, mixture.prefill.time_s)
    return mixture.step_s(mixture.decode.device_s, mixture.prefill.device_s) / wall_s


def _kinds(mixture: Mixture) -> tuple[StepKind, StepKind]:
    share = mixture.prefill_share
    return (
        _kind(mixture.decode, mixture.decoding, 0, 1 - share),
        _kind(mixture.prefill, mixture.beside, mixture.prompts.total, share),
    )


def _kind(tick: Tick, sequences: int, prompt_tokens: int, share: float) -> StepKind:
    return StepKind(sequences, prompt_tokens, share, tick.device_s, tick.host_s, tick.time_s)


def _limit(replica: Replica) -> str:
    """What keeps a replica from more requests a second."""
    mixture = replica.state.mixture
    if replica.running < replica.users:
        full = replica.running >= replica.room.sequences
        return replica.room.by if full or not replica.state.crowd else "kv"
    if mixture.prefill_share >= 1:
        return "prefill"
    return "host" if mixture.decode.host_s > mixture.decode.device_s else "users"
