"""One sweep of a service: what was asked, how far it is, who watches it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args
from uuid import uuid4

from planner.report.document import to_json
from planner.spec.question import CostModel
from planner.store.types import StoredSweep

Status = Literal["queued", "running", "done", "cancelled", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)
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

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "deployment": self.deployment.decode("utf-8", "replace")}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Asked:
        """From plain data."""
        lists = {name: tuple(data[name]) for name in ("over", "sets")}
        return cls(**{**data, **lists, "deployment": data["deployment"].encode()})


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
    """Of all rows once it is done; until then of the first so many."""
    starts: int = 1
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

    def kept(self) -> dict[str, Any]:
        """What the store is told of its state."""
        answer = {"error": self.error, "summary": self.summary}
        # what JSON has no word for is null, as in every answer
        plain = json.loads(to_json("sweep-task", answer))
        return {
            "status": self.status,
            "rows": self.rows,
            "answer": {name: plain[name] for name in answer},
            "seen_at": datetime.now(UTC),
        }

    def stored(self, owner: str) -> StoredSweep:
        """As the store keeps it."""
        return StoredSweep(
            sweep_id=self.sweep_id,
            created_at=self.created_at,
            total=self.total,
            owner=owner,
            starts=self.starts,
            asked=self.asked.plain(),
            **self.kept(),
        )

    @classmethod
    def of(cls, row: StoredSweep) -> Sweep:
        """From the store."""
        (status,) = (each for each in STATUSES if each == row.status)
        return cls(
            Asked.of(row.asked),
            row.total,
            row.sweep_id,
            row.created_at,
            status,
            row.rows,
            row.answer["error"],
            row.answer["summary"],
            row.starts,
        )
