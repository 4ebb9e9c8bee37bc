"""The plan of any deployment: of a step, a static batch, or users in a closed loop."""

from __future__ import annotations

from dataclasses import replace

from planner.plan.assemble import assemble
from planner.plan.identity import digest
from planner.plan.load import decode, drafted
from planner.plan.types import Plan
from planner.plan.values import plain
from planner.serving.closed import serve
from planner.spec.question import Question


def plan_question(question: Question) -> Plan:
    """The plan of a deployment. Pure: the same question gives the same plan, to the bit.

    Of a closed loop the step is the decode step of its steady state. Raises SpecError, and
    UsageError for an engine that serves no requests.
    """
    workload = question.deployment.workload
    if workload is None or workload.concurrency is None:
        return assemble(question)
    serving = serve(question)
    context = workload.input + (workload.output + 1) // 2
    load = decode(serving.decode.sequences, context, drafted(question.deployment))
    plan = assemble(question, load)
    result = digest([plan.result_hash, plain(serving)])
    return replace(plan, result_hash=result, serving=serving)
