"""Whether the service lives, whether it is ready, and its metrics."""

from __future__ import annotations

import logging

from fastapi import APIRouter, Response

from planner.errors import StoreError
from planner.service.desk import Served
from planner.service.metrics import MEDIA_TYPE
from planner.service.models import problems

router = APIRouter(tags=["health"])
_PLAIN = {"content": {"text/plain": {"schema": {"type": "string"}}}}
_LOG = logging.getLogger("planner.service")


@router.get("/healthz", summary="Whether it lives", responses={200: _PLAIN}, response_model=None)
async def alive() -> Response:
    """It answers, so it does."""
    return Response("ok\n", media_type="text/plain")


@router.get(
    "/readyz",
    summary="Whether it takes requests and its store answers",
    responses={200: _PLAIN, 503: {**_PLAIN, "description": "Not now"}},
    response_model=None,
)
async def ready(desk: Served) -> Response:
    """503 while it drains, or where the store does not answer."""
    if desk.draining.is_set():
        return Response("draining\n", 503, media_type="text/plain")
    try:
        await desk.read(lambda store: store.revision())
    except StoreError as error:
        _LOG.warning("not ready: %s", error)
        return Response("the store does not answer\n", 503, media_type="text/plain")
    return Response("ready\n", media_type="text/plain")


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    responses={200: _PLAIN, **problems()},
    response_model=None,
)
async def metrics(desk: Served) -> Response:
    """Counts and times by route; a token for reading is enough."""
    return Response(desk.metrics.text(), media_type=MEDIA_TYPE)
