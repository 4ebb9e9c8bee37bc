"""What workers do for pages: functions as those of `planner.service.jobs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from planner.errors import UsageError
from planner.service.jobs import DEPLOYMENT, Report, catalog_of
from planner.spec.again import deployment_again
from planner.spec.load import deployments_of
from planner.spec.question import ask

if TYPE_CHECKING:
    from planner.charts.theme import Theme
    from planner.plan.types import Plan


def check(_: Report, folders: tuple[Path, ...], raw: bytes) -> dict[str, str]:
    """What a deployment asks, without planning it. Raises what is wrong with it."""
    question = ask(deployments_of(raw, DEPLOYMENT)(()), catalog_of(folders))
    titles = (question.model.title, question.gpu.title, question.backend.title)
    return dict(zip(("model", "gpu", "backend"), titles, strict=True))


def drawn(
    _: Report, folders: tuple[Path, ...], document: Mapping[str, Any], kind: str, theme: Theme
) -> str:
    """A chart of a stored plan as SVG; a picture with a sentence where it cannot be drawn."""
    from planner.charts.draw import draw
    from planner.plan.types import Plan
    from planner.plan.values import restore

    plan: Plan = restore(Plan, document)
    question = ask(deployment_again(plan.deployment, DEPLOYMENT), catalog_of(folders))
    return _svg(lambda: draw(kind, plan, question, theme=theme), theme)


def gpus_drawn(
    _: Report, folders: tuple[Path, ...], raw: bytes, names: Sequence[str], theme: Theme
) -> str:
    """One deployment on several GPUs, as SVG."""
    from planner.charts.gpus import gpus_chart
    from planner.desk.comparing import plans_on
    from planner.plan.diff import side_by_side

    catalog = catalog_of(folders)
    plans = plans_on(deployments_of(raw, DEPLOYMENT), names, (), catalog)
    columns = side_by_side(plans, {name: catalog.find("gpu", name) for name in plans})
    return _svg(lambda: gpus_chart(columns, theme=theme), theme)


def diff_drawn(_: Report, before: Mapping[str, Any], after: Mapping[str, Any], theme: Theme) -> str:
    """Two stored plans, as SVG."""
    from planner.charts.gpus import diff_chart
    from planner.plan.diff import diff
    from planner.plan.types import Plan
    from planner.plan.values import restore

    a: Plan = restore(Plan, before)
    b: Plan = restore(Plan, after)
    return _svg(lambda: diff_chart(diff(a, b), theme=theme), theme)


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
