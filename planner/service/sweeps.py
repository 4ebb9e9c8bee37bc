"""Sweeps in the background: queued, watched, cancelled; finished ones are kept for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

from planner.errors import PlannerError
from planner.service import jobs
from planner.service.problems import Refused, busy
from planner.service.settings import Settings
from planner.service.workers import Ticket, Workers
from planner.spec.question import CostModel

Status = Literal["queued", "running", "done", "cancelled", "failed"]
_ENDS = ("done", "cancelled", "failed")


@dataclass(frozen=True)
class Asked:
    """What a sweep is of."""

    deployment: bytes
    over: tuple[str, ...]
    sets: tuple[str, ...]
    sort: str
    top: int
    cost_model: CostModel


@dataclass(eq=False)
class Sweep:
    """One sweep, as it stands now."""

    asked: Asked
    total: int
    """Rows."""
    sweep_id: str = field(default_factory=lambda: uuid4().hex[:12])
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: Status = "queued"
    rows: int = 0
    """Answered so far."""
    error: str | None = None
    summary: dict[str, Any] | None = None
    version: int = 0
    """Counts its changes."""
    task: asyncio.Task[None] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ended(self) -> bool:
        """Whether nothing more will change."""
        return self.status in _ENDS

    def change(self, **fields: Any) -> None:
        """Set fields and wake who watches; nothing changes after the end."""
        if self.ended:
            return
        for name, value in fields.items():
            setattr(self, name, value)
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def newer(self, version: int, timeout_s: float) -> bool:
        """Wait until it has changed since; False where it did not within the time."""
        if self.version > version:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        return self.version > version

    def head(self) -> dict[str, Any]:
        """All but the answer, as plain data."""
        return {
            "sweep_id": self.sweep_id,
            "created_at": self.created_at,
            "status": self.status,
            "rows": self.rows,
            "total": self.total,
            "over": list(self.asked.over),
            "error": self.error,
        }


class Sweeps:
    """The sweeps of one service. Each runs in a process of its own, so that plans go on."""

    def __init__(self, settings: Settings) -> None:
        limits = settings.limits
        self._limits = limits
        self._folders = settings.catalogs
        inline = not settings.workers
        count = 0 if inline else limits.sweeps_running
        self._workers = Workers(count, limits.sweeps_waiting + 1, limits.memory_bytes)
        self._all: dict[str, Sweep] = {}
        self.watching = 0

    @property
    def unfinished(self) -> int:
        """Queued or running."""
        return sum(not sweep.ended for sweep in self._all.values())

    def begin(self, asked: Asked, total: int) -> Sweep:
        """Queue a sweep. Raises Refused for too many rows, and where too many wait."""
        limits = self._limits
        if total > limits.sweep_rows:
            hint = "fewer values, or `planner sweep` on the command line"
            raise Refused(422, f"{total:,} rows are over {limits.sweep_rows:,}", hint)
        if self.unfinished >= limits.sweeps_running + limits.sweeps_waiting:
            raise busy("too many sweeps wait already")
        self._forget()
        sweep = Sweep(asked, total)
        self._all[sweep.sweep_id] = sweep
        sweep.task = asyncio.create_task(self._run(sweep))
        return sweep

    def find(self, sweep_id: str) -> Sweep:
        """The sweep of an id. Raises Refused."""
        found = self._all.get(sweep_id)
        if found is None:
            hint = "a finished sweep is kept for a while, and not over a restart"
            raise Refused(404, f"there is no sweep {sweep_id[:40]!r}", hint)
        return found

    def newest(self) -> list[Sweep]:
        """All that are kept, the newest first."""
        return list(reversed(self._all.values()))

    async def cancel(self, sweep: Sweep) -> None:
        """Stop a sweep; one that has ended stays as it is."""
        if sweep.task and not sweep.ended:
            sweep.change(status="cancelled")
            sweep.task.cancel()

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
                elif (quiet := quiet + 1) % 15 == 0:
                    yield None
        finally:
            self.watching -= 1

    async def stop(self) -> None:
        """Cancel what runs."""
        for sweep in self.newest():
            await self.cancel(sweep)
        self._workers.stop()

    async def _run(self, sweep: Sweep) -> None:
        loop = asyncio.get_running_loop()

        def report(rows: int) -> None:
            loop.call_soon_threadsafe(lambda: sweep.change(status="running", rows=rows))

        asked = sweep.asked
        arguments = (self._folders, asked.deployment, asked.sets, asked.over)
        options = {"cost_model": asked.cost_model, "sort": asked.sort, "top": asked.top}
        ticket = Ticket(jobs.sweep, arguments, options, self._limits.sweep_s, report)
        try:
            summary = await self._workers.do(ticket)
        except (PlannerError, Refused) as error:
            told = error.detail if isinstance(error, Refused) else str(error)
            sweep.change(status="failed", error=told)
        except asyncio.CancelledError:
            sweep.change(status="cancelled")
        except Exception as error:  # a bug: who watches must not wait for ever
            sweep.change(status="failed", error="this is a bug of the service; its log has more")
            raise error from None
        else:
            sweep.change(status="done", rows=summary["count"], summary=summary)

    def _forget(self) -> None:
        ended = [sweep for sweep in self._all.values() if sweep.ended]
        for sweep in ended[: max(0, len(ended) - self._limits.sweeps_kept + 1)]:
            del self._all[sweep.sweep_id]
