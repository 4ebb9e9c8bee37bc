"""Pages as answers: with the session's cookie, and errors as pages too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from planner.errors import PlannerError
from planner.service.desk import desk_of
from planner.service.forms import remember, session_of
from planner.service.guard import cookie_of
from planner.service.pages.look import draws, rendered
from planner.service.problems import Refused, problem_of, told
from planner.service.tokens import Access

HTML = "text/html"


def page(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """A page. A browser without a session is given one, so that its forms can be known again."""
    desk = desk_of(request)
    session = _session(request)
    shared = {
        "form_token": desk.sessions.form_token(session) if session else "",
        "can_write": request.state.access >= Access.WRITE,
        "guarded": desk.settings.tokens.needed,
        "path": request.url.path,
        "draws": draws(),
    }
    answer = HTMLResponse(rendered(template, shared | context), status)
    if session and session != cookie_of(request.headers):
        remember(answer, session, secure=secure(request))
    return answer


def _session(request: Request) -> str | None:
    """None before signing in, and for programs that bring a token with each request."""
    try:
        return session_of(request)
    except Refused:
        return None


def secure(request: Request) -> bool:
    """Whether a cookie may be kept for TLS alone."""
    return request.url.scheme == "https"


def fragment(template: str, **context: Any) -> Response:
    """A part of a page."""
    return HTMLResponse(rendered(template, context))


def onward(address: str) -> Response:
    """To another page, after a form."""
    return RedirectResponse(address, 303)


async def unrouted(request: Request, error: Exception) -> Response:
    """An address that leads nowhere, to a browser as a page."""
    wants = request.headers.get("accept", "")
    api = request.url.path.startswith("/api/")
    if getattr(error, "status_code", None) != HTTPStatus.NOT_FOUND or api or HTML not in wants:
        return problem_of(error)
    missing = Refused(HTTPStatus.NOT_FOUND, "there is no such page")
    return page(request, "refused.html", missing.status_code, found=told(missing))


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
