"""The event run of a deployment's workload, and its figures beside those of the steady state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from planner.errors import SpecError
from planner.graph.totals import kv_bytes
from planner.plan.load import drafted
from planner.plan.prepare import Prepared, prepare, whole_graph
from planner.plan.serving_types import ServingPlan
from planner.plan.speculation import yielded
from planner.serving.closed import serve
from planner.serving.events import play
from planner.serving.open import serve_rate
from planner.serving.percentiles import Spread, spread
from planner.serving.played import Played, Transfer
from planner.serving.replica import Replica
from planner.serving.room import room
from planner.serving.setup import Setup, setup
from planner.serving.tally import PoolState, gaps, pool_state, tokens_per_s
from planner.serving.timetable import timetable
from planner.serving.types import Demand, Lengths, Sent
from planner.spec.question import Question
from planner.spec.types import Workload

LoopKind = Literal["closed", "open", "trace"]
REQUESTS = 2_000
_MOST_IN_FLIGHT = 1_024
"""On a replica while its saturation is looked for."""
_BACKLOG = 64
_LEAST_CROWD = 500


@dataclass(frozen=True)
class Simulation:
    """An event run."""

    loop: LoopKind
    """Who sends: ``closed``, ``open`` or ``trace``."""
    seed: int
    """Of arrivals and lengths."""
    requests: int
    """Whose times are counted."""
    refused: int
    """Too long for the engine or its KV cache."""
    duration_s: float
    """Simulated time in which they were sent."""
    ttft: Spread
    """Time to first token."""
    tpot: Spread
    """Each request's mean time between tokens."""
    itl: Spread
    """Every wait for a next token by itself, of all sequences: a step with prompts is a long one,
    and most are short. Waits across an eviction or from one pool to another are not among them.
    """
    latency: Spread
    """Of whole requests."""
    requests_per_s: float
    """Over all GPUs, as the two rates of tokens are."""
    output_tokens_per_s: float
    """Tokens handed out."""
    total_tokens_per_s: float
    """Input and output."""
    output_tokens_per_s_per_gpu: float
    """Over all GPUs, shared by them."""
    tokens_per_s_per_user: float
    """1 / mean TPOT."""
    pools: tuple[PoolState, ...]
    """What servers did."""
    saturation_per_s: float | None
    """The most requests a second that can be served, of an open loop."""
    stable: bool
    """Whether the rate asked for is below it."""
    steady: ServingPlan | None
    """The analytic steady state of the same question; None of a trace."""


def simulate(
    question: Question, *, requests: int | None = None, seed: int = 0, trace: tuple[Sent, ...] = ()
) -> Simulation:
    """Run a deployment's requests. Pure: the same question and seed give the same run, to the bit.

    ``requests`` are counted, 2,000 by default or as many as the workload states. ``trace`` holds
    the rows of ``workload.trace``. Raises SpecError for a workload that is no run of requests and
    where none of them fits, UsageError for an engine that serves none and without SimPy.
    """
    sites, demand, played = _played(question, requests, seed, trace)
    most = _saturation(question, sites, demand, seed) if demand.per_s else None
    found = _figures(played, sites, demand, seed, most)
    return replace(found, steady=_steady(question))


def decoded(
    question: Question, *, requests: int | None = None, seed: int = 0, trace: tuple[Sent, ...] = ()
) -> dict[int, int]:
    """The steps of the same run that decode alone, by their sequences, over the counted time.

    Of pools those of the servers that decode. Raises as `simulate` does.
    """
    sites, _, played = _played(question, requests, seed, trace)
    found: dict[int, int] = {}
    for log in played.logs[-sites[-1].count :]:
        for entry in log:
            if entry.decoded and played.start_s < entry.end_s <= played.end_s:
                batch, steps = entry.decoded
                found[batch] = found.get(batch, 0) + steps
    return dict(sorted(found.items()))


def _played(
    question: Question, requests: int | None, seed: int, trace: tuple[Sent, ...]
) -> tuple[tuple[_Site, ...], Demand, Played]:
    workload = question.deployment.workload
    if workload is None or workload.batch is not None:
        place = question.deployment.origin.at("workload" if workload else "step")
        hint = "give workload.concurrency, workload.rate or workload.trace"
        raise SpecError([place.fault("a run needs requests that come and go", hint, key=True)])
    demand = demand_of(workload, requests, trace)
    sites = tuple(_site(prepare(each), demand) for each in question.pools or (question,))
    played = _play(question, sites, demand, seed)
    if not played.counted:
        place = question.deployment.origin.at("workload")
        first = sites[0].setup
        room_for = f"room for {first.pool_tokens:,} tokens, of {first.longest:,} each at most"
        raise SpecError([place.fault(f"not one of these requests fits: {room_for}")])
    return sites, demand, played


def _play(question: Question, sites: tuple[_Site, ...], demand: Demand, seed: int) -> Played:
    pools = question.deployment.pools
    if pools is None:
        return play(demand, sites[0].replicas(), seed)
    prefill, decode = sites
    whole = whole_graph(prefill.setup.clock.prepared)
    token_bytes = kv_bytes(whole, prefill.prompt) / prefill.prompt
    transfer = Transfer(pools.link.latency, token_bytes / pools.link.bandwidth)
    return play(demand, prefill.replicas(hands_on=True), seed, decode.replicas(), transfer)


def demand_of(workload: Workload, requests: int | None, trace: tuple[Sent, ...] = ()) -> Demand:
    """Who sends, by a workload that is no static batch."""
    lengths = Lengths(
        workload.input, workload.output, workload.spread or 0.0, workload.cached or 0.0
    )
    return Demand(
        lengths,
        users=workload.concurrency,
        per_s=workload.rate,
        burstiness=workload.burstiness or 1.0,
        trace=trace,
        requests=requests or workload.requests or REQUESTS,
        whole=bool(workload.requests or trace),
    )


@dataclass(frozen=True)
class _Site:
    """Replicas of one kind, and what they cost in GPUs."""

    setup: Setup
    prompt: float
    """Mean tokens of a prompt."""
    output: float
    count: int
    gpus: int
    """Of each."""

    def replicas(self, *, hands_on: bool = False) -> tuple[Replica, ...]:
        clock = self.setup.clock
        times = timetable(clock, self.prompt, self.output)
        deployment = clock.prepared.question.deployment
        speculation = deployment.speculation
        return tuple(
            Replica(
                clock.scheduler,
                times,
                self.setup.pool_tokens,
                self.setup.longest,
                yielded(speculation) if speculation else 1.0,
                drafted(deployment),
                hands_on,
            )
            for _ in range(self.count)
        )


def _site(prepared: Prepared, demand: Demand) -> _Site:
    lengths, rows = demand.lengths, demand.trace
    if rows:
        prompt = sum(row.prompt for row in rows) / len(rows)
        output = sum(row.output for row in rows) / len(rows)
        longest = max(row.prompt + row.output for row in rows)
    else:
        prompt, output = lengths.prompt * lengths.mean, lengths.output * lengths.mean
        longest = lengths.prompt + lengths.output
    parallel = prepared.question.deployment.parallel
    return _Site(setup(prepared, longest), prompt, output, parallel.data, parallel.replica)


def _steady(question: Question) -> ServingPlan | None:
    workload = question.deployment.workload
    assert workload is not None
    if workload.trace or question.pools:
        return None
    return serve_rate(question) if workload.rate else serve(question)


def _saturation(question: Question, sites: tuple[_Site, ...], demand: Demand, seed: int) -> float:
    """Requests a second while there are always more than fit: no rate beyond it is stable."""
    site = sites[-1]
    clock, pool = site.setup.clock, site.setup.pool_tokens
    places = room(clock.scheduler, pool, round(site.prompt), round(site.output)).sequences
    each = min(_MOST_IN_FLIGHT, max(1, places))
    users = site.count * (each + min(each, _BACKLOG))
    crowd = Demand(demand.lengths, users=users, requests=max(_LEAST_CROWD, 2 * users))
    return tokens_per_s(_play(question, sites, crowd, seed)) / site.output


def _figures(
    played: Played, sites: tuple[_Site, ...], demand: Demand, seed: int, most: float | None
) -> Simulation:
    counted = played.counted
    tpot = spread([each.tpot_s for each in counted if each.output > 1])
    output_per_s = tokens_per_s(played)
    requests_per_s = output_per_s * len(counted) / sum(each.output for each in counted)
    prompt = sum(each.prompt for each in counted) / len(counted)
    pools = tuple(_states(played, sites))
    return Simulation(
        loop="trace" if demand.trace else "open" if demand.per_s else "closed",
        seed=seed,
        requests=len(counted),
        refused=played.refused,
        duration_s=played.duration_s,
        ttft=spread([each.ttft_s for each in counted]),
        tpot=tpot,
        itl=gaps(played),
        latency=spread([each.latency_s for each in counted]),
        requests_per_s=requests_per_s,
        output_tokens_per_s=output_per_s,
        total_tokens_per_s=output_per_s + requests_per_s * prompt,
        output_tokens_per_s_per_gpu=output_per_s / sum(each.gpus for each in pools),
        tokens_per_s_per_user=1 / tpot.mean_s if tpot.mean_s else 0.0,
        pools=pools,
        saturation_per_s=most,
        stable=most is None or demand.per_s is None or demand.per_s < most,
        steady=None,
    )


def _states(played: Played, sites: tuple[_Site, ...]) -> Iterator[PoolState]:
    names = ("prefill", "decode") if len(sites) > 1 else ("all",)
    first = 0
    for name, site in zip(names, sites, strict=True):
        servers = range(first, first + site.count)
        yield pool_state(played, servers, name, site.count * site.gpus)
        first += site.count
