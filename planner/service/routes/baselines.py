"""Baselines: names for accepted runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from planner.errors import UsageError
from planner.service import models
from planner.service.desk import Served
from planner.service.models import API, answer, problems
from planner.service.problems import absent_is_404
from planner.store.repository import Store
from planner.store.types import BaselineRow

router = APIRouter(prefix=API, tags=["baselines"])
Name = Annotated[str, Path(min_length=1, max_length=100, examples=["main"])]


class Acceptance(BaseModel):
    """A run that a name shall stand for."""

    model_config = ConfigDict(extra="forbid")

    run_id: str = Field(pattern=r"^[0-9a-f]{1,12}$", examples=[models.RUN_ID])
    by: str = Field(
        "service", min_length=1, max_length=100, description="Who accepts it", examples=["ann"]
    )


@router.get(
    "/baselines",
    summary="What every name stands for",
    responses={200: {"model": models.Baselines}, **problems()},
    response_model=None,
)
async def list_(desk: Served) -> Response:
    """By name."""
    rows = await desk.read(lambda store: store.baselines())
    return answer("baselines", {"baselines": [vars(row) for row in rows]})


@router.get(
    "/baselines/{name}",
    summary="What a name stood for over time, the present run first",
    responses={200: {"model": models.Baselines}, **problems(404)},
    response_model=None,
)
async def one(desk: Served, name: Name) -> Response:
    """As `planner baseline show NAME`."""

    def found(store: Store) -> list[BaselineRow]:
        with absent_is_404():
            return store.baseline_history(name)

    rows = await desk.read(found)
    return answer("baselines", {"baselines": [vars(row) for row in rows]})


@router.put(
    "/baselines/{name}",
    summary="Accept a run: let the name stand for it",
    responses={200: {"model": models.Baselines}, **problems(404, 408)},
    response_model=None,
)
async def accept(desk: Served, name: Name, acceptance: Acceptance) -> Response:
    """As `planner baseline set NAME RUN`; the run before stays on record."""
    if not acceptance.by.isprintable():
        raise UsageError("by: a name of printable characters")

    def change(store: Store) -> BaselineRow:
        with absent_is_404():
            run_id = store.run(acceptance.run_id).run_id
        return store.set_baseline(name, run_id, acceptance.by)

    row = await desk.write(change)
    return answer("baselines", {"baselines": [vars(row)]})
