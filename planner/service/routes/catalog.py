"""The catalogue and the schemas of specs."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Response

from planner.desk import catalogue
from planner.report.document import to_json
from planner.service import models
from planner.service.desk import Served
from planner.service.models import API, answer, problems
from planner.service.problems import absent_is_404
from planner.spec.schema import json_schema

router = APIRouter(prefix=API, tags=["catalogue"])
_WORD = r"^[A-Za-z0-9_.+-]{1,100}$"
Kind = Annotated[str, Path(pattern=_WORD, examples=["gpus"])]
Entry = Annotated[str, Path(pattern=_WORD, examples=["rtx-4090"])]
Spec = Annotated[str, Path(pattern=_WORD, examples=["deployment"])]


@router.get(
    "/catalog",
    summary="Kinds of the catalogue, and how many entries each has",
    responses={200: {"model": models.Document}, **problems()},
    response_model=None,
)
async def kinds(desk: Served) -> Response:
    """As `planner catalog list`."""
    rows = catalogue.kinds(desk.catalog)
    return answer("catalog", {"entries_kind": "kinds", "entries": rows})


@router.get(
    "/catalog/{kind}",
    summary="The entries of a kind",
    responses={200: {"model": models.Document}, **problems(404)},
    response_model=None,
)
async def entries(desk: Served, kind: Kind) -> Response:
    """Of gpus, models, blocks, backends, calibrations, prices or ops."""

    def text() -> str:
        with absent_is_404():
            folder = catalogue.folder_of(kind)
        rows = catalogue.rows(desk.catalog, folder)
        return to_json("catalog", {"entries_kind": folder, "entries": rows})

    return Response(await run_sync(text), media_type="application/json")


@router.get(
    "/catalog/{kind}/{name}",
    summary="An entry with the source of every figure",
    responses={200: {"model": models.Document}, **problems(404)},
    response_model=None,
)
async def entry(desk: Served, kind: Kind, name: Entry) -> Response:
    """As `planner catalog show KIND NAME`."""

    def text() -> str:
        with absent_is_404():
            found = catalogue.entry(desk.catalog, catalogue.folder_of(kind), name)
        figures = dict(found.figures)
        if "file" in figures:  # where it lies on the server is nobody's business
            figures["file"] = PurePath(figures["file"]).name
        body = {"name": name, "figures": figures, "entry": found.content}
        return to_json("catalog-entry", body)

    return Response(await run_sync(text), media_type="application/json")


@router.get(
    "/schema/{kind}",
    tags=["schema"],
    summary="The JSON Schema of a kind of spec",
    responses={
        200: {"content": {"application/json": {"schema": {"type": "object"}}}},
        **problems(404),
    },
    response_model=None,
)
async def schema(kind: Spec) -> Response:
    """As `planner schema KIND`."""
    with absent_is_404():
        body = json_schema(kind)
    return Response(json.dumps(body), media_type="application/json")
