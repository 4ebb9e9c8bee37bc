"""What requests share: the store, the workers, running sweeps, sessions, metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Depends, Request

from planner.service import jobs
from planner.service.album import Album
from planner.service.metrics import Metrics
from planner.service.sessions import Sessions
from planner.service.settings import Settings
from planner.service.sweeps import Sweeps
from planner.service.workers import Workers
from planner.spec.catalog import Catalog
from planner.store.repository import Store

T = TypeVar("T")
_READERS = 8
_WARM_S = 120.0


class Desk:
    """One running service. Calls to the store go to threads, a writer at a time for SQLite."""

    def __init__(self, settings: Settings, store: Store, catalog: Catalog) -> None:
        limits = settings.limits
        self.settings = settings
        self.store = store
        self.catalog = catalog
        self.sessions = Sessions()
        self.metrics = Metrics()
        self.album = Album()
        self.workers = Workers(settings.workers, limits.waiting, limits.memory_bytes)
        self.sweeps = Sweeps(settings, self)
        self.draining = asyncio.Event()
        self.buffered_bytes = 0
        self._readers = CapacityLimiter(_READERS)
        # SQLite's own waiting is unfair: of many writers some wait for ever
        self._writers = CapacityLimiter(1 if store.file else _READERS)
        self._warming: list[asyncio.Task[None]] = []
        self.metrics.watch(self.workers, self.sweeps)

    async def read(self, ask: Callable[[Store], T]) -> T:
        """What ``ask`` finds in the store, or computes of it."""
        return await run_sync(ask, self.store, limiter=self._readers)

    async def write(self, change: Callable[[Store], T]) -> T:
        """What ``change`` says of a change that it made to the store."""
        return await run_sync(change, self.store, limiter=self._writers)

    def warm(self) -> None:
        """Have every worker plan once, so that the first request finds it ready; and go on with
        sweeps that another service left.
        """
        for _ in range(self.settings.workers):
            job = self.workers.call(jobs.warm, self.settings.catalogs, timeout_s=_WARM_S)
            self._warming.append(asyncio.create_task(job))
        self._warming.append(asyncio.create_task(self.sweeps.take_over()))

    async def stop(self) -> None:
        """Give up what still runs, and close the store."""
        for task in self._warming:
            task.cancel()
        await self.sweeps.stop()
        self.workers.stop()
        self.store.close()


def desk_of(request: Request) -> Desk:
    """The desk of the service that a request came to."""
    found: Desk = request.app.state.desk
    return found


Served = Annotated[Desk, Depends(desk_of)]
