"""What workers do for pages: functions as those of `planner.service.jobs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args
from xml.sax.saxutils import escape

from planner.errors import UsageError
from planner.service.jobs import DEPLOYMENT, Report, catalog_of
from planner.spec.again import deployment_again
from planner.spec.load import deployments_of
from planner.spec.question import ask

if TYPE_CHECKING:
    from planner.charts.theme import Theme
    from planner.plan.types import Plan

Drawing = Literal["roofline", "modes", "memory", "batch", "context"]
DRAWINGS: tuple[Drawing, ...] = get_args(Drawing)


def check(_: Report, folders: tuple[Path, ...], raw: bytes) -> dict[str, str]:
    """What a deployment asks, without planning it. Raises what is wrong with it."""
    question = ask(deployments_of(raw, DEPLOYMENT)(()), catalog_of(folders))
    titles = (question.model.title, question.gpu.title, question.backend.title)
    return dict(zip(("model", "gpu", "backend"), titles, strict=True))


def drawn(
    _: Report, folders: tuple[Path, ...], document: Mapping[str, Any], name: Drawing, theme: Theme
) -> str:
    """A chart of a stored plan as SVG; a picture with a sentence where it cannot be drawn."""
    from planner.plan.types import Plan
    from planner.plan.values import restore

    plan: Plan = restore(Plan, document)
    return _svg(lambda: _chart(folders, plan, name, theme), theme)


def _chart(folders: tuple[Path, ...], plan: Plan, name: Drawing, theme: Theme) -> Any:
    from planner.charts.memory import memory_chart
    from planner.charts.modes import modes_chart
    from planner.charts.roofline import roofline_chart

    if name == "roofline":
        return roofline_chart(plan, theme=theme)
    if name == "modes":
        return modes_chart(plan, theme=theme)
    if name == "memory":
        return memory_chart(plan, theme=theme)
    from planner.charts.sweep import sweep_chart
    from planner.plan.around import around

    deployment = deployment_again(plan.deployment, DEPLOYMENT)
    question = ask(deployment, catalog_of(folders))
    return sweep_chart(plan, around(question, plan, name), theme=theme)


def history(_: Report, rows: Sequence[Mapping[str, Any]], theme: Theme) -> str:
    """Predicted and measured over time, as SVG."""
    from planner.charts.history import history_chart

    return _svg(lambda: history_chart(rows, theme=theme), theme)


def _svg(chart: Callable[[], Any], theme: Theme) -> str:
    from planner.charts.files import svg
    from planner.charts.theme import INKS

    try:
        return svg(chart())
    except UsageError as error:
        ink = INKS[theme]
        return _SENTENCE.format(ground=ink.ground, text=ink.faint, said=escape(error.message))


_SENTENCE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="640" height="60">'
    '<rect width="640" height="60" fill="{ground}"/>'
    '<text x="12" y="36" font-family="sans-serif" font-size="14" fill="{text}">{said}</text></svg>'
)
