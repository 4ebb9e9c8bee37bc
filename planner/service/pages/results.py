"""Runs and baselines: uploaded, judged, accepted, shown over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from planner.charts.theme import Theme
from planner.desk.history import history_rows
from planner.desk.judging import judged
from planner.errors import UsageError
from planner.plan.runs import UNITS
from planner.service.bodies import After, RunId
from planner.service.desk import Served
from planner.service.forms import Form
from planner.service.pages import pictures
from planner.service.pages.answers import PageRoute, onward, page
from planner.service.pages.fields import file_in, id_in, text_in
from planner.service.problems import absent_is_404
from planner.service.routes.runs import Baseline, recorded
from planner.store.repository import Store
from planner.store.types import BaselineRow, RunRow

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_ROWS = 50


@router.get("/runs")
async def list_(request: Request, desk: Served, after: After = None) -> Response:
    """Recorded runs, the newest first."""
    rows: list[RunRow] = await desk.read(lambda store: store.runs(_ROWS + 1, None, after))
    following = rows[_ROWS - 1].run_id if len(rows) > _ROWS else None
    return page(request, "runs.html", rows=rows[:_ROWS], following=following)


@router.post("/runs")
async def upload(desk: Served, form: Form) -> Response:
    """Record the runs of a file beside their plan, and show the verdict on the first."""
    plan_id = id_in(form, "plan")
    found = await recorded(desk, plan_id, await file_in(form, "file"))
    if len(found) > 1:
        return onward(f"/plans/{plan_id}#runs")
    return onward(f"/runs/{found[0]['run_id']}")


@router.get("/runs/{run_id}")
async def one(request: Request, desk: Served, run_id: RunId) -> Response:
    """A run and whether it is good enough."""

    def found(store: Store) -> dict[str, Any]:
        with absent_is_404():
            store.run(run_id)
        stored, verdict = judged(store, run_id, None)
        names = [row.name for row in store.baselines() if row.run_id == stored.run_id]
        return {"stored": stored, "verdict": verdict, "names": names}

    return page(request, "run.html", units=UNITS, **await desk.read(found))


@router.get("/baselines")
async def names(request: Request, desk: Served, name: Baseline = None) -> Response:
    """What every name stands for; or what one stood for, and its plan's figures over time."""
    if name is not None:
        return page(request, "baseline.html", name=name, **await desk.read(_story(name)))
    return page(request, "baselines.html", rows=await desk.read(lambda store: store.baselines()))


def _story(name: str) -> Callable[[Store], dict[str, Any]]:
    """Names may hold a slash, so that they stand in queries and not in paths."""

    def found(store: Store) -> dict[str, Any]:
        with absent_is_404():
            chain = store.baseline_history(name)
        of_plan = store.run(chain[0].run_id).plan_id is not None
        rows = history_rows(store, _ROWS, baseline=name) if of_plan else []
        return {"chain": chain, "rows": rows}

    return found


@router.post("/baselines")
async def accept(desk: Served, form: Form) -> Response:
    """Let a name stand for a run."""
    name, run_id = text_in(form, "name", 100), id_in(form, "run")
    by = text_in(form, "by", 100)
    if not by.isprintable():
        raise UsageError("by: a name of printable characters")

    def change(store: Store) -> BaselineRow:
        with absent_is_404():
            return store.set_baseline(name, store.run(run_id).run_id, by)

    row = await desk.write(change)
    return onward(f"/runs/{row.run_id}")


@router.get("/baselines/history.svg")
async def history(
    desk: Served, name: Annotated[str, Query(max_length=100)], theme: Theme = "light"
) -> Response:
    """Predicted and measured figures of a baseline's plan over time."""
    found = await desk.read(_story(name))
    return await pictures.of_history(desk, found["rows"], theme)
