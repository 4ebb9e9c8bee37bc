"""Writing a deployment: faults as one types, and its plan."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from planner.errors import PlannerError
from planner.service import jobs
from planner.service.bodies import Id
from planner.service.desk import Desk, Served
from planner.service.forms import Form
from planner.service.models import EXAMPLE_DEPLOYMENT
from planner.service.pages import work
from planner.service.pages.answers import PageRoute, fragment, onward, page
from planner.service.pages.fields import deployment_in
from planner.service.problems import absent_is_404, told
from planner.service.routes.plans import kept, planned
from planner.spec.again import spec_again
from planner.spec.write import written
from planner.store.types import StoredPlan

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
async def write(request: Request, desk: Served, of: Id | None = None) -> Response:
    """An empty sheet with an example, or the deployment of a stored plan."""
    text = EXAMPLE_DEPLOYMENT
    if of is not None:
        text = text_of(await stored(desk, of))
    return page(request, "write.html", text=text, found=None, about=None)


async def stored(desk: Desk, plan_id: str) -> StoredPlan:
    """The plan whose id begins so. Refused with 404 where there is none."""
    with absent_is_404():
        return await desk.read(lambda store: store.plan(plan_id))


def text_of(plan: StoredPlan) -> str:
    """The deployment of a plan as one writes it."""
    return written(spec_again(plan.document["deployment"]))


@router.post("/check")
async def check(desk: Served, form: Form) -> Response:
    """What is wrong with a text, to be put under it."""
    raw = deployment_in(form).encode()
    try:
        about = await desk.workers.call(
            work.check, desk.settings.catalogs, raw, timeout_s=desk.settings.limits.plan_s
        )
    except PlannerError as error:
        return fragment("faults.html", found=told(error), about=None, file=jobs.DEPLOYMENT)
    return fragment("faults.html", found=None, about=about, file=jobs.DEPLOYMENT)


@router.post("/plans")
async def make(request: Request, desk: Served, form: Form) -> Response:
    """Plan a text and show the plan; back to the text where something is wrong with it."""
    text = deployment_in(form)
    try:
        found = await planned(desk, text.encode(), [], "calibrated", advice=True)
    except PlannerError as error:
        wrong = told(error)
        return page(request, "write.html", wrong.status, text=text, found=wrong, about=None)
    await kept(desk, found)
    return onward(f"/plans/{found.plan_id}")
