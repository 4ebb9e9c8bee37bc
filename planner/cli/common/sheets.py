"""Reports with their pictures: the one place that knows both words and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.cli.common.subjects import (
    ChoiceSubject,
    HistorySubject,
    PlanSubject,
    Subject,
    SweepSubject,
)
from planner.plan.diff import PlanDiff
from planner.report.choice_sheet import choice_about, choice_sheet, choice_title
from planner.report.pieces import Piece
from planner.report.sheets import (
    diff_sheet,
    gpus_sheet,
    history_sheet,
    plan_sheet,
    plan_title,
    sweep_sheet,
    sweep_title,
)

if TYPE_CHECKING:
    from planner.charts.theme import Theme


def sheet(found: Subject, *, pictures: bool) -> tuple[str, tuple[Piece, ...]]:
    """Title and pieces of a report. Raises UsageError where pictures are wanted without Altair."""
    if isinstance(found, PlanSubject):
        shown = _plan_pictures(found) if pictures else {}
        told = plan_sheet(found.plan, found.advice, shown, found.runs)
        return plan_title(found.plan), told
    if isinstance(found, HistorySubject):
        return "Measured and predicted", history_sheet(found.rows, _runs(found.rows, pictures))
    if isinstance(found, ChoiceSubject):
        shown = _choice_picture(found.document) if pictures else {}
        return choice_title(found.document), choice_sheet(found.document, shown.get("front"))
    if isinstance(found, SweepSubject):
        return sweep_title(found.document), sweep_sheet(found.document)
    if isinstance(found, PlanDiff):
        shown = _one("diff", found) if pictures else {}
        return f"{found.name_a} against {found.name_b}", diff_sheet(found, shown)
    shown = _one("gpus", found) if pictures else {}
    return f"{found[0].plan.name} on {len(found)} GPUs", gpus_sheet(found, shown)


def _plan_pictures(found: PlanSubject) -> dict[str, str]:
    from planner.charts.draw import drawable
    from planner.charts.files import inline_svg

    charts = drawable(found.plan, found.question)
    shown = {kind: inline_svg(chart) for kind, chart in charts.items()}
    return shown | _runs(found.runs, pictures=True)


def _runs(rows: Sequence[Mapping[str, Any]], pictures: bool) -> dict[str, str]:
    """Recorded runs over what was predicted, where there are any."""
    if not pictures or not rows:
        return {}
    from planner.charts.files import inline_svg
    from planner.charts.history import history_chart

    return {"history": inline_svg(history_chart(rows))}


def _one(kind: str, found: Any) -> dict[str, str]:
    from planner.charts.files import inline_svg
    from planner.charts.gpus import diff_chart, gpus_chart

    chart = diff_chart(found) if kind == "diff" else gpus_chart(found)
    return {kind: inline_svg(chart)}


def _choice_picture(document: Mapping[str, Any]) -> dict[str, str]:
    from planner.charts.files import inline_svg
    from planner.charts.front import offered_in

    return {"front": inline_svg(front_of(document))} if offered_in(document) else {}


def front_of(document: Mapping[str, Any], theme: Theme = "light") -> Any:
    """The front of a choice. Raises UsageError where no price is known."""
    from planner.charts.front import front_chart, offered_in

    limit_s = document["targets"]["tpot_s"]
    return front_chart(offered_in(document), limit_s, choice_about(document), theme=theme)
