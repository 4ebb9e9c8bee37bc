"""Files that pages load."""

from __future__ import annotations

from fastapi import APIRouter, Response

from planner.service.pages.answers import PageRoute
from planner.service.pages.look import assets
from planner.service.problems import Refused

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_YEAR = {"cache-control": "public, max-age=31536000, immutable"}


@router.get("/static/{name}")
async def one(name: str) -> Response:
    """A file by its name; its address changes with its content."""
    found = assets().get(name)
    if found is None:
        raise Refused(404, "there is no such file")
    return Response(found.content, media_type=found.media_type, headers=_YEAR)
