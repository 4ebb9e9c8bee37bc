"""The plan of any deployment: of a step, a static batch, users in a closed loop, or a rate."""

from __future__ import annotations

from dataclasses import replace

from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.identity import digest
from planner.plan.load import StepLoad, decode, drafted, step_load
from planner.plan.serving_types import ServingPlan
from planner.plan.types import Plan
from planner.plan.values import plain
from planner.serving.closed import serve
from planner.serving.open import serve_rate
from planner.spec.question import Question


def plan_question(question: Question) -> Plan:
    """The plan of a deployment. Pure: the same question gives the same plan, to the bit.

    Of users and rates the step is the decode step of its steady state. Raises SpecError, and
    UsageError for an engine that serves no requests.
    """
    workload = question.deployment.workload
    _check_steady(question)
    if workload is None or workload.batch is not None:
        return assemble(question)
    serving = serve(question) if workload.rate is None else serve_rate(question)
    plan = assemble(question, _steady_step(question, serving))
    result = digest([plan.result_hash, plain(serving)])
    return replace(plan, result_hash=result, serving=serving)


def planned_step(question: Question, plan: Plan) -> StepLoad:
    """The step whose kernels are those of a question's plan."""
    if plan.serving is None:
        return step_load(question.deployment)
    return _steady_step(question, plan.serving)


def _steady_step(question: Question, serving: ServingPlan) -> StepLoad:
    """The decode step of users or a rate in their steady state."""
    context = serving.input + (serving.output + 1) // 2
    return decode(serving.decode.sequences, context, drafted(question.deployment))


def _check_steady(question: Question) -> None:
    """Refuse what has no analytic plan. Raises SpecError."""
    deployment = question.deployment
    hint = "planner simulate runs it"
    if deployment.pools is not None:
        place = deployment.pools.origin
        raise SpecError([place.fault("pools have no steady state to plan", hint, key=True)])
    if deployment.workload and deployment.workload.trace is not None:
        place = deployment.workload.origin.at("trace")
        raise SpecError([place.fault("a trace has no steady state to plan", hint, key=True)])
