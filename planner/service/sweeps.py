"""Sweeps in the background: queued, watched, cancelled, and gone on with after a restart.

The store knows each from before it is acknowledged, and how far it is every few seconds. A service
that starts goes on with what another left, from the last summary of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from planner.errors import PlannerError, StoreError
from planner.service import jobs
from planner.service.problems import Refused, busy
from planner.service.settings import Settings
from planner.service.sweep import Asked, Sweep
from planner.service.workers import Ticket, Workers

if TYPE_CHECKING:
    from planner.service.desk import Desk

_LOG = logging.getLogger("planner.service")
_SIGNS = 4
"""Signs of life within a lease."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Sweeps:
    """The sweeps of one service. Each runs in a process of its own, so that plans go on."""

    def __init__(self, settings: Settings, desk: Desk) -> None:
        limits = settings.limits
        self._limits = limits
        self._folders = settings.catalogs
        self._desk = desk
        self._owner = uuid4().hex[:12]
        inline = not settings.workers
        count = 0 if inline else limits.sweeps_running
        self._workers = Workers(count, limits.sweeps_waiting + 1, limits.memory_bytes)
        self._own: dict[str, Sweep] = {}
        self._stopping = False
        self.watching = 0

    @property
    def unfinished(self) -> int:
        """Queued or running here."""
        return sum(not sweep.ended for sweep in self._own.values())

    @property
    def _room(self) -> int:
        return self._limits.sweeps_running + self._limits.sweeps_waiting - self.unfinished

    async def begin(self, asked: Asked, total: int) -> Sweep:
        """Queue a sweep. Raises Refused for too many rows, and where too many wait."""
        limits = self._limits
        if total > limits.sweep_rows:
            hint = "fewer values, or `planner sweep` on the command line"
            raise Refused(422, f"{total:,} rows are over {limits.sweep_rows:,}", hint)
        if self._room <= 0:
            raise busy("too many sweeps wait already")
        sweep = Sweep(asked, total)
        self._own[sweep.sweep_id] = sweep
        try:
            row = sweep.stored(self._owner)
            await self._desk.write(lambda store: store.save_sweep(row))
        except BaseException:
            del self._own[sweep.sweep_id]
            raise
        self._start(sweep)
        return sweep

    async def find(self, sweep_id: str) -> Sweep:
        """The sweep of an id. Raises Refused."""
        own = self._own.get(sweep_id)
        if own is not None:
            return own
        row = await self._desk.read(lambda store: store.sweep(sweep_id))
        if row is None:
            hint = f"the last {self._limits.sweeps_kept} that ended are kept"
            raise Refused(404, f"there is no sweep {sweep_id[:40]!r}", hint)
        return Sweep.of(row)

    async def newest(self) -> list[Sweep]:
        """All that are kept, the newest first."""
        limits = self._limits
        most = limits.sweeps_kept + limits.sweeps_running + limits.sweeps_waiting
        rows = await self._desk.read(lambda store: store.sweeps(most))
        return [self._own.get(row.sweep_id) or Sweep.of(row) for row in rows]

    async def cancel(self, sweep: Sweep) -> None:
        """Stop a sweep; one that has ended stays as it is."""
        if sweep.ended:
            return
        sweep.change(status="cancelled")
        if sweep.task:
            sweep.task.cancel()
        told = sweep.sweep_id, datetime.now(UTC), sweep.rows
        await self._desk.write(lambda store: store.cancel_sweep(*told))

    async def watch(self, sweep: Sweep, until: asyncio.Event) -> AsyncIterator[Sweep | None]:
        """The sweep at each change until it ends or ``until`` is set; None as a sign of life.

        Whoever is slow misses states, not the last one, and nothing is kept for them meanwhile.
        """
        self.watching += 1
        seen, quiet = -1, 0
        try:
            while not until.is_set():
                if await sweep.newer(seen, 1.0):
                    seen, quiet = sweep.version, 0
                    yield sweep
                    if sweep.ended:
                        return
                elif sweep.sweep_id not in self._own:
                    await self._follow(sweep)
                elif (quiet := quiet + 1) % 15 == 0:
                    yield None
        finally:
            self.watching -= 1

    async def _follow(self, sweep: Sweep) -> None:
        """See how far a sweep of another service is."""
        now = await self.find(sweep.sweep_id)
        if (now.status, now.rows) != (sweep.status, sweep.rows):
            sweep.change(rows=now.rows, summary=now.summary, error=now.error, status=now.status)

    async def take_over(self) -> None:
        """Go on with what other services left, now and whenever one falls silent."""
        lease = timedelta(seconds=self._limits.sweep_lease_s)
        while True:
            now = datetime.now(UTC)
            with contextlib.suppress(StoreError):
                if (room := self._room) > 0:
                    taken = await self._desk.write(
                        lambda store: store.claim_sweeps(self._owner, now - lease, now, room)  # noqa: B023 - awaited here
                    )
                    for row in taken:
                        self._own[row.sweep_id] = sweep = Sweep.of(row)
                        self._start(sweep)
            await asyncio.sleep(lease.total_seconds() / _SIGNS)

    async def stop(self) -> None:
        """Leave what runs to the service that starts next."""
        self._stopping = True
        tasks = [(sweep, sweep.task) for sweep in self._own.values() if sweep.task]
        for sweep, task in tasks:
            if not sweep.ended:
                task.cancel()
        await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)
        self._workers.stop()

    def _start(self, sweep: Sweep) -> None:
        sweep.task = asyncio.create_task(self._run(sweep))

    async def _run(self, sweep: Sweep) -> None:
        signs = asyncio.create_task(self._signs(sweep))
        try:
            await self._answered(sweep)
        except asyncio.CancelledError:
            if not self._stopping:
                sweep.change(status="cancelled")
        finally:
            signs.cancel()
            await self._keep(sweep, left=self._stopping and not sweep.ended)
            if sweep.ended:
                await self._forget(sweep)

    async def _answered(self, sweep: Sweep) -> None:
        if sweep.starts > self._limits.sweep_starts:
            sweep.change(status="failed", error=f"interrupted {sweep.starts - 1} times")
            return
        loop = asyncio.get_running_loop()

        def told(found: tuple[int, dict[str, Any] | None]) -> None:
            rows, summary = found
            more = {} if summary is None else {"summary": summary}
            loop.call_soon_threadsafe(lambda: sweep.change(status="running", rows=rows, **more))

        asked = sweep.asked
        arguments = (self._folders, asked.deployment, asked.sets, asked.over)
        options: dict[str, Any] = {
            "cost_model": asked.cost_model,
            "sort": asked.sort,
            "top": asked.top,
        }
        options |= {"before": sweep.summary, "every_s": self._limits.sweep_lease_s / _SIGNS}
        ticket = Ticket(jobs.sweep, arguments, options, self._limits.sweep_s, told)
        try:
            summary = await self._workers.do(ticket)
        except (PlannerError, Refused) as error:
            said = error.detail if isinstance(error, Refused) else str(error)
            sweep.change(status="failed", error=said)
        except Exception as error:  # a bug: who watches must not wait for ever
            sweep.change(status="failed", error="this is a bug of the service; its log has more")
            raise error from None
        else:
            sweep.change(status="done", rows=summary["count"], summary=summary)

    async def _signs(self, sweep: Sweep) -> None:
        """Tell the store how far a sweep is, and stop one that another has cancelled or taken."""
        while True:
            await asyncio.sleep(self._limits.sweep_lease_s / _SIGNS)
            if not await self._keep(sweep) and sweep.task and not sweep.ended:
                sweep.task.cancel()

    async def _keep(self, sweep: Sweep, *, left: bool = False) -> bool:
        """Tell the store; with ``left``, that nobody is at it any more. True where it cannot be
        reached: it may be again the next time.
        """
        fields = sweep.kept() | ({"seen_at": _LONG_AGO, "status": "queued"} if left else {})
        try:
            return await self._desk.write(
                lambda store: store.keep_sweep(sweep.sweep_id, self._owner, **fields)
            )
        except StoreError as error:
            _LOG.warning("a sweep's state cannot be stored: %s", error)
            return True

    async def _forget(self, sweep: Sweep) -> None:
        """What has ended stands in the store, the last of them for those who ask again."""
        with contextlib.suppress(StoreError):
            await self._desk.write(lambda store: store.forget_sweeps(self._limits.sweeps_kept))
            self._own.pop(sweep.sweep_id, None)
