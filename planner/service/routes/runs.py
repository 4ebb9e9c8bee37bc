"""Runs: uploaded, listed, read, judged; predicted and measured over time."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from planner.desk.history import history_rows
from planner.desk.judging import judged
from planner.desk.measured import metric_document, record, run_document, verdict_document
from planner.plan.runs import Run
from planner.report.document import to_json
from planner.service import jobs, models
from planner.service.bodies import FILE_BODY, After, File, Id, Limit, RunId
from planner.service.desk import Desk, Served
from planner.service.models import API, answer, problems
from planner.service.problems import absent_is_404
from planner.store.repository import Store
from planner.store.types import RunRow

router = APIRouter(prefix=API, tags=["runs"])
Baseline = Annotated[str | None, Query(max_length=100, description="A baseline's name.")]


@router.post(
    "/runs",
    status_code=201,
    summary="Record the runs of a file beside a stored plan",
    openapi_extra=FILE_BODY,
    responses={
        201: {"model": models.Runs, "description": "At least one of them is new"},
        200: {"model": models.Runs, "description": "All were recorded already"},
        **problems(404, 408, 415, 429),
    },
    response_model=None,
)
async def upload(desk: Served, file: File, plan: Id) -> Response:
    """As `planner record PLAN FILE`: the format is known by the content."""
    found = await recorded(desk, plan, file)
    new = any(run["new"] for run in found)
    return answer("runs", {"runs": found}, 201 if new else 200)


async def recorded(desk: Desk, plan_id: str, raw: bytes) -> list[dict[str, Any]]:
    """The runs of a file, kept; each as plain data, with ``new``.

    Raises what is wrong with the file, and Refused for an unknown plan.
    """

    def known(store: Store) -> None:
        with absent_is_404():
            store.plan(plan_id)

    await desk.read(known)
    timeout_s = desk.settings.limits.plan_s
    found: tuple[Run, ...] = await desk.workers.call(jobs.runs, raw, timeout_s=timeout_s)
    _, kept = await desk.write(lambda store: record(store, plan_id, raw, found))
    for _, new in kept:
        desk.metrics.recorded(new=new)
    return [run_document(stored) | {"new": new} for stored, new in kept]


@router.get(
    "/runs",
    summary="List recorded runs, the newest first",
    responses={200: {"model": models.Runs}, **problems(404)},
    response_model=None,
)
async def list_(
    desk: Served, limit: Limit = 50, after: After = None, plan: Id | None = None
) -> Response:
    """All runs, or those of a plan, a page at a time."""

    def page(store: Store) -> list[RunRow]:
        with absent_is_404():
            plan_id = store.plan(plan).plan_id if plan else None
        return store.runs(limit + 1, plan_id, after)

    rows = await desk.read(page)
    more = rows[limit - 1].run_id if len(rows) > limit else None
    return answer("runs", {"runs": [_row(row) for row in rows[:limit]], "next": more})


def _row(row: RunRow) -> dict[str, Any]:
    return {**vars(row), "metrics": [metric_document(metric) for metric in row.metrics]}


@router.get(
    "/runs/{run_id}",
    summary="A recorded run",
    responses={200: {"model": models.RunDocument}, **problems(404)},
    response_model=None,
)
async def one(desk: Served, run_id: RunId) -> Response:
    """Without its file and its single measurements."""

    def text(store: Store) -> str:
        with absent_is_404():
            return to_json("run", run_document(store.run(run_id)))

    return Response(await desk.read(text), media_type="application/json")


@router.get(
    "/runs/{run_id}/verdict",
    summary="Judge a run by its plan and its baseline",
    responses={200: {"model": models.Verdict}, **problems(404)},
    response_model=None,
)
async def verdict(desk: Served, run_id: RunId, baseline: Baseline = None) -> Response:
    """As `planner accept RUN`: the answer is in `verdict`."""

    def text(store: Store) -> str:
        with absent_is_404():
            store.run(run_id)
            if baseline is not None:
                store.baseline(baseline)
        stored, found = judged(store, run_id, baseline)
        body = {"run_id": stored.run_id, "plan_id": stored.plan_id, **verdict_document(found)}
        return to_json("verdict", body)

    return Response(await desk.read(text), media_type="application/json")


@router.get(
    "/history",
    summary="Predicted and measured over time",
    responses={200: {"model": models.Document}, **problems(404)},
    response_model=None,
)
async def history(
    desk: Served, limit: Limit = 50, plan: Id | None = None, baseline: Baseline = None
) -> Response:
    """As `planner history`, of a plan, of a baseline's plan, or of all."""

    def text(store: Store) -> str:
        with absent_is_404():
            rows = history_rows(store, limit, plan_id=plan, baseline=baseline)
        return to_json("history", {"rows": rows})

    return Response(await desk.read(text), media_type="application/json")
