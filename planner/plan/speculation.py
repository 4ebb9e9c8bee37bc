"""Speculative decoding: drafted tokens, the step that verifies them, what the pair yields.

A step verifies the drafts of every sequence together with the token before them. Where each draft
is accepted with chance α if those before it were, k drafts yield (1 − α^(k+1)) / (1 − α) tokens a
step (Leviathan et al. 2023, arXiv:2211.17192, equation 1). The draft model runs one step a token,
each as a decode step of its own. Left out: that sequences accept differently, the rejection
sampler, and what a draft head reads of the model's hidden states.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.num import Number
from planner.plan.load import StepLoad, decode
from planner.plan.prepare import Prepared, prepare
from planner.plan.solve import solve_step
from planner.plan.types import SpeculationPlan
from planner.spec.types import Speculation


def yielded(speculation: Speculation) -> float:
    """Tokens a step yields on average: the accepted drafts and one of the model itself."""
    if speculation.length is not None:
        return speculation.length
    chance = speculation.acceptance or 0.0
    return sum(chance**n for n in range(speculation.tokens + 1))


def draft_s(prepared: Prepared, batch: int, context: int) -> float:
    """Time of drafting one step's tokens for ``batch`` sequences, at growing context."""
    found = drafting(prepared, batch, context)
    if found is None:
        return 0.0
    time_s = solve_step(found.prepared, found.step, modes=()).chosen.timeline.time_s
    return found.times * float(time_s)


@dataclass(frozen=True, eq=False)
class Drafting:
    """Equal steps of the draft model."""

    prepared: Prepared
    step: StepLoad
    times: int


def drafting(prepared: Prepared, batch: Number, context: Number) -> Drafting | None:
    """The steps that draft for one step, or for many; None where nothing has to be computed."""
    question = prepared.question
    if question.draft is None or question.deployment.speculation is None:
        return None
    tokens = question.deployment.speculation.tokens
    return Drafting(prepare(question.draft), decode(batch, context + tokens // 2), tokens)


def speculation_plan(prepared: Prepared, step: StepLoad, verify_s: float) -> SpeculationPlan | None:
    """What speculation makes of a decode step that takes ``verify_s``; None without any."""
    asked = prepared.question.deployment.speculation
    if asked is None:
        return None
    context = int(step.load.groups[0].kv_tokens) - asked.tokens
    batch, tokens = step.sequences or 1, yielded(asked)
    drafting_s = draft_s(prepared, batch, context)
    step_s = verify_s + drafting_s
    return SpeculationPlan(
        asked.draft,
        asked.tokens,
        tokens,
        verify_s,
        drafting_s,
        step_s,
        step_s / tokens,
        batch * prepared.question.deployment.parallel.data * tokens / step_s,
    )
