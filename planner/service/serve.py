"""Runs the service: its socket, its signals, connections that never say anything."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from planner.errors import UsageError
from planner.service.app import create
from planner.service.settings import Limits, Settings

_BACKLOG = 256
_LARGEST_HEAD_BYTES = 128 * 2**10
"""Sixteen settings of 500 characters, each of which may be twelve bytes in an address."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


def opened(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises UsageError where it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise UsageError(
            f"cannot listen at {host}:{port}: {reason}", "try another --port"
        ) from None


def serve(settings: Settings, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Answer requests until SIGTERM or SIGINT, then finish those that are running.

    ``ready`` is called once requests are taken. Raises StoreError where the store cannot be opened.
    """
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s")
    server_of(settings, ready).run(sockets=[listening])


def server_of(settings: Settings, ready: Callable[[], None]) -> uvicorn.Server:
    """The server, not yet running."""
    app = create(settings)
    limits = settings.limits
    config = uvicorn.Config(
        app,
        http=protocol(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(limits.header_s),
        timeout_graceful_shutdown=int(limits.drain_s),
        limit_concurrency=limits.connections,
        h11_max_incomplete_event_size=_LARGEST_HEAD_BYTES,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").disabled = True  # it writes what clients ask for
    return _Server(config, app, ready)


class _Server(uvicorn.Server):
    """Tells the app at the signal that it drains, so that streams end."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, then say that requests are taken."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain at the first signal, stop at the second. uvicorn's own dies by it at the end."""
        del sig, frame
        desk = getattr(self._app.state, "desk", None)
        if desk is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(desk.draining.set)
        self.force_exit = self.should_exit
        self.should_exit = True


def protocol(limits: Limits) -> type[H11Protocol]:
    """HTTP with a limit on the time that the head of a request may take to arrive.

    uvicorn limits only the time between requests: a byte a minute would hold a connection for ever.
    """

    class Bounded(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._wait()

        def _wait(self) -> None:
            self._stop()
            self._head_timer = self.loop.call_later(limits.header_s, self._late)

        def _stop(self) -> None:
            if self._head_timer:
                self._head_timer.cancel()

        def _late(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

    return Bounded
