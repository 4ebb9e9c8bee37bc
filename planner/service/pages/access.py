"""Signing in with a token, where tokens guard the service."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request, Response

from planner.service.desk import Served
from planner.service.forms import Form, form_of, remember, signed_in
from planner.service.pages.answers import PageRoute, onward, page, secure
from planner.service.pages.fields import text_in
from planner.service.problems import Refused
from planner.service.sessions import COOKIE

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_OWN = re.compile(r"/(?!/)[\w/?=&.,%+-]*", re.ASCII)
"""A place of this service: what follows signing in leads nowhere else."""
_LONGEST = 500


@router.get("/login")
async def ask(request: Request, next: str = "/") -> Response:  # noqa: A002 - as it stands in addresses
    """A form for a token."""
    return page(request, "login.html", place=_own(next), wrong=False)


@router.post("/login")
async def enter(request: Request, desk: Served) -> Response:
    """A session for a token. Its form has no secret of a session yet; the guard checks Origin."""
    form = await form_of(request)
    place = _own(str(form.get("next") or "/"))
    try:
        session = signed_in(desk, text_in(form, "token"))
    except Refused as error:
        return page(request, "login.html", error.status_code, place=place, wrong=True)
    answer = onward(place)
    remember(answer, session, secure=secure(request))
    return answer


@router.post("/logout")
async def leave(_: Form) -> Response:
    """Have the browser forget its session."""
    answer = onward("/login")
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _own(place: str) -> str:
    return place if len(place) <= _LONGEST and _OWN.fullmatch(place) else "/"
