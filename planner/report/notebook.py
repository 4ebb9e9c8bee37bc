"""Values as notebooks show them: the first of a report, with pictures where Altair is installed."""

from __future__ import annotations

from typing import Any

from planner.errors import UsageError
from planner.plan.diff import PlanDiff
from planner.plan.types import Plan
from planner.plan.verdict import Verdict
from planner.report.html import fragment
from planner.report.pieces import Picture, Piece
from planner.report.sheets import diff_sheet, plan_summary, verdict_sheet


def html(value: Any) -> str:
    """A plan, a comparison or a verdict."""
    return fragment(_pieces(value))


def _pieces(value: Any) -> tuple[Piece, ...]:
    if isinstance(value, Plan):
        return (*plan_summary(value), *_plan_pictures(value))
    if isinstance(value, PlanDiff):
        return diff_sheet(value, _diff_picture(value))
    assert isinstance(value, Verdict)
    return verdict_sheet(value)


def _plan_pictures(plan: Plan) -> list[Picture]:
    from planner.charts.files import inline_svg
    from planner.charts.modes import modes_chart
    from planner.charts.roofline import roofline_chart

    found = []
    for draw in (modes_chart, roofline_chart):
        try:
            found.append(Picture(inline_svg(draw(plan))))
        except UsageError:
            continue  # no Altair, or nothing to draw
    return found


def _diff_picture(change: PlanDiff) -> dict[str, str]:
    from planner.charts.files import inline_svg
    from planner.charts.gpus import diff_chart

    try:
        return {"diff": inline_svg(diff_chart(change))}
    except UsageError:
        return {}
