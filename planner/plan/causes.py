"""Runs that no machine could make: faster than the bare roofline, and what they likely are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.plan.expected import Expected, cost
from planner.plan.runs import Run
from planner.plan.verdict import Judgement, Policy

_NEAR = math.log(1.35)
"""How near a ratio must be to a count to be taken for it: predictions themselves err."""
_MOST_DRAFTED = 8.0
"""More tokens a step than speculative decoding yields in practice (recalled)."""


def impossible(
    judgement: Judgement, run: Run, predictions: Sequence[Expected], policy: Policy
) -> str | None:
    """Why the figure cannot be one of this deployment, with the likely cause; None where it can."""
    predicted = next(each for each in predictions if each.metric == judgement.metric)
    if predicted.bare is None:
        return None
    measured = cost(judgement.metric, judgement.measured)
    bare = cost(judgement.metric, predicted.bare)
    if measured >= (1 - policy.impossible) * bare:
        return None
    faster = math.inf if not measured else bare / measured
    return (
        f"{judgement.statistic} {judgement.metric} is impossible, {faster:.2g} times faster than "
        f"the bare roofline; likely cause: {_cause(judgement, run, predicted)}"
    )


def _cause(judgement: Judgement, run: Run, predicted: Expected) -> str:
    times = 1 / judgement.ratio if judgement.ratio else math.inf
    count, metric = predicted.sequences, judgement.metric
    whole = metric in {"latency", "output_throughput", "total_throughput"}
    causes = (
        (
            any(path.startswith("speculation") for path in run.context),
            "speculative decoding, which the run names: several tokens a step",
        ),
        (
            metric == "step" and any(path.startswith("step.prefill") for path in run.context),
            "a prefix cache that skips most of the prompt, or a trace of only some kernels",
        ),
        (
            metric == "step" and bool(run.kernels),
            "a trace that holds only some of the step's kernels",
        ),
        (
            metric == "output_throughput" and _near(times, _prompt_share(run)),
            "prompt tokens counted as output",
        ),
        (_near(times, count), f"an aggregate of {count} sequences read as per request"),
        (whole, "a prefix cache that skips prefill, or speculative decoding"),
        (times <= _MOST_DRAFTED, "speculative decoding: several tokens a step"),
        (True, "an aggregate read as per request, or another unit"),
    )
    return next(cause for holds, cause in causes if holds)


def _near(times: float, count: float) -> bool:
    return 0 < times < math.inf and count > 1 and abs(math.log(times / count)) < _NEAR


def _prompt_share(run: Run) -> float:
    """(input + output) / output, or nought where the run does not say."""
    given, made = (run.context.get(f"workload.{name}") for name in ("input", "output"))
    return (given + made) / made if given and made else 0.0
