"""What answers look like, for the OpenAPI document; and how they are made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from planner.report.document import to_json
from planner.service.problems import MEDIA_TYPE

API = "/api/v1"
"""Where the interface begins; a change that breaks clients begins elsewhere."""
EXAMPLE_DEPLOYMENT = """\
name: qwen2.5-7b-chat
model: qwen2.5-7b-instruct
gpu: rtx-4090
backend: {name: vllm, version: "0.26"}
step: {decode: {batch: 16, context: 4096}}
"""
PLAN_ID = "3f2a91c05b7e"
RUN_ID = "91c05b7e3f2a"


class Document(BaseModel):
    """An object as ``--json`` prints it; fields may be added."""

    model_config = ConfigDict(extra="allow")

    format: int = Field(examples=[1])
    kind: str


class PlanRow(BaseModel):
    """A stored plan in a listing."""

    plan_id: str = Field(examples=[PLAN_ID])
    result_hash: str
    name: str = Field(examples=["qwen2.5-7b-chat"])
    created_at: datetime
    model: str = Field(examples=["qwen2.5-7b-instruct"])
    gpu: str = Field(examples=["rtx-4090"])
    backend: str = Field(examples=["vllm"])
    step_time_s: float = Field(examples=[0.0213])
    fits: bool


class Plan(Document):
    """A plan; docs/json.md names every field."""

    plan_id: str = Field(examples=[PLAN_ID])
    name: str
    gpu: str
    backend: str
    step: dict[str, Any]
    memory: dict[str, Any]
    kernels: list[dict[str, Any]]
    advice: list[dict[str, Any]] | None


class Plans(Document):
    """A page of plans."""

    plans: list[PlanRow]
    next: str | None = Field(description="What `after` takes for the next page; null at the end")


class Run(BaseModel):
    """A recorded run."""

    model_config = ConfigDict(extra="allow")

    run_id: str = Field(examples=[RUN_ID])
    plan_id: str | None
    recorded_at: datetime
    metrics: list[dict[str, Any]]


class RunDocument(Run):
    """One recorded run as an answer of its own."""

    format: int
    kind: str


class Runs(Document):
    """Recorded runs."""

    runs: list[Run]
    next: str | None = None


class Verdict(Document):
    """A run judged."""

    run_id: str = Field(examples=[RUN_ID])
    plan_id: str | None
    verdict: str = Field(examples=["pass"])


class Baseline(BaseModel):
    """Which run a name stands for."""

    baseline_id: str
    name: str = Field(examples=["main"])
    run_id: str = Field(examples=[RUN_ID])
    set_at: datetime
    set_by: str
    supersedes: str | None


class Baselines(Document):
    """Names, or what one name stood for over time."""

    baselines: list[Baseline]


class SweepHead(BaseModel):
    """A sweep without its answer."""

    sweep_id: str = Field(examples=["0b1f5c9ad7e2"])
    created_at: datetime
    status: str = Field(examples=["running"])
    rows: int = Field(description="Answered so far")
    total: int
    over: list[str] = Field(examples=[["batch=1:512"]])
    error: str | None


class SweepDocument(SweepHead):
    """A sweep; `summary` once it is done."""

    format: int
    kind: str
    summary: dict[str, Any] | None


class SweepList(Document):
    """Sweeps, the newest first."""

    sweeps: list[SweepHead]


def answer(
    kind: str, body: Mapping[str, Any], status: int = 200, location: str | None = None
) -> Response:
    """An object as ``--json`` prints it."""
    headers = {"Location": location} if location else None
    return Response(to_json(kind, body), status, headers, media_type="application/json")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals that a route may answer with, for OpenAPI."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": _REASONS[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in sorted({*statuses, *_ALWAYS})
    }


_REASONS = {
    400: "The request cannot be read",
    401: "A token is needed",
    403: "The token is for reading, or a page of another site sent this",
    404: "There is no such thing",
    408: "The body took too long to arrive",
    413: "The body is too large",
    415: "The body is of another type than is taken here",
    421: "The service is not known under this name",
    422: "Something is wrong with what was asked; every fault at its place",
    429: "Too much at once",
    503: "The store does not answer",
}
_ALWAYS = (400, 401, 403, 413, 421, 422, 503)
