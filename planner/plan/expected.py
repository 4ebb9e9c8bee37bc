"""What a plan predicts of each figure that tools measure, and what no machine could beat.

Only like is held against like: ``step`` against the plan's step; ``itl`` and ``tpot`` against it
where it is a decode step; figures of whole requests against a static batch or a closed loop. The
interval of a static batch's figures is that of its step, widened in proportion: it is made of such
steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from planner.num import Number, is_array, maximum, where
from planner.plan.runs import UNITS, MetricName
from planner.plan.serving_types import Range, ServingPlan
from planner.plan.types import Plan, WorkloadPlan


@dataclass(frozen=True)
class Expected:
    """One predicted figure, in the metric's unit."""

    metric: MetricName
    value: Number
    slowest: Number | None
    """Of the 80 % interval, the end that is slow: the larger time, the smaller throughput."""
    fastest: Number | None
    bare: float | None
    """By the bare roofline of the decode steps alone; None where it says nothing."""
    sequences: Number
    """Requests in flight over all replicas."""


@dataclass(frozen=True)
class PlannedStep:
    """The step of a plan, or of many."""

    kind: str
    time_s: Number
    low_s: Number | None
    high_s: Number | None
    """80 % interval; None where no residuals are known."""
    bare_s: float | None
    """Its bare roofline; None where nobody asked."""
    sequences: Number
    """In it over all replicas."""
    share: Number = 1.0
    """Of its time that a token takes: with drafts fewer steps than tokens, and drafting beside."""
    most_tokens: int = 1
    """Tokens that it can give a sequence."""

    @property
    def bare_token_s(self) -> float | None:
        """Its bare roofline over the most tokens that it can give a sequence."""
        return None if self.bare_s is None else self.bare_s / self.most_tokens


def cost(metric: str, value: float) -> float:
    """A figure as time, so that more is worse: seconds as they are, throughput as its inverse.

    A throughput of nought takes for ever.
    """
    if UNITS[metric] == "s":
        return value
    return 1 / value if value else math.inf


def expected(plan: Plan) -> tuple[Expected, ...]:
    """Every figure the plan predicts."""
    step, bare_s = plan.step, plan.totals.roofline_s
    sequences = (step.sequences or 1) * _replicas(plan)
    drafts = plan.speculation.tokens if plan.speculation else 0
    share = plan.speculation.tpot_s / step.time_s if plan.speculation else 1.0
    ends = step.low_s, step.high_s
    planned = PlannedStep(step.kind, step.time_s, *ends, bare_s, sequences, share, 1 + drafts)
    if plan.serving:
        return (*of_step(planned, ["step"]), *of_loop(plan.serving, planned.bare_token_s))
    return tuple(of_batch(planned, plan.workload) if plan.workload else of_step(planned))


def of_step(step: PlannedStep, names: Iterable[MetricName] = ()) -> Iterator[Expected]:
    """The figures of a step by itself, or those named."""
    for name in names or (["step", "itl", "tpot"] if step.kind == "decode" else ["step"]):
        share, bare_s = (1.0, step.bare_s) if name == "step" else (step.share, step.bare_token_s)
        low_s, high_s = (None if end is None else end * share for end in (step.low_s, step.high_s))
        yield Expected(name, step.time_s * share, high_s, low_s, bare_s, step.sequences)


def of_batch(step: PlannedStep, load: WorkloadPlan) -> Iterator[Expected]:
    """The figures of a static batch, of which ``step`` is the decode step halfway."""
    # The planned step stands halfway through the output and a step's bytes and FLOPs are affine in
    # the context, so its roofline is the mean over all decode steps; prefill comes on top.
    yield from of_step(step, ["step", "itl"])
    bare_s = step.bare_token_s
    decode_s = None if bare_s is None else (load.output - 1) * bare_s or None
    tokens = load.batch * load.output
    if is_array(load.output) or load.output > 1:
        tpot_s = where(load.output > 1, load.tpot_s, math.nan)
        yield _scaled(step, "tpot", tpot_s, bare_s, load.batch)
    yield _scaled(step, "ttft", load.ttft_s, None, load.batch)
    yield _scaled(step, "latency", load.latency_s, decode_s, load.batch)
    counts: dict[MetricName, Number] = {
        "output_throughput": tokens,
        "total_throughput": load.batch * (load.input + load.output),
    }
    for name, counted in counts.items():
        bare = counted / decode_s if decode_s else None
        yield _scaled(step, name, counted / load.latency_s, bare, load.batch)


def of_loop(found: ServingPlan, bare_s: float | None) -> Iterator[Expected]:
    """The figures of a closed loop; ``bare_s`` is its decode step by the bare roofline.

    Mean time between tokens is mean time per token: both count every gap.
    """
    users = found.concurrency
    decode_s = None if bare_s is None else (found.output - 1) * bare_s or None
    times: list[tuple[MetricName, Range, float | None]] = [
        ("ttft", found.ttft_s, None),
        ("latency", found.latency_s, decode_s),
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


def _scaled(
    step: PlannedStep, name: MetricName, value: Number, bare: float | None, sequences: Number
) -> Expected:
    if step.low_s is None or step.high_s is None:
        return Expected(name, value, None, None, bare, sequences)
    low, high = step.low_s / step.time_s, step.high_s / step.time_s
    if UNITS[name] == "s":
        return Expected(name, value, value * high, value * low, bare, sequences)
    fastest = where(low > 0, value / maximum(low, _LEAST), math.inf)
    return Expected(name, value, value / high, fastest, bare, sequences)


_LEAST = 1e-300


def _replicas(plan: Plan) -> int:
    return int(plan.deployment.get("parallel", {}).get("data", 1))
