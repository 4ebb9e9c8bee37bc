"""Bodies and query parameters that several routes take."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request

from planner.service.models import EXAMPLE_DEPLOYMENT
from planner.service.problems import Refused
from planner.spec.question import CostModel

YAML_TYPES = (
    "application/yaml",
    "application/json",
    "application/x-yaml",
    "text/yaml",
    "text/x-yaml",
)
_WORD = r"^[\w.+:-]+$"

DEPLOYMENT_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A deployment, in YAML or JSON. Names of the catalogue only, no paths.",
        "content": {
            "application/yaml": {"schema": {"type": "string"}, "example": EXAMPLE_DEPLOYMENT},
            "application/json": {
                "schema": {"type": "object"},
                "example": {
                    "model": "qwen2.5-7b-instruct",
                    "gpu": "rtx-4090",
                    "backend": {"name": "vllm"},
                    "step": {"decode": {"batch": 16, "context": 4096}},
                },
            },
        },
    }
}
FILE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file as it is, of any format that `planner record` takes.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _deployment(request: Request) -> bytes:
    if _media_type(request) not in YAML_TYPES:
        hint = f"Content-Type: one of {', '.join(YAML_TYPES)}"
        raise Refused(415, "a deployment is YAML or JSON", hint)
    return await request.body()


async def _file(request: Request) -> bytes:
    if _media_type(request) != "application/octet-stream":
        hint = "Content-Type: application/octet-stream, with the file as it is"
        raise Refused(415, "a file is sent as bytes", hint)
    return await request.body()


Deployment = Annotated[bytes, Depends(_deployment)]
File = Annotated[bytes, Depends(_file)]
Sets = Annotated[
    list[Annotated[str, Query(max_length=500)]],
    Query(
        alias="set",
        max_length=16,
        description="PATH=VALUE: changes a field of the deployment, as `--set` does.",
        examples=[["step.decode.batch=32"]],
    ),
]
Model = Annotated[
    CostModel, Query(alias="cost_model", description="What times kernels, as `--model` does.")
]
Limit = Annotated[int, Query(ge=1, le=500, description="The most rows of a page.")]
After = Annotated[
    str | None,
    Query(pattern=_WORD, max_length=100, description="The `next` of the page before."),
]
PlanId = Annotated[
    str,
    Path(pattern=r"^[0-9a-f]{1,12}$", description="A plan's id, or its beginning."),
]
RunId = Annotated[
    str, Path(pattern=r"^[0-9a-f]{1,12}$", description="A run's id, or its beginning.")
]
Id = Annotated[str, Query(pattern=r"^[0-9a-f]{1,12}$")]
Name = Annotated[str | None, Query(max_length=200)]
