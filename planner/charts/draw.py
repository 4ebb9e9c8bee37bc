"""Charts of a plan by their names, as commands, reports and pages ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.charts.block import block_chart
from planner.charts.launches import timeline_chart
from planner.charts.memory import memory_chart
from planner.charts.modes import modes_chart
from planner.charts.roofline import roofline_chart
from planner.charts.sweep import sweep_chart
from planner.charts.theme import Theme
from planner.errors import UsageError
from planner.plan.around import Axis
from planner.plan.types import Plan
from planner.plan.wiring import wires
from planner.serving.around import around
from planner.spec.question import Question

PLAN_CHARTS: Mapping[str, str] = {
    "roofline": "every kernel under its roof",
    "modes": "the step from eager launches to ideal fusion",
    "memory": "memory of one GPU against what there is",
    "batch": "steps by batch, or serving by users or rate, with M* and limits",
    "context": "steps by context or prompt, or serving by prompt, with limits",
    "block": "the block's graph with its kernels",
    "timeline": "launches on host and GPU",
}
"""Kinds of charts of one plan, and what they show."""
ASKING = ("batch", "context", "block")
"""Those that need the question too, not the plan alone."""


def draw(
    kind: str, plan: Plan, question: Question, *, block: str | None = None, theme: Theme = "light"
) -> Any:
    """A chart of `PLAN_CHARTS`. Raises UsageError where this plan has none of that kind, and
    without Altair.
    """
    if kind == "roofline":
        return roofline_chart(plan, theme=theme)
    if kind == "modes":
        return modes_chart(plan, theme=theme)
    if kind == "memory":
        return memory_chart(plan, theme=theme)
    if kind == "timeline":
        return timeline_chart(plan, theme=theme)
    if kind == "block":
        return block_chart(plan, wires(question), block, theme=theme)
    axis: Axis = "batch" if kind == "batch" else "context"
    return sweep_chart(plan, around(question, plan, axis), theme=theme)


def drawable(plan: Plan, question: Question, *, theme: Theme = "light") -> dict[str, Any]:
    """Every chart that this plan has, by its kind. Raises UsageError without Altair."""
    from planner.charts.files import altair

    altair()
    found = {}
    for kind in PLAN_CHARTS:
        try:
            found[kind] = draw(kind, plan, question, theme=theme)
        except UsageError:
            continue  # a mixed step has no sweep, an old plan no order of kernels
    return found
