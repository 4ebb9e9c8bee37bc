"""Charts as pictures of a page: drawn by workers, kept for those who ask again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Response

from planner.charts.theme import Theme
from planner.plan.types import Plan
from planner.service.desk import Desk
from planner.service.pages import work
from planner.service.pages.work import Drawing
from planner.store.types import StoredPlan

_MEDIA_TYPE = "image/svg+xml"
_YEAR = {"cache-control": "private, max-age=31536000, immutable"}


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
    """The charts of a plan. Another answer of our model has other addresses."""
    said = {
        "roofline": "Roofline: every kernel by its intensity and the rate it reaches",
        "modes": "Time of the step in every way to launch it, down to the bare roofline",
        "memory": "Memory of one GPU against its capacity",
        "batch": "Time of a step and throughput by batch",
        "context": "Time of a step and throughput by context",
    }
    swept = (plan.deployment.get("step") or {}).get("decode") is not None
    names = work.DRAWINGS if swept else work.DRAWINGS[:3]
    return tuple(
        Picture(
            f"/plans/{plan.plan_id}/charts/{name}.svg?of={result_hash[:12]}&theme=", said[name], name
        )
        for name in names
    )


async def drawing(desk: Desk, row: StoredPlan, name: Drawing, theme: Theme) -> Response:
    """A chart of a stored plan."""
    key = (row.plan_id, row.result_hash, name, theme)
    picture = desk.album.find(key)
    if picture is None:
        picture = await desk.workers.call(
            work.drawn,
            desk.settings.catalogs,
            row.document,
            name,
            theme,
            timeout_s=desk.settings.limits.plan_s,
        )
        desk.album.keep(key, picture)
    return Response(picture, media_type=_MEDIA_TYPE, headers=_YEAR)


async def history(desk: Desk, rows: Sequence[Mapping[str, Any]], theme: Theme) -> Response:
    """Predicted and measured over time; another run changes it, so nobody keeps it."""
    timeout_s = desk.settings.limits.plan_s
    picture = await desk.workers.call(work.history, rows, theme, timeout_s=timeout_s)
    return Response(picture, media_type=_MEDIA_TYPE)
