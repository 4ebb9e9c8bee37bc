"""Side by side: two stored plans, or one deployment on several GPUs."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response

from planner.charts.theme import Theme
from planner.desk.archive import restored
from planner.plan.diff import diff
from planner.plan.types import Plan
from planner.plan.values import restore
from planner.report.headline import tokens_per_s
from planner.service import jobs
from planner.service.bodies import PlanId
from planner.service.desk import Desk, Served
from planner.service.pages import pictures
from planner.service.pages.answers import PageRoute, page
from planner.service.pages.write import stored, text_of
from planner.service.problems import Refused
from planner.store.types import StoredPlan

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_TWO = 2


Plans = Annotated[
    list[Annotated[str, Query(pattern=r"^[0-9a-f]{1,12}$")]], Query(alias="plan", max_length=64)
]
Gpus = Annotated[list[Annotated[str, Query(max_length=100)]], Query(alias="gpu", max_length=64)]


@router.get("/compare")
async def two(request: Request, desk: Served, plans: Plans = []) -> Response:  # noqa: B006 - FastAPI copies it
    """What differs from one stored plan to another, and what followed from it."""
    rows = await _two(desk, plans)
    before, after = (restored(row)[0] for row in rows)
    return page(request, "diff.html", before=before, after=after, change=diff(before, after))


@router.get("/compare.svg")
async def two_drawn(
    desk: Served,
    plans: Plans = [],  # noqa: B006 - FastAPI copies defaults
    theme: Theme = "light",
) -> Response:
    """The same as a chart."""
    before, after = await _two(desk, plans)
    return await pictures.of_two(desk, before, after, theme)


async def _two(desk: Desk, plans: list[str]) -> list[StoredPlan]:
    if len(plans) != _TWO:
        raise Refused(422, f"two plans are compared, and {len(plans)} are chosen", "choose two")
    return [await stored(desk, plan_id) for plan_id in plans]


@router.get("/plans/{plan_id}/gpus")
async def over_gpus(
    request: Request,
    desk: Served,
    plan_id: PlanId,
    gpus: Gpus = [],  # noqa: B006 - FastAPI copies defaults
) -> Response:
    """A plan's deployment on other GPUs; its own comes first, and nothing is kept."""
    row = await stored(desk, plan_id)
    names = _names(desk, row, gpus)
    arguments = (text_of(row).encode(), (), "calibrated", names)
    found = await desk.workers.call(
        jobs.gpus, desk.settings.catalogs, *arguments, timeout_s=desk.settings.limits.plan_s
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
        picture_at=f"/plans/{row.plan_id}/gpus.svg?{urlencode([('gpu', name) for name in names])}",
    )


@router.get("/plans/{plan_id}/gpus.svg")
async def gpus_drawn(
    desk: Served,
    plan_id: PlanId,
    gpus: Gpus = [],  # noqa: B006 - FastAPI copies defaults
    theme: Theme = "light",
) -> Response:
    """The same as a chart."""
    row = await stored(desk, plan_id)
    return await pictures.of_gpus(desk, row, text_of(row), _names(desk, row, gpus), theme)


def _names(desk: Desk, row: StoredPlan, gpus: list[str]) -> list[str]:
    """The plan's own GPU first. Refused where there are too many."""
    names, most = list(dict.fromkeys([row.gpu, *gpus])), desk.settings.limits.gpus
    if len(names) > most:
        raise Refused(422, f"{len(names)} GPUs are over {most}", "compare fewer at a time")
    return names
