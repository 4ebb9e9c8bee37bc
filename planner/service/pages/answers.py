"""Pages as answers: with the session's cookie, and errors as pages too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from planner.errors import PlannerError
from planner.service.desk import desk_of
from planner.service.pages.look import draws, rendered
from planner.service.problems import told
from planner.service.sessions import COOKIE, LIFE_S
from planner.service.tokens import Access


def page(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """A page. A browser without a session is given one, so that its forms can be known again."""
    desk = desk_of(request)
    access: Access = request.state.access
    cookie = request.cookies.get(COOKIE)
    fresh = desk.sessions.access(cookie) is not access
    if cookie is None or fresh:
        cookie = desk.sessions.issue(access)
    shared = {
        "form_token": desk.sessions.form_token(cookie),
        "can_write": access >= Access.WRITE,
        "guarded": desk.settings.tokens.needed,
        "path": request.url.path,
        "draws": draws(),
    }
    answer = HTMLResponse(rendered(template, shared | context), status)
    if fresh and access is not Access.NONE:
        keep(answer, request, cookie)
    return answer


def keep(answer: Response, request: Request, cookie: str) -> None:
    """Have the browser keep a session."""
    secure = request.url.scheme == "https"
    answer.set_cookie(
        COOKIE, cookie, max_age=LIFE_S, path="/", secure=secure, httponly=True, samesite="lax"
    )


def fragment(template: str, **context: Any) -> Response:
    """A part of a page."""
    return HTMLResponse(rendered(template, context))


def onward(address: str) -> Response:
    """To another page, after a form."""
    return RedirectResponse(address, 303)


class PageRoute(APIRoute):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As every route's."""
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handler(request)
            except (PlannerError, HTTPException, RequestValidationError) as error:
                found = told(error)
                answer = page(request, "refused.html", found.status, found=found)
                answer.headers.update(found.headers)
                return answer

        return handled
