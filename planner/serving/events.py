"""A run of requests, event by event, on SimPy: who sends, who serves, and when each is done."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from planner.errors import UsageError
from planner.serving.pace import Pace
from planner.serving.played import Entry, Played, Transfer
from planner.serving.replica import Replica, Step
from planner.serving.requests import Request, drawn, gaps, recorded
from planner.serving.types import Demand

if TYPE_CHECKING:
    import numpy as np
    import simpy

Flow = Generator["simpy.Event", Any, None]
_WARM_ROUNDS = 2
"""Requests of each user before any is counted."""
_WARM_SHARE = 0.25
"""Of the counted requests of an open loop, as many as come before them."""


def play(
    demand: Demand,
    replicas: tuple[Replica, ...],
    seed: int = 0,
    decoders: tuple[Replica, ...] = (),
    transfer: Transfer | None = None,
) -> Played:
    """Serve a demand; the same seed gives the same run.

    With ``decoders``, prompts are computed by ``replicas`` and handed to them over ``transfer``.
    Raises UsageError where SimPy is not installed.
    """
    try:
        import simpy
    except ModuleNotFoundError:
        hint = "pip install 'inference-planner[serving]'"
        raise UsageError("a run of requests needs SimPy", hint) from None
    import numpy as np

    return _Run(simpy.Environment(), demand, np.random.default_rng(seed), transfer).play(
        replicas, decoders
    )


@dataclass(eq=False)
class _Server:
    """A replica in time."""

    env: simpy.Environment
    replica: Replica
    left: Callable[[_Server, Request], None]
    link: simpy.Resource | None = None
    """What the KV of its prompts crosses, one after the other."""
    log: list[Entry] = field(default_factory=list)
    coming: int = 0
    """Requests on their way to the scheduler."""

    def __post_init__(self) -> None:
        self._pace = Pace()
        self._wake = self.env.event()
        self._seen_s, self._since = self.env.now, 0
        self.env.process(self._serve())

    @property
    def load(self) -> int:
        return self.coming + self.replica.running + len(self.replica.waiting)

    def send(self, request: Request, delay_s: float, *, computed: bool = False) -> None:
        self.coming += 1
        self.env.process(self._arrive(request, delay_s, computed))

    def _arrive(self, request: Request, delay_s: float, computed: bool) -> Flow:
        yield self.env.timeout(delay_s)
        self.coming -= 1
        self.replica.enter(request, self.env.now, computed=computed)
        if not self._wake.triggered:
            self._wake.succeed()

    def _serve(self) -> Flow:
        env, replica = self.env, self.replica
        while True:
            step = replica.next_step(self._seen_s, env.peek() - env.now)
            if step is not None:
                yield from self._run(step)
                self._look(step)
                continue
            if self._seen_s == env.now:
                self._wake = env.event()
                yield self._wake
            self._seen_s, self._since = env.now, 0

    def _look(self, step: Step) -> None:
        """What the scheduler has seen when it forms the next step: what was there at its last look.

        It looks at every step with prompts and at some decode steps; an asynchronous one looks
        while the step before runs.
        """
        rules = self.replica.rules
        decoded = self._since + step.repeats
        if not step.chunks and decoded < rules.poll_steps:
            self._since = decoded
            return
        self._since = 0 if step.chunks else decoded % rules.poll_steps
        ago = self._since + (1 if rules.asynchronous else 0)
        self._seen_s = self.env.now - ago * step.took.wall_s

    def _run(self, step: Step) -> Flow:
        start_s, replica = self.env.now, self.replica
        kv_share = replica.kv_tokens / replica.pool_tokens
        state = (replica.running, len(replica.waiting))
        yield self.env.timeout(step.time_s)
        left = replica.finish(step, self.env.now)
        tokens = step.decoding * step.repeats * replica.yields
        tokens += sum(not seq.todo for seq, _ in step.chunks)
        busy_s = step.repeats * step.took.device_s
        gaps = self._pace.gaps(step, left, self.env.now)
        decoded = None if step.chunks else (step.decoding, step.repeats)
        did = (kv_share, *state, tokens, gaps, decoded)
        self.log.append(Entry(start_s, self.env.now, busy_s, *did))
        for request in left:
            self.left(self, request)


class _Run:
    def __init__(
        self,
        env: simpy.Environment,
        demand: Demand,
        random: np.random.Generator,
        transfer: Transfer | None,
    ) -> None:
        self.env, self.demand, self.random = env, demand, random
        self.transfer = transfer or Transfer(0.0, 0.0)
        self.servers: list[_Server] = []
        self.decoders: list[_Server] = []
        self.done: dict[int, simpy.Event] = {}
        self.counted: list[Request] = []
        self.first, self.last = _counted(demand)
        self.open = self.last - self.first
        self.over = env.event()

    def play(self, replicas: tuple[Replica, ...], decoders: tuple[Replica, ...]) -> Played:
        leave = self._hand_on if decoders else self._leave
        self.servers = [_Server(self.env, each, leave, self._link()) for each in replicas]
        self.decoders = [_Server(self.env, each, self._leave) for each in decoders]
        for flow in self._sources():
            self.env.process(flow)
        self.env.run(until=self.over)
        served = tuple(each for each in self.counted if not each.refused)
        sent = [each.sent_s for each in self.counted]
        ends = max((each.done_s for each in served), default=0.0) if self.demand.whole else sent[-1]
        everyone = [*self.servers, *self.decoders]
        return Played(
            served,
            len(self.counted) - len(served),
            min(sent),
            ends,
            tuple(tuple(each.log) for each in everyone),
            tuple(each.replica.evictions for each in everyone),
        )

    def _sources(self) -> Iterator[Flow]:
        demand = self.demand
        if demand.trace:
            yield self._replay()
        elif demand.per_s:
            yield self._arrivals(demand.per_s)
        else:
            requests = drawn(demand.lengths, self.random)
            for _ in range(demand.users or 1):
                yield self._user(requests)

    def _user(self, requests: Iterator[Request]) -> Flow:
        for request in requests:
            if self.demand.whole and request.number >= self.last:
                return
            if self._apart(request):
                request.output = int(self.random.integers(1, request.output + 1))
            yield self._send(request)

    def _apart(self, request: Request) -> bool:
        """Whether to cut a request, so that users whose lengths vary are apart from the start."""
        varied = self.demand.lengths.spread > 0 and not self.demand.whole
        return varied and request.number < (self.demand.users or 1)

    def _arrivals(self, per_s: float) -> Flow:
        waits = gaps(per_s, self.demand.burstiness, self.random)
        for gap_s, request in zip(waits, drawn(self.demand.lengths, self.random), strict=False):
            if self.demand.whole and request.number >= self.last:
                return
            yield self.env.timeout(gap_s)
            self._send(request)

    def _replay(self) -> Flow:
        for at_s, request in recorded(self.demand.trace, self.demand.lengths.cached):
            yield self.env.timeout(max(0.0, at_s - self.env.now))
            self._send(request)

    def _send(self, request: Request) -> simpy.Event:
        request.sent_s = self.env.now
        if self.first <= request.number < self.last:
            self.counted.append(request)
        done = self.done[request.number] = self.env.event()
        server = _least(self.servers)
        takers = [server, _least(self.decoders)] if self.decoders else [server]
        if all(each.replica.takes(request) for each in takers):
            server.send(request, server.replica.times.arrival_s(request.fresh))
        else:
            request.refused, request.done_s = True, self.env.now
            self._leave(server, request)
        return done

    def _link(self) -> simpy.Resource:
        import simpy

        return simpy.Resource(self.env)

    def _hand_on(self, server: _Server, request: Request) -> None:
        if request.output == 1:
            self._leave(server, request)
        else:
            self.env.process(self._transfer(server, request))

    def _transfer(self, server: _Server, request: Request) -> Flow:
        assert server.link
        with server.link.request() as turn:
            yield turn
            yield self.env.timeout(self.transfer.s_per_token * request.prompt)
        taker = _least(self.decoders)
        taker.send(request, self.transfer.latency_s, computed=True)

    def _leave(self, _: _Server, request: Request) -> None:
        self.done.pop(request.number).succeed()
        self.open -= self.first <= request.number < self.last
        if not self.open and not self.over.triggered:
            self.over.succeed()


def _least(servers: list[_Server]) -> _Server:
    """The one with the fewest requests: where a router sends the next."""
    return min(servers, key=lambda server: server.load)


def _counted(demand: Demand) -> tuple[int, int]:
    """The first request that counts, and the one after the last."""
    if demand.trace:
        return 0, len(demand.trace)
    if demand.whole:
        return 0, demand.requests
    warm = _WARM_ROUNDS * (demand.users or 0) or round(_WARM_SHARE * demand.requests)
    return warm, warm + demand.requests
