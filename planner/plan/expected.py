"""What a plan predicts of each figure that tools measure, and what no machine could beat.

Only like is held against like: ``step`` against the plan's step; ``itl`` and ``tpot`` against it
where it is a decode step; figures of whole requests against a static batch or a closed loop. The
interval of a static batch's figures is that of its step, widened in proportion: it is made of such
steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from planner.plan.runs import UNITS, MetricName
from planner.plan.serving_types import Range, ServingPlan
from planner.plan.types import Plan, WorkloadPlan


@dataclass(frozen=True)
class Expected:
    """One predicted figure, in the metric's unit."""

    metric: MetricName
    value: float
    slowest: float | None
    """Of the 80 % interval, the end that is slow: the larger time, the smaller throughput."""
    fastest: float | None
    bare: float | None
    """By the bare roofline of the decode steps alone; None where it says nothing."""
    sequences: int
    """Requests in flight over all replicas."""


def cost(metric: str, value: float) -> float:
    """A figure as time, so that more is worse: seconds as they are, throughput as its inverse.

    A throughput of nought takes for ever.
    """
    if UNITS[metric] == "s":
        return value
    return 1 / value if value else math.inf


def expected(plan: Plan) -> tuple[Expected, ...]:
    """Every figure the plan predicts."""
    if plan.serving:
        return (*_of_step(plan), *_of_serving(plan, plan.serving))
    return (*_of_step(plan), *(_of_workload(plan, plan.workload) if plan.workload else ()))


def _of_step(plan: Plan) -> Iterator[Expected]:
    step, bare_s = plan.step, plan.totals.roofline_s
    names: list[MetricName] = ["step"]
    if step.kind == "decode":
        names += [] if plan.serving else ["itl"] if plan.workload else ["itl", "tpot"]
    sequences = (step.sequences or 1) * _replicas(plan)
    for name in names:
        share = (
            plan.speculation.tpot_s / step.time_s if plan.speculation and name != "step" else 1.0
        )
        low_s, high_s = (None if end is None else end * share for end in (step.low_s, step.high_s))
        bare = bare_s if name == "step" else _bare_token_s(plan)
        yield Expected(name, step.time_s * share, high_s, low_s, bare, sequences)


def _bare_token_s(plan: Plan) -> float:
    """The bare roofline of a step, over the most tokens that it can give a sequence."""
    drafts = plan.speculation.tokens if plan.speculation else 0
    return plan.totals.roofline_s / (1 + drafts)


def _of_workload(plan: Plan, load: WorkloadPlan) -> Iterator[Expected]:
    # The planned step stands halfway through the output and a step's bytes and FLOPs are affine in
    # the context, so its roofline is the mean over all decode steps; prefill comes on top.
    bare_s = _bare_token_s(plan)
    decode_s = (load.output - 1) * bare_s or None
    tokens = load.batch * load.output
    all_tokens = load.batch * (load.input + load.output)
    if load.output > 1:
        yield _scaled(plan, "tpot", load.tpot_s, bare_s, load.batch)
    yield _scaled(plan, "ttft", load.ttft_s, None, load.batch)
    yield _scaled(plan, "latency", load.latency_s, decode_s, load.batch)
    for name, counted in _counted(tokens, all_tokens):
        bare = counted / decode_s if decode_s else None
        yield _scaled(plan, name, counted / load.latency_s, bare, load.batch)


def _of_serving(plan: Plan, found: ServingPlan) -> Iterator[Expected]:
    """A closed loop. Mean time between tokens is mean time per token: both count every gap."""
    users, bare_s = found.concurrency, _bare_token_s(plan)
    times: list[tuple[MetricName, Range, float | None]] = [
        ("ttft", found.ttft_s, None),
        ("latency", found.latency_s, (found.output - 1) * bare_s or None),
    ]
    if found.output > 1:
        times += [("tpot", found.tpot_s, bare_s), ("itl", found.tpot_s, bare_s)]
    for name, each, bare in times:
        yield Expected(name, each.value, each.high, each.low, bare, users)
    rate = found.output_tokens_per_s
    shares: dict[MetricName, float] = {
        "output_throughput": 1.0,
        "total_throughput": 1 + found.input / found.output,
    }
    for metric, share in shares.items():
        low, high = (None if end is None else end * share for end in (rate.low, rate.high))
        yield Expected(metric, rate.value * share, low, high, None, users)


def _counted(tokens: int, all_tokens: int) -> tuple[tuple[MetricName, int], ...]:
    return ("output_throughput", tokens), ("total_throughput", all_tokens)


def _scaled(
    plan: Plan, name: MetricName, value: float, bare: float | None, sequences: int
) -> Expected:
    step = plan.step
    if step.low_s is None or step.high_s is None:
        return Expected(name, value, None, None, bare, sequences)
    low, high = step.low_s / step.time_s, step.high_s / step.time_s
    if UNITS[name] == "s":
        return Expected(name, value, value * high, value * low, bare, sequences)
    return Expected(name, value, value / high, value / low if low else math.inf, bare, sequences)


def _replicas(plan: Plan) -> int:
    return int(plan.deployment.get("parallel", {}).get("data", 1))
