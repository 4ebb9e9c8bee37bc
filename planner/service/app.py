"""The service put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from planner import __version__
from planner.service import jobs, problems
from planner.service.desk import Desk
from planner.service.guard import Guard
from planner.service.models import API
from planner.service.pages import access, compare, results, static, write
from planner.service.pages import plans as plans_pages
from planner.service.pages import sweeps as sweeps_pages
from planner.service.pages.answers import unrouted
from planner.service.routes import baselines, catalog, diffs, health, plans, runs, sweeps
from planner.service.settings import Settings
from planner.store.database import open_store

_ABOUT = """
Plans of LLM deployments: how fast each operator runs and why, which kernels fuse, what CUDA Graphs
save, whether it fits. Numbers are SI with the unit in the name; `null` means that there is no such
figure. Objects are those of `--json` on the command line.
"""


def create(settings: Settings) -> FastAPI:
    """The service as an ASGI application; it opens its store when it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        desk = Desk(settings, open_store(settings.db), jobs.catalog_of(settings.catalogs))
        app.state.desk = desk
        desk.warm()
        try:
            yield
        finally:
            await desk.stop()

    app = FastAPI(
        title="planner",
        version=__version__,
        description=_ABOUT,
        lifespan=lifespan,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    problems.install(app)
    app.add_exception_handler(HTTPException, unrouted)
    for module in (plans, diffs, sweeps, runs, baselines, catalog):
        app.include_router(module.router)
    app.include_router(health.router)
    for page in (access, write, plans_pages, compare, results, sweeps_pages, static):
        app.include_router(page.router)
    app.openapi = partial(_described, app, app.openapi)  # type: ignore[method-assign]
    app.add_middleware(Guard, desk=lambda: app.state.desk)
    return app


def _described(app: FastAPI, describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The OpenAPI document with what every route may answer, and how tokens are given."""
    if app.openapi_schema is None:
        document = describe()
        parts = document.setdefault("components", {})
        template = "#/components/schemas/{model}"
        problem = problems.Problem.model_json_schema(ref_template=template)
        parts.setdefault("schemas", {}).update({**problem.pop("$defs"), "Problem": problem})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{}, {"token": []}]
    assert app.openapi_schema
    return app.openapi_schema
