"""Plans: made of a deployment, listed, read."""

from __future__ import annotations

from anyio.to_thread import run_sync
from fastapi import APIRouter, Response

from planner.errors import UsageError
from planner.report.document import to_json
from planner.service import jobs, models
from planner.service.bodies import (
    DEPLOYMENT_BODY,
    After,
    Deployment,
    Limit,
    Model,
    Name,
    PlanId,
    Sets,
)
from planner.service.desk import Desk, Served
from planner.service.models import API, answer, problems
from planner.service.problems import absent_is_404
from planner.spec.question import CostModel
from planner.store.repository import Store
from planner.store.types import PlanRow, StoredPlan

router = APIRouter(prefix=API, tags=["plans"])


@router.post(
    "/plans",
    status_code=201,
    summary="Plan a deployment and keep the plan",
    openapi_extra=DEPLOYMENT_BODY,
    responses={
        201: {"model": models.Plan, "description": "A new plan"},
        200: {"model": models.Plan, "description": "This plan was known already"},
        **problems(408, 415, 429),
    },
    response_model=None,
)
async def make(
    desk: Served,
    deployment: Deployment,
    sets: Sets = [],  # noqa: B006 - FastAPI copies defaults
    cost_model: Model = "calibrated",
    *,
    advice: bool = True,
    save: bool = True,
) -> Response:
    """As `planner plan`. A plan that does not fit is kept all the same: see `memory.fits`."""
    found = await planned(desk, deployment, sets, cost_model, advice=advice)
    new = await kept(desk, found) if save else False
    text = await run_sync(to_json, "plan", found.document)
    place = {"Location": f"{API}/plans/{found.plan_id}"} if save else None
    return Response(text, 201 if new else 200, place, media_type="application/json")


async def planned(
    desk: Desk, deployment: bytes, sets: list[str], cost_model: CostModel, *, advice: bool
) -> StoredPlan:
    """The plan of a text, from a worker. Raises what is wrong with it, and Refused."""
    folders, timeout_s = desk.settings.catalogs, desk.settings.limits.plan_s
    arguments = (folders, deployment, tuple(sets), cost_model)
    found: StoredPlan = await desk.workers.call(
        jobs.plan, *arguments, advice=advice, timeout_s=timeout_s
    )
    return found


async def kept(desk: Desk, plan: StoredPlan) -> bool:
    """Keep a plan; False where it was there already."""
    new = await desk.write(lambda store: store.save_plan(plan))
    desk.metrics.planned(new=new)
    return new


@router.get(
    "/plans",
    summary="List stored plans, the newest first",
    responses={200: {"model": models.Plans}, **problems()},
    response_model=None,
)
async def list_(
    desk: Served,
    limit: Limit = 50,
    after: After = None,
    *,
    model: Name = None,
    gpu: Name = None,
    backend: Name = None,
    name: Name = None,
) -> Response:
    """Plans that match exactly, a page at a time."""
    wanted = {"model": model, "gpu": gpu, "backend": backend, "name": name}
    rows, following = await listed(desk, limit, after, **wanted)
    return answer("plans", {"plans": [vars(row) for row in rows], "next": following})


async def listed(
    desk: Desk, limit: int, after: str | None, **wanted: str | None
) -> tuple[list[PlanRow], str | None]:
    """A page of plans that match, and what ``after`` takes for the next one."""
    place = _place(after)
    rows = await desk.read(lambda store: store.plans(limit + 1, **wanted, after=place))
    page = rows[:limit]
    more = f"{page[-1].plan_id}.{page[-1].result_hash}" if len(rows) > limit else None
    return page, more


def _place(after: str | None) -> tuple[str, str] | None:
    if after is None:
        return None
    plan_id, dot, result_hash = after.partition(".")
    if not dot:
        raise UsageError("after is no `next` of a page", "begin at the first page")
    return plan_id, result_hash


@router.get(
    "/plans/{plan_id}",
    summary="A stored plan",
    responses={200: {"model": models.Plan}, **problems(404)},
    response_model=None,
)
async def one(desk: Served, plan_id: PlanId) -> Response:
    """The plan whose id begins so; of several results the newest."""

    def text(store: Store) -> str:
        with absent_is_404():
            return to_json("plan", store.plan(plan_id).document)

    return Response(await desk.read(text), media_type="application/json")
