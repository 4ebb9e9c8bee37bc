"""Sweeps: begun, watched, cancelled."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse

from planner.report.document import to_json
from planner.service import jobs, models
from planner.service.desk import Desk, Served
from planner.service.models import API, EXAMPLE_DEPLOYMENT, answer, problems
from planner.service.problems import busy
from planner.service.sweep import Asked, Sweep
from planner.spec.question import CostModel

router = APIRouter(prefix=API, tags=["sweeps"])

Text = Annotated[str, Field(min_length=1, max_length=2000)]
SweepId = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]


_EVENT = {
    "type": "object",
    "required": ["id", "event", "data"],
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string", "enum": ["progress", "end"]},
        "data": {"type": "string", "description": "The sweep as JSON"},
    },
}


class SweepRequest(BaseModel):
    """A deployment and the values that some of its fields take."""

    model_config = ConfigDict(extra="forbid")

    deployment: str = Field(
        description="A deployment in YAML or JSON, as text", examples=[EXAMPLE_DEPLOYMENT]
    )
    over: list[Text] = Field(
        min_length=1,
        max_length=32,
        description="Axes, as `--over` takes them",
        examples=[["gpu=rtx-4090,h100-sxm", "batch=1:512"]],
    )
    sets: list[Text] = Field([], max_length=64, description="As `--set`")
    sort: Literal[
        "tok_s_per_gpu", "tok_s", "step_ms", "tpot_ms", "ttft_ms", "latency_s", "usd_per_mtok"
    ] = "tok_s_per_gpu"
    top: int = Field(20, ge=1, le=1000, description="Rows that are kept, the best first")
    cost_model: CostModel = "calibrated"


@router.post(
    "/sweeps",
    status_code=202,
    summary="Begin a sweep in the background",
    responses={202: {"model": models.SweepDocument}, **problems(408, 429)},
    response_model=None,
)
async def begin(desk: Served, asked: SweepRequest) -> Response:
    """As `planner sweep`. `/sweeps/{id}/events` tells of its progress."""
    raw = asked.deployment.encode("utf-8", "replace")
    what = Asked(raw, tuple(asked.over), tuple(asked.sets), asked.sort, asked.top, asked.cost_model)
    sweep = await begun(desk, what)
    return answer("sweep-task", _document(sweep), 202, f"{API}/sweeps/{sweep.sweep_id}")


async def begun(desk: Desk, what: Asked) -> Sweep:
    """A sweep, queued. Raises what is wrong with it without any axis, and Refused."""
    timeout_s = desk.settings.limits.plan_s
    total = await desk.workers.call(
        jobs.sweep_rows, what.deployment, what.sets, what.over, timeout_s=timeout_s
    )
    return await desk.sweeps.begin(what, total)


def _document(sweep: Sweep) -> dict[str, Any]:
    return {**sweep.head(), "summary": sweep.summary if sweep.status == "done" else None}


@router.get(
    "/sweeps",
    summary="List sweeps, the newest first",
    responses={200: {"model": models.SweepList}, **problems()},
    response_model=None,
)
async def list_(desk: Served) -> Response:
    """Those that run, and the last that ended, of every service of this store."""
    return answer("sweeps", {"sweeps": [sweep.head() for sweep in await desk.sweeps.newest()]})


@router.get(
    "/sweeps/{sweep_id}",
    summary="A sweep, with its answer once it is done",
    responses={200: {"model": models.SweepDocument}, **problems(404)},
    response_model=None,
)
async def one(desk: Served, sweep_id: SweepId) -> Response:
    """`summary` is what `planner sweep --json` prints."""
    return answer("sweep-task", _document(await desk.sweeps.find(sweep_id)))


@router.delete(
    "/sweeps/{sweep_id}",
    summary="Cancel a sweep",
    responses={200: {"model": models.SweepDocument}, **problems(404)},
    response_model=None,
)
async def cancel(desk: Served, sweep_id: SweepId) -> Response:
    """One that has ended stays as it is."""
    sweep = await desk.sweeps.find(sweep_id)
    await desk.sweeps.cancel(sweep)
    return answer("sweep-task", _document(sweep))


@router.get(
    "/sweeps/{sweep_id}/events",
    summary="A sweep's progress as server-sent events",
    responses={
        200: {
            "description": "`progress` at each change, `end` last; data is the sweep",
            "content": {"text/event-stream": {"schema": _EVENT}},
        },
        **problems(404, 429),
    },
    response_model=None,
)
async def events(desk: Served, sweep_id: SweepId) -> Response:
    """Each event is the whole state, so that one that is missed is not missing."""
    sweep = await desk.sweeps.find(sweep_id)
    if desk.sweeps.watching >= desk.settings.limits.streams:
        raise busy("too many clients watch sweeps")
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(desk, sweep), headers=headers, media_type="text/event-stream")


async def _stream(desk: Desk, sweep: Sweep) -> AsyncIterator[str]:
    async for state in desk.sweeps.watch(sweep, desk.draining):
        if state is None:
            yield ": still here\n\n"
            continue
        name = "end" if state.ended else "progress"
        data = json.dumps(json.loads(to_json("sweep-task", state.head())))
        yield f"id: {state.version}\nevent: {name}\ndata: {data}\n\n"
