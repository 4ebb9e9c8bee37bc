"""Charts as pictures of a page: drawn by workers, kept for those who ask again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Response

from planner.charts.draw import PLAN_CHARTS
from planner.charts.theme import Theme
from planner.plan.types import Plan
from planner.service.desk import Desk
from planner.service.pages import work
from planner.service.problems import Refused
from planner.service.workers import Job
from planner.store.types import StoredPlan

_MEDIA_TYPE = "image/svg+xml"
_DAY = {"cache-control": "private, max-age=86400"}


@dataclass(frozen=True)
class Picture:
    """A chart's place on a page."""

    address: str
    """Without the theme."""
    alt: str
    """What it shows, for those who don't see it; tables have its figures."""
    kind: str
    """Its class, which says how much room is kept."""


def of_plan(plan: Plan, result_hash: str) -> tuple[Picture, ...]:
    """The charts that a plan may have. Another answer of our model has other addresses."""
    step = plan.deployment.get("step") or {}
    swept = step.get("decode") or step.get("prefill") or plan.deployment.get("workload")
    without = set() if swept else {"batch", "context"}
    without |= set() if plan.order else {"timeline"}
    place = f"/plans/{plan.plan_id}/charts"
    return tuple(
        Picture(f"{place}/{kind}.svg?of={result_hash[:12]}&theme=", _sentence(said), kind)
        for kind, said in PLAN_CHARTS.items()
        if kind not in without
    )


def _sentence(said: str) -> str:
    return said[0].upper() + said[1:]


async def of_row(desk: Desk, row: StoredPlan, kind: str, theme: Theme) -> Response:
    """A chart of a stored plan. Refused with 404 for a kind that there is not."""
    if kind not in PLAN_CHARTS:
        raise Refused(404, "there is no such chart", f"one of {', '.join(PLAN_CHARTS)}")
    key = (row.plan_id, row.result_hash, kind, theme)
    arguments = (desk.settings.catalogs, row.document, kind, theme)
    return await _kept(desk, key, work.drawn, *arguments)


async def of_gpus(
    desk: Desk, row: StoredPlan, text: str, names: Sequence[str], theme: Theme
) -> Response:
    """A plan's deployment, whose text is given, on several GPUs."""
    key = (row.plan_id, row.result_hash, "gpus", *names, theme)
    arguments = (desk.settings.catalogs, text.encode(), names, theme)
    return await _kept(desk, key, work.gpus_drawn, *arguments)


async def of_two(desk: Desk, before: StoredPlan, after: StoredPlan, theme: Theme) -> Response:
    """Two plans side by side."""
    key = ("two", before.plan_id, before.result_hash, after.plan_id, after.result_hash, theme)
    return await _kept(desk, key, work.diff_drawn, before.document, after.document, theme)


async def of_history(desk: Desk, rows: Sequence[Mapping[str, Any]], theme: Theme) -> Response:
    """Predicted and measured over time; another run changes it, so that it is not kept."""
    timeout_s = desk.settings.limits.plan_s
    picture = await desk.workers.call(work.history, rows, theme, timeout_s=timeout_s)
    return Response(picture, media_type=_MEDIA_TYPE)


async def _kept(desk: Desk, key: tuple[str, ...], job: Job, *arguments: Any) -> Response:
    album = desk.album
    picture = album.find(key)
    if picture is None:
        async with album.drawing:
            picture = album.find(key)  # another request may have waited for the same
            if picture is None:
                timeout_s = desk.settings.limits.plan_s
                picture = await desk.workers.call(job, *arguments, timeout_s=timeout_s)
                album.keep(key, picture)
    return Response(picture, media_type=_MEDIA_TYPE, headers=_DAY)
