"""What stands before every request: size, time, host, origin, token; and headers on every answer.

Plain ASGI, so that it bounds what the app itself reads and sends.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from time import monotonic
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planner.service.desk import Desk
from planner.service.problems import Refused, busy, problem
from planner.service.sessions import COOKIE
from planner.service.tokens import Access

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without it browsers send forms as of no origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
OPEN_PATHS = ("/healthz", "/readyz", "/login")
OPEN_FOLDERS = ("/static/",)
"""Answered without a token: they hold nothing of the store."""
UPLOADS = ("/api/v1/runs", "/runs")
"""Where files are taken, so that bodies may be large."""
_DISCARD_S = 2.0
_MOST_DISCARDED_BYTES = 2**26
SAFE = ("GET", "HEAD", "OPTIONS")

_LOG = logging.getLogger("planner.service")
_CONTROL = re.compile(rb"%(0[0-9a-f]|1[0-9a-f]|7f)|[\x00-\x1f\x7f]", re.IGNORECASE)


class SlowClientError(Exception):
    """A client does not take its answer."""


@dataclass(eq=False)
class _Exchange:
    """One request on its way through."""

    scope: Scope
    receive: Receive
    send: Send
    headers: Headers
    begun_s: float = field(default_factory=monotonic)
    status: int = 0
    received_bytes: int = 0
    whole: bool = False
    """Whether all of its body has arrived."""


class Guard:
    """Refuses what should not reach the app, and bounds what does."""

    def __init__(self, app: ASGIApp, desk: Callable[[], Desk]) -> None:
        self._app = app
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await _Guarded(self._desk(), _Exchange(scope, receive, send, Headers(scope=scope))).run(
            self._app
        )


class _Guarded:
    """One request and what holds for it."""

    def __init__(self, desk: Desk, exchange: _Exchange) -> None:
        self._desk = desk
        self._limits = desk.settings.limits
        self._it = exchange

    async def run(self, app: ASGIApp) -> None:
        it = self._it
        try:
            try:
                self._check()
            except Refused as error:
                answer = self._refusal(error)
                await answer(it.scope, self._receive, self._send)
                return
            await app(it.scope, self._receive, self._send)
        except SlowClientError:
            _LOG.info("a client took too long to take its answer")
        except Exception:  # noqa: BLE001 - a bug is logged, and its request answered
            _LOG.exception("bug in %s %s", it.scope["method"], _route(it.scope))
            if not it.status:
                bug = problem(500, "this is a bug of the service; its log has more")
                await bug(it.scope, self._receive, self._send)
        finally:
            self._desk.buffered_bytes -= it.received_bytes
            self._told()

    def _refusal(self, error: Refused) -> Response:
        """A browser that has no session is led to where it gets one."""
        it = self._it
        path = it.scope["path"]
        shown = "text/html" in it.headers.get("accept", "") and not path.startswith("/api/")
        reads = it.scope["method"] in SAFE
        if error.status_code == HTTPStatus.UNAUTHORIZED and reads and shown:
            query = (it.scope.get("query_string") or b"").decode("ascii", "replace")
            place = f"{path}?{query}" if query else path
            return RedirectResponse(f"/login?{urlencode({'next': place})}", 303)
        return problem(error.status_code, error.detail, hint=error.hint, headers=error.headers)

    def _check(self) -> None:
        raw = self._it.scope.get("raw_path") or b""
        if _CONTROL.search(raw) or _CONTROL.search(self._it.scope.get("query_string") or b""):
            raise Refused(400, "the address holds control characters")
        self._check_host()
        access = self._access()
        self._it.scope.setdefault("state", {})["access"] = access
        path, method = self._it.scope["path"], self._it.scope["method"]
        if path not in OPEN_PATHS and not path.startswith(OPEN_FOLDERS):
            self._check_access(access, method)
        if method not in SAFE:
            self._check_origin()
        self._check_length()

    def _check_host(self) -> None:
        """Against pages whose name was made to point here (DNS rebinding)."""
        hosts = self._desk.settings.hosts
        host = self._it.headers.get("host", "")
        name = host.rpartition(":")[0] if re.search(r":\d*$", host) else host
        if hosts is not None and name.lower() not in hosts:
            hint = "--allow-host names more"
            raise Refused(421, "the service is not known under this name", hint)

    def _access(self) -> Access:
        desk = self._desk
        if not desk.settings.tokens.needed:
            return Access.WRITE
        scheme, _, token = self._it.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return desk.settings.tokens.access(token.strip())
        return desk.sessions.access(cookie_of(self._it.headers))

    def _check_access(self, access: Access, method: str) -> None:
        if access is Access.NONE:
            challenge = {"WWW-Authenticate": 'Bearer realm="planner"'}
            raise Refused(401, "a token is needed", "Authorization: Bearer TOKEN", challenge)
        if method not in SAFE and access < Access.WRITE:
            raise Refused(403, "this token is for reading", "use a token for writing")

    def _check_origin(self) -> None:
        """Browsers say where a request comes from; other programs need not."""
        headers = self._it.headers
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refused(403, "requests from pages of other sites change nothing here")
        origin = headers.get("origin")
        if origin is None or origin in self._desk.settings.origins:
            return
        try:
            own = urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
        except ValueError:
            own = False
        if not own or not origin.startswith(("http://", "https://")):
            raise Refused(403, "requests from pages of other sites change nothing here")

    def _check_length(self) -> None:
        length = self._it.headers.get("content-length")
        if length is None:
            return
        if not (length.isascii() and length.isdigit()):
            raise Refused(400, "the length of the body is no number")
        if len(length) > len(str(self._most)) or int(length) > self._most:
            raise self._too_large()

    @property
    def _most(self) -> int:
        upload = self._it.scope["path"].rstrip("/") in UPLOADS
        return self._limits.upload_bytes if upload else self._limits.body_bytes

    def _too_large(self) -> Refused:
        return Refused(413, f"the body is over {self._most} bytes", "send less at a time")

    async def _receive(self) -> Message:
        it = self._it
        left_s = it.begun_s + self._limits.body_s - monotonic()
        if it.status or it.whole:  # only waiting for the client to go away
            return await it.receive()
        try:
            async with asyncio.timeout(max(left_s, 0.001)):
                message = await it.receive()
        except TimeoutError:
            raise Refused(408, "the body took too long to arrive") from None
        it.whole = not message.get("more_body", False)
        size = len(message.get("body", b""))
        it.received_bytes += size
        self._desk.buffered_bytes += size
        if it.received_bytes > self._most:
            raise self._too_large()
        if self._desk.buffered_bytes > self._limits.buffered_bytes:
            raise busy("too much is being uploaded at once")
        return message

    async def _discard(self) -> None:
        """Take the rest of a body and drop it.

        On a connection that is closed with something unread, the answer would be lost.
        """
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_S):
                while not self._it.whole and size < _MOST_DISCARDED_BYTES:
                    message = await self._it.receive()
                    size += len(message.get("body", b""))
                    self._it.whole = not message.get("more_body", False)

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        it = self._it
        if message["type"] == "http.response.start":
            it.status = message["status"]
            present = {name.lower() for name, _ in message.get("headers", [])}
            extra = [
                (name.encode(), value.encode())
                for name, value in HEADERS.items()
                if name.encode() not in present
            ]
            if not it.whole and it.scope["method"] not in SAFE:
                extra.append((b"connection", b"close"))  # what follows is not read
            message["headers"] = [*message.get("headers", []), *extra]
        elif not it.whole and not message.get("more_body") and it.scope["method"] not in SAFE:
            await self._sent({**message, "more_body": True})
            await self._discard()
            message = {"type": "http.response.body"}
        await self._sent(message)

    async def _sent(self, message: MutableMapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(self._limits.send_s):
                await self._it.send(message)
        except TimeoutError:
            raise SlowClientError from None

    def _told(self) -> None:
        it = self._it
        route = _route(it.scope)
        took_s = monotonic() - it.begun_s
        method = it.scope["method"] if it.scope["method"] in _METHODS else "other"
        self._desk.metrics.answered(method, route, it.status, took_s)
        _LOG.info("%s %s %d %.0f ms", method, route, it.status, took_s * 1e3)


def _route(scope: Scope) -> str:
    """The route's pattern: nothing that a client wrote goes into logs and metrics."""
    return str(getattr(scope.get("route"), "path", "other"))


_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")


def cookie_of(headers: Headers) -> str | None:
    """The session cookie of a request."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return found.value if found else None
