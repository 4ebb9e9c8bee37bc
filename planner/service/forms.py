"""What pages with forms need: a session for each browser, and forms that none but it can send."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Response
from starlette.datastructures import FormData

from planner.service.desk import Desk, desk_of
from planner.service.guard import cookie_of
from planner.service.problems import Refused
from planner.service.sessions import COOKIE, FORM_FIELD, FORM_HEADER, LIFE_S
from planner.service.tokens import Access

_FIELDS = 80


def session_of(request: Request) -> str:
    """The session of the browser that asks; a new one where it has none that counts.

    Without tokens every browser may write; with them a new session is that of ``signed_in`` alone.
    Raises Refused where tokens are needed and the browser has shown none.
    """
    desk = desk_of(request)
    cookie = cookie_of(request.headers)
    if cookie is not None and desk.sessions.access(cookie) is not Access.NONE:
        return cookie
    if desk.settings.tokens.needed:
        raise Refused(401, "a token is needed", "sign in with one")
    return desk.sessions.issue(Access.WRITE)


def signed_in(desk: Desk, token: str) -> str:
    """A session for so much as a token allows. Raises Refused for one that allows nothing."""
    access = desk.settings.tokens.access(token)
    if access is Access.NONE:
        raise Refused(401, "this is no token of this service")
    return desk.sessions.issue(access)


def remember(response: Response, session: str, *, secure: bool) -> None:
    """Give the browser its session, unreadable for scripts.

    Links from other sites lead in with it; what other sites send does not bring it.
    """
    response.set_cookie(
        COOKIE, session, max_age=LIFE_S, httponly=True, samesite="lax", secure=secure, path="/"
    )


async def form_of(request: Request) -> FormData:
    """The form that was sent. Raises Refused where it is of a code that says nothing."""
    try:
        return await request.form(max_files=1, max_fields=_FIELDS)
    except UnicodeError:
        raise Refused(400, "this form is in no code that is read here", "send UTF-8") from None


async def own_form(request: Request) -> FormData:
    """A dependency of routes that forms are sent to: the token of the form, or of its header.

    Raises Refused for a form that was not shown to this browser.
    """
    form = await form_of(request)
    offered = request.headers.get(FORM_HEADER) or str(form.get(FORM_FIELD, ""))
    if not desk_of(request).sessions.form_is_own(cookie_of(request.headers), offered):
        raise Refused(403, "this form is too old, or not of this page", "load the page again")
    return form


Form = Annotated[FormData, Depends(own_form)]
