"""An open loop in steady state: requests come at a rate, whatever became of those before.

By Little's law a rate keeps as many requests in flight as rate times latency. A closed loop of so
many users sends at just that rate, so its steady state is taken for the open loop's: the mean of
what an event run shows, without the queues that form when requests happen to come together.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from planner.plan.prepare import prepare
from planner.plan.serving_types import Range, ServingPlan
from planner.serving.closed import closed_loop, serve_on
from planner.serving.crowded import served
from planner.serving.room import Room, room
from planner.serving.setup import Setup, setup
from planner.serving.state import Steady
from planner.serving.types import ClosedLoop
from planner.spec.question import Question


def serve_rate(question: Question) -> ServingPlan:
    """The serving of a deployment's open-loop workload.

    Beyond saturation there is no steady state: figures are of full replicas, without the queue that
    grows before them. Raises as `planner.serving.closed.serve`.
    """
    workload = question.deployment.workload
    assert workload is not None
    assert workload.rate is not None
    asked = replace(closed_loop(workload), requests=None, drifted=True)
    found = setup(prepare(question), asked.input + asked.output)
    return at_rate(found, asked, workload.rate)


def at_rate(found: Setup, asked: ClosedLoop, rate_per_s: float) -> ServingPlan:
    """Requests of such lengths that come to ready replicas at a rate over all of them."""
    replicas = found.clock.prepared.question.deployment.parallel.data
    users, most = in_flight(found, asked, rate_per_s / replicas)
    swamped = rate_per_s >= most * replicas
    served = serve_on(found, replace(asked, concurrency=users * replicas, endless=swamped))
    if swamped and served.limit == "users":
        # more is sent than is served: what keeps it out is what fills every place
        served = replace(served, limit=_room(found, asked).by)
    return _at_rate(served, rate_per_s, most * replicas)


def in_flight(found: Setup, asked: ClosedLoop, rate_per_s: float) -> tuple[int, float]:
    """Requests in flight on a replica at a rate, as many as it has room for at the most; and the
    highest rate that it serves.
    """
    places = _room(found, asked)

    def state(users: int, *, endless: bool = False) -> Steady:
        loop = replace(asked, concurrency=users, endless=endless)
        return served(found.clock, loop, users, places)

    if places.sequences < 1:
        return 1, 0.0
    full = state(places.sequences, endless=True)
    most = full.requests_per_s
    if rate_per_s >= most:
        inside = round(most * full.inside_s(asked.output)) if full.crowd else places.sequences
        return inside, most
    # more users send more: what they send is in order
    users = range(1, places.sequences + 1)
    return 1 + bisect_left(users, rate_per_s, key=lambda each: state(each).requests_per_s), most


def _room(found: Setup, asked: ClosedLoop) -> Room:
    return room(found.clock.scheduler, found.pool_tokens, asked.input, asked.output)


def _at_rate(served: ServingPlan, rate_per_s: float, most_per_s: float) -> ServingPlan:
    """The plan of the closed loop, with the rate that was asked for in place of its own."""
    asked = replace(served, rate_per_s=rate_per_s, saturation_per_s=most_per_s)
    if rate_per_s >= most_per_s:
        return asked
    share = rate_per_s / served.requests_per_s
    return replace(
        asked,
        requests_per_s=rate_per_s,
        output_tokens_per_s=Range(rate_per_s * served.output),
        total_tokens_per_s=rate_per_s * (served.input + served.output),
        output_tokens_per_s_per_gpu=served.output_tokens_per_s_per_gpu * share,
    )
