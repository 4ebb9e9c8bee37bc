"""Side by side: two stored plans, or one deployment on several GPUs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from planner.desk.archive import restored
from planner.plan.diff import diff
from planner.plan.types import Plan
from planner.plan.values import restore
from planner.report.headline import tokens_per_s
from planner.service import jobs
from planner.service.bodies import PlanId
from planner.service.desk import Served
from planner.service.pages.answers import PageRoute, page
from planner.service.pages.write import stored, text_of
from planner.service.problems import Refused

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_TWO = 2


@router.get("/compare")
async def two(
    request: Request,
    desk: Served,
    plan: Annotated[
        list[Annotated[str, Query(pattern=r"^[0-9a-f]{1,12}$")]], Query(max_length=64)
    ] = [],  # noqa: B006 - FastAPI copies defaults
) -> Response:
    """What differs from one stored plan to another, and what followed from it."""
    if len(plan) != _TWO:
        raise Refused(422, f"two plans are compared, and {len(plan)} are chosen", "choose two")
    rows = [await stored(desk, plan_id) for plan_id in plan]
    before, after = (restored(row)[0] for row in rows)
    return page(request, "diff.html", before=before, after=after, change=diff(before, after))


@router.get("/plans/{plan_id}/gpus")
async def over_gpus(
    request: Request,
    desk: Served,
    plan_id: PlanId,
    gpu: Annotated[list[str], Query(max_length=64)] = [],  # noqa: B006 - FastAPI copies defaults
) -> Response:
    """A plan's deployment on other GPUs; its own comes first, and nothing is kept."""
    limits = desk.settings.limits
    row = await stored(desk, plan_id)
    names = list(dict.fromkeys([row.gpu, *gpu]))
    if len(names) > limits.gpus:
        raise Refused(422, f"{len(names)} GPUs are over {limits.gpus}", "compare fewer at a time")
    arguments = (text_of(row).encode(), (), "calibrated", names)
    found = await desk.workers.call(
        jobs.gpus, desk.settings.catalogs, *arguments, timeout_s=limits.plan_s
    )
    plans: list[Plan] = [restore(Plan, column["plan"]) for column in found]
    return page(
        request,
        "gpus.html",
        row=row,
        gpus=sorted(desk.catalog.names("gpu")),
        chosen=names,
        columns=list(zip(found, plans, map(tokens_per_s, plans), strict=True)),
        longest_s=max(plan.step.time_s for plan in plans),
    )
