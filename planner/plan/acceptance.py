"""Is a measured run what was planned, and no worse than the accepted one?

Three rules:
1. Only the comparable is compared: another device, model, precision, layout, engine or workload is
   ``incomparable``, and the part is named.
2. Against a plan the 80 % interval of the prediction decides. Faster than the bare roofline is not
   fast but something else, and is named as such.
3. Against a baseline a difference counts only when it is both large (the factor) and not chance: by
   a rank test where it can succeed, otherwise by intervals that are pessimistic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from planner.errors import UsageError
from planner.plan.causes import impossible
from planner.plan.circumstances import PARTS, Difference, differences, planned
from planner.plan.expected import Expected, cost, expected
from planner.plan.figures import Figure, figure, statistics
from planner.plan.ranks import leaning, least_p, rank_test
from planner.plan.runs import MetricName, Run
from planner.plan.types import Plan
from planner.plan.verdict import Judgement, Outcome, Policy, Reference, Verdict

_METRICS: tuple[MetricName, ...] = get_args(MetricName)
_GRAVEST: tuple[Outcome, ...] = ("regress", "too_few_samples", "improve", "pass")
"""Which figure's verdict is the run's: one that got worse is not made up for by another."""


def accept(
    run: Run,
    plan: Plan | None = None,
    baseline: Reference | None = None,
    policy: Policy | None = None,
) -> Verdict:
    """Hold a run against the plan it belongs to, an accepted run, or both.

    With both the baseline decides, since it was measured; what the plan says stands in ``others``.
    But a run that the plan calls impossible is no run of this deployment, whatever the baseline.
    Raises UsageError when there is neither.
    """
    policy = policy or Policy()
    by_plan = _against_plan(run, plan, policy) if plan else None
    by_baseline = _against_baseline(run, plan, baseline, policy) if baseline else None
    if by_plan is None and by_baseline is None:
        raise UsageError("there is nothing to hold the run against", "name a plan or a baseline")
    if by_baseline is None or (by_plan is not None and by_plan.impossible):
        first, second = by_plan, by_baseline
    else:
        first, second = by_baseline, by_plan
    assert first is not None
    return replace(first, others=(second,) if second else ())


def judged_by_plan(run: Run, plan: Plan, policy: Policy | None = None) -> tuple[Judgement, ...]:
    """Every figure of the run that the plan predicts; none checks the circumstances."""
    policy = policy or Policy()
    found = []
    for each in expected(plan):
        known = statistics(run, each.metric)
        if known:
            found.append(_planned(each, figure(run, each.metric, known[0], policy)))
    return tuple(found)


def _against_plan(run: Run, plan: Plan, policy: Policy) -> Verdict:
    against = f"plan {plan.plan_id}"
    differing = differences(run.context, planned(plan))
    if differing:
        return _incomparable(against, _sentence(differing))
    judgements = judged_by_plan(run, plan, policy)
    if not judgements:
        names = ", ".join(dict.fromkeys(m.name for m in run.metrics)) or "no figure"
        return _incomparable(against, f"the run has {names}; the plan predicts none of it")
    reasons = (impossible(each, run, expected(plan), policy) for each in judgements)
    for judgement, reason in zip(judgements, reasons, strict=True):
        if reason:
            return _overall(against, (judgement,), "incomparable", reason)
    verdict = _overall(against, judgements)
    if verdict.verdict == "regress" and _waits_for_prefills(run, plan):
        return replace(verdict, reason=f"{verdict.reason}{_WAITED}")
    return verdict


def _waits_for_prefills(run: Run, plan: Plan) -> bool:
    """Whether the run's requests came one after another, while the plan is of a decode step."""
    return plan.deployment.get("workload") is None and "workload.concurrency" in run.context


_WAITED = (
    "; between its tokens the run also served prefills of other requests, the planned step not"
)


def _planned(predicted: Expected, measured: Figure) -> Judgement:
    name, statistic = predicted.metric, measured.statistic
    ratio = measured.cost / cost(name, predicted.value)
    outcome, interval = _place(predicted, measured)
    return Judgement(
        name, statistic, measured.value, predicted.value, outcome, ratio, interval, None,
        f"{statistic} {name} {_times(ratio)} the plan's: {_BY_PLAN[outcome]}",
    )  # fmt: skip


def _place(predicted: Expected, measured: Figure) -> tuple[Outcome, tuple[float, float] | None]:
    """Where a figure lies about the predicted interval, and the interval of their ratio."""
    if predicted.slowest is None or predicted.fastest is None:
        return "incomparable", None
    slow, fast = (cost(predicted.metric, end) for end in (predicted.slowest, predicted.fastest))
    outcome: Outcome = "pass"
    if measured.cost > slow:
        outcome = "regress"
    elif measured.cost < fast:
        outcome = "improve"
    doubtful = measured.samples and measured.low <= slow and measured.high >= fast
    if outcome != "pass" and doubtful:
        outcome = "too_few_samples"
    return outcome, (measured.cost / slow, measured.cost / fast if fast else math.inf)


_BY_PLAN: Mapping[Outcome, str] = {
    "pass": "inside the 80 % interval of the prediction",
    "regress": "slower than the 80 % interval of the prediction",
    "improve": "faster than the 80 % interval of the prediction",
    "incomparable": "it has no interval; plan with calibrated kernel models",
    "too_few_samples": (
        "outside the 80 % interval of the prediction, but so few measurements reach into it"
    ),
}


def _against_baseline(run: Run, plan: Plan | None, baseline: Reference, policy: Policy) -> Verdict:
    against = f"baseline {baseline.name}"
    reason = _other_question(run, plan, baseline)
    if reason:
        return _incomparable(against, reason)
    shared = [(name, both[0]) for name in _METRICS if (both := _both(run, baseline.run, name))]
    if not shared:
        return _incomparable(against, "the two runs have no figure in common")
    # Each figure is one more chance to be wrong: alpha is for all together (Bonferroni).
    strict = replace(policy, alpha=policy.alpha / len(shared))
    return _overall(
        against,
        [_measured(name, stat, run, baseline.run, strict) for name, stat in shared],
    )


def _both(run: Run, other: Run, name: MetricName) -> list[str]:
    theirs = statistics(other, name)
    return [statistic for statistic in statistics(run, name) if statistic in theirs]


def _other_question(run: Run, plan: Plan | None, baseline: Reference) -> str | None:
    found = list(differences(run.context, baseline.run.context))
    told = {each.part for each in found}
    if plan and baseline.parts:
        moved = [p for p in PARTS if p not in told and plan.parts.get(p) != baseline.parts.get(p)]
        if moved:
            rest = "differs from that of the plan of the baseline"
            return "; ".join([*map(str, found), *(f"{part}: {rest}" for part in moved)])
    return _sentence(found) if found else None


def _measured(name: MetricName, statistic: str, run: Run, other: Run, policy: Policy) -> Judgement:
    new, old = (figure(each, name, statistic, policy) for each in (run, other))
    ratio = new.cost / old.cost
    interval = (new.low / old.high, new.high / old.low if old.low else math.inf)
    p_value, sure = None, not interval[0] <= 1 <= interval[1]
    if least_p(len(new.samples), len(old.samples)) <= policy.alpha:
        p_value = rank_test(new.samples, old.samples)
        leans = leaning(new.samples, old.samples) * (ratio - 1) > 0
        sure = p_value <= policy.alpha and leans
    outcome: Outcome = "pass"
    if ratio > policy.factor or ratio < 1 / policy.factor:
        outcome = ("regress" if ratio > 1 else "improve") if sure else "too_few_samples"
    said = f"{statistic} {name} {_times(ratio)} the baseline's: {_BY_BASELINE[outcome]}"
    if p_value is not None:
        doubt = "; the ranks lean the other way" if p_value <= policy.alpha and not sure else ""
        said = f"{said} (rank test: p = {p_value:.2g}{doubt})"
    return Judgement(name, statistic, new.value, old.value, outcome, ratio, interval, p_value, said)


_BY_BASELINE: Mapping[Outcome, str] = {
    "pass": "within the factor that counts as the same",
    "regress": "slower by more than chance explains",
    "improve": "faster by more than chance explains",
    "too_few_samples": "so few measurements may differ that much by chance; keep more of them",
}


def _overall(
    against: str,
    judgements: Sequence[Judgement],
    outcome: Outcome | None = None,
    reason: str | None = None,
) -> Verdict:
    """The verdict of the gravest figure; of several, that which is furthest from 1."""
    decided = [each for each in judgements if each.verdict in _GRAVEST] or judgements
    first = min(decided, key=_gravity)
    return Verdict(
        outcome or first.verdict, against, first.ratio, first.interval, first.p_value,
        reason or first.reason, tuple(judgements), outcome is not None,
    )  # fmt: skip


def _gravity(each: Judgement) -> tuple[int, float]:
    known = each.verdict in _GRAVEST
    rank = _GRAVEST.index(each.verdict) if known else len(_GRAVEST)
    return rank, -max(each.ratio, 1 / each.ratio if each.ratio else math.inf)


def _incomparable(against: str, reason: str) -> Verdict:
    return Verdict("incomparable", against, None, None, None, reason)


def _sentence(found: Iterable[Difference]) -> str:
    return "; ".join(map(str, found))


def _times(ratio: float) -> str:
    return f"{ratio:.2f} ×"
