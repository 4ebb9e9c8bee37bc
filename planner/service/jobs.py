"""What workers compute: functions of plain values, which read no path that a request names.

Each takes ``report`` first, to which it may give interim results.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError, UsageError
from planner.service.models import EXAMPLE_DEPLOYMENT
from planner.spec.catalog import Catalog
from planner.spec.load import deployments_of
from planner.spec.question import CostModel, ask

if TYPE_CHECKING:
    from planner.desk.sweep_grid import Grid
    from planner.plan.runs import Run
    from planner.store.types import StoredPlan

DEPLOYMENT = "deployment.yaml"
"""What messages call a deployment that came with a request."""
UPLOAD = "upload"

Report = Callable[[Any], None]


@cache
def catalog_of(folders: tuple[Path, ...]) -> Catalog:
    """The catalogue of a service: names alone, no paths."""
    return Catalog.standard(folders, closed=True)


def warm(report: Report, folders: tuple[Path, ...]) -> None:
    """Plan something, so that what every plan needs is loaded."""
    with contextlib.suppress(PlannerError):
        plan(report, folders, EXAMPLE_DEPLOYMENT.encode(), (), "calibrated", advice=True)


def plan(
    _: Report,
    folders: tuple[Path, ...],
    raw: bytes,
    sets: Sequence[str],
    cost_model: CostModel,
    *,
    advice: bool,
) -> StoredPlan:
    """The plan of a deployment's text, as the store keeps it."""
    from planner.desk.archive import stored
    from planner.plan.advice import advise
    from planner.serving.plan import plan_question

    deployment = deployments_of(raw, DEPLOYMENT)(sets)
    question = ask(deployment, catalog_of(folders), cost_model)
    with _numbers():
        found = plan_question(question)
        return stored(found, advise(question) if advice else None)


def gpus(
    _: Report,
    folders: tuple[Path, ...],
    raw: bytes,
    sets: Sequence[str],
    cost_model: CostModel,
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """One deployment on several GPUs side by side, as plain data."""
    from planner.desk.comparing import plans_on
    from planner.plan.diff import side_by_side
    from planner.plan.values import plain

    catalog = catalog_of(folders)
    with _numbers():
        plans = plans_on(deployments_of(raw, DEPLOYMENT), names, sets, catalog, cost_model)
        found = side_by_side(plans, {name: catalog.find("gpu", name) for name in plans})
    return [plain(column) for column in found]


def runs(_: Report, raw: bytes) -> tuple[Run, ...]:
    """Every run of an uploaded file."""
    from planner import importers

    return importers.read(raw, UPLOAD)


def sweep_rows(_: Report, raw: bytes, sets: tuple[str, ...], overs: Sequence[str]) -> int:
    """How many rows a sweep has. Raises as a plan, for what is wrong without any axis."""
    return _grid(raw, sets, overs).count


def sweep(
    report: Report,
    folders: tuple[Path, ...],
    raw: bytes,
    sets: tuple[str, ...],
    overs: Sequence[str],
    *,
    cost_model: CostModel,
    sort: str,
    top: int,
    every_s: float = 1.0,
    before: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A sweep's summary. Rows answered so far go to ``report``, every so many seconds with their
    summary, from which an interrupted sweep goes on: ``before``.
    """
    from planner.desk.sweep_summary import Summary
    from planner.desk.sweep_tasks import Circumstances, Local

    shared = Circumstances(folders, closed=True, cost_model=cost_model)
    summary = Summary(sort, top)
    if before is not None:
        summary.go_on(before)
    told_at = monotonic()
    with _numbers():
        for piece in _grid(raw, sets, overs).pieces(Local(shared), summary.rows):
            summary.take(piece)
            due = monotonic() - told_at > every_s
            report((summary.rows, summary.document() if due else None))
            told_at = monotonic() if due else told_at
    return summary.document()


@contextlib.contextmanager
def _numbers() -> Iterator[None]:
    """A deployment may be right in every field and beyond what floating point can hold."""
    try:
        yield
    except OverflowError as error:
        message = "a number of this deployment is too large to plan with"
        raise UsageError(message) from error


def _grid(raw: bytes, sets: tuple[str, ...], overs: Sequence[str]) -> Grid:
    from planner.desk.sweep_grid import grid_of

    if not overs:
        raise UsageError("a sweep needs axes", "as in over: ['batch=1:512']")
    return grid_of(deployments_of(raw, DEPLOYMENT), sets, overs)
