"""Differences: between two stored plans, and of one deployment over GPUs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from planner.desk.archive import restored
from planner.plan.diff import diff
from planner.plan.values import plain
from planner.report.document import to_json
from planner.service import jobs, models
from planner.service.bodies import DEPLOYMENT_BODY, Deployment, Id, Model, Sets
from planner.service.desk import Served
from planner.service.models import API, answer, problems
from planner.service.problems import Refused, absent_is_404
from planner.store.repository import Store

router = APIRouter(prefix=API, tags=["diffs"])


@router.get(
    "/diffs",
    summary="Compare two stored plans",
    responses={200: {"model": models.Document}, **problems(404)},
    response_model=None,
)
async def two(desk: Served, a: Id, b: Id) -> Response:
    """As `planner diff A B`."""

    def text(store: Store) -> str:
        with absent_is_404():
            rows = store.plan(a), store.plan(b)
        first, second = (restored(row)[0] for row in rows)
        return to_json("diff", plain(diff(first, second)))

    return Response(await desk.read(text), media_type="application/json")


@router.post(
    "/diffs",
    summary="Compare one deployment on several GPUs",
    openapi_extra=DEPLOYMENT_BODY,
    responses={200: {"model": models.Document}, **problems(408, 415, 429)},
    response_model=None,
)
async def over_gpus(
    desk: Served,
    deployment: Deployment,
    gpu: Annotated[
        list[Annotated[str, Query(max_length=100)]],
        Query(
            min_length=1,
            max_length=64,
            description="GPUs of the catalogue.",
            examples=[["rtx-4090", "h100-sxm"]],
        ),
    ],
    sets: Sets = [],  # noqa: B006 - FastAPI copies defaults
    cost_model: Model = "calibrated",
) -> Response:
    """As `planner diff FILE --gpu G,G`; nothing is kept."""
    limits = desk.settings.limits
    if len(gpu) > limits.gpus:
        raise Refused(422, f"{len(gpu)} GPUs are over {limits.gpus}", "compare fewer at a time")
    found = await desk.workers.call(
        jobs.gpus,
        desk.settings.catalogs,
        deployment,
        tuple(sets),
        cost_model,
        gpu,
        timeout_s=limits.plan_s,
    )
    return answer("gpus", {"gpus": found})
