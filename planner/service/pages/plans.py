"""Stored plans: listed and filtered, shown, changed, drawn."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from planner.charts.memory import held, limits
from planner.charts.theme import Theme
from planner.desk.archive import restored
from planner.desk.history import history_rows
from planner.plan.diff import diff
from planner.plan.types import Plan
from planner.report.headline import confidence, mode_words, tokens_per_s
from planner.service.bodies import After, Name, PlanId
from planner.service.desk import Served
from planner.service.forms import Form
from planner.service.pages import pictures
from planner.service.pages.answers import PageRoute, onward, page
from planner.service.pages.fields import text_in
from planner.service.pages.write import stored, text_of
from planner.service.problems import absent_is_404
from planner.service.routes.plans import kept, listed, planned
from planner.store.repository import Store

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Before = Annotated[str | None, Query(alias="from", pattern=r"^[0-9a-f]{1,12}$")]
_ROWS = 50
_RUNS = 20
SMALL = 0.005
"""Kernels below this share of the step are folded away."""


@router.get("/plans")
async def list_(
    request: Request,
    desk: Served,
    after: After = None,
    *,
    model: Name = None,
    gpu: Name = None,
    backend: Name = None,
    name: Name = None,
) -> Response:
    """Plans that match; an empty filter is none."""
    chosen = {"model": model, "gpu": gpu, "backend": backend, "name": name}
    filters = {key: value.strip() for key, value in chosen.items() if value and value.strip()}
    rows, following = await listed(desk, _ROWS, after, **filters)
    names = {kind: sorted(desk.catalog.names(kind)) for kind in ("model", "gpu", "backend")}
    return page(request, "plans.html", rows=rows, following=following, filters=filters, names=names)


@router.get("/plans/{plan_id}")
async def one(
    request: Request,
    desk: Served,
    plan_id: PlanId,
    before: Before = None,
) -> Response:
    """A plan with its charts, what would change it, and its runs."""
    row = await stored(desk, plan_id)
    plan, advice = restored(row)
    change = None
    if before is not None and before != plan.plan_id:
        change = diff(restored(await stored(desk, before))[0], plan)
    runs = await desk.read(lambda store: store.runs(_RUNS, plan.plan_id))
    return page(
        request,
        "plan.html",
        plan=plan,
        row=row,
        advice=advice,
        change=change,
        runs=runs,
        gpus=sorted(desk.catalog.names("gpu")),
        pictures=pictures.of_plan(plan, row.result_hash),
        **_figures(plan),
    )


def _figures(plan: Plan) -> dict[str, Any]:
    """What a template cannot work out."""
    kernels = sorted(plan.kernels, key=lambda kernel: -kernel.share)
    return {
        "rate_per_s": tokens_per_s(plan),
        "mode": mode_words(plan.step),
        "confidence": confidence(plan),
        "kernels": [kernel for kernel in kernels if kernel.share >= SMALL],
        "small_kernels": [kernel for kernel in kernels if kernel.share < SMALL],
        "held": held(plan.memory),
        "limits": limits(plan.memory),
        "longest_s": max(mode.time_s for mode in plan.step.modes.values()),
    }


@router.post("/plans/{plan_id}/change")
async def change(desk: Served, plan_id: PlanId, form: Form) -> Response:
    """Plan the same deployment with fields changed, and show that plan beside this one."""
    before = await stored(desk, plan_id)
    sets = text_in(form, "set").split()
    found = await planned(desk, text_of(before).encode(), sets, "calibrated", advice=True)
    await kept(desk, found)
    return onward(f"/plans/{found.plan_id}?from={before.plan_id}")


@router.get("/plans/{plan_id}/charts/history.svg")
async def history(desk: Served, plan_id: PlanId, theme: Theme = "light") -> Response:
    """Predicted and measured figures of a plan over time."""

    def rows(store: Store) -> list[dict[str, object]]:
        with absent_is_404():
            return history_rows(store, _RUNS, plan_id=plan_id)

    return await pictures.of_history(desk, await desk.read(rows), theme)


@router.get("/plans/{plan_id}/charts/{kind}.svg")
async def chart(desk: Served, plan_id: PlanId, kind: str, theme: Theme = "light") -> Response:
    """A chart of a plan."""
    return await pictures.of_row(desk, await stored(desk, plan_id), kind, theme)
