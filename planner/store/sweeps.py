"""Sweeps of a service: what was asked, how far each is, what was found, who is at it.

A sweep belongs to the service that last said so. One that has not been heard of for a while is
another's for the taking, so that a sweep outlives the service that began it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select, update

from planner.store.session import Session
from planner.store.tables import sweep as table
from planner.store.types import StoredSweep

_UNFINISHED = ("queued", "running")


class SweepMethods(Session):
    """The sweeps of a store."""

    def save_sweep(self, row: StoredSweep) -> None:
        """Keep a new sweep."""
        with self._writing() as connection:
            connection.execute(table.insert(), dict(vars(row)))

    def sweep(self, sweep_id: str) -> StoredSweep | None:
        """The sweep of a whole id."""
        found = self._sweeps(select(table).where(table.c.sweep_id == sweep_id))
        return found[0] if found else None

    def sweeps(self, limit: int) -> list[StoredSweep]:
        """The newest first."""
        return self._sweeps(select(table).order_by(table.c.created_at.desc()).limit(limit))

    def keep_sweep(self, sweep_id: str, owner: str, **fields: Any) -> bool:
        """Say how far a sweep is. False where it has ended, or is another service's by now."""
        own = table.c.owner == owner, table.c.status.in_(_UNFINISHED)
        change = update(table).where(table.c.sweep_id == sweep_id, *own).values(**fields)
        with self._writing() as connection:
            return connection.execute(change).rowcount == 1

    def cancel_sweep(self, sweep_id: str, at: datetime, rows: int) -> None:
        """Have whoever is at a sweep stop; one that has ended stays as it is."""
        mine = table.c.sweep_id == sweep_id, table.c.status.in_(_UNFINISHED)
        with self._writing() as connection:
            connection.execute(
                update(table).where(*mine).values(status="cancelled", seen_at=at, rows=rows)
            )

    def claim_sweeps(
        self, owner: str, before: datetime, now: datetime, most: int
    ) -> list[StoredSweep]:
        """Take over unfinished sweeps of others, not heard of since, the oldest first.

        Whoever was stopped for a while, as with its machine, is still at its own.
        """
        silent = table.c.seen_at < before, table.c.owner != owner
        left = table.c.status.in_(_UNFINISHED), *silent
        query = select(table).where(*left).order_by(table.c.created_at).limit(most)
        taken = []
        for row in self._sweeps(query):
            change = update(table).where(table.c.sweep_id == row.sweep_id, *left)
            values = {"owner": owner, "seen_at": now, "starts": row.starts + 1}
            with self._writing() as connection:
                if connection.execute(change.values(**values)).rowcount == 1:
                    taken.append(StoredSweep(**{**vars(row), **values}))
        return taken

    def forget_sweeps(self, kept: int) -> None:
        """Remove the oldest that have ended, all but so many."""
        ended = ~table.c.status.in_(_UNFINISHED)
        query = select(table.c.sweep_id).where(ended).order_by(table.c.created_at.desc())
        with self._writing() as connection:
            old: Sequence[str] = connection.scalars(query.offset(kept)).all()
            if old:
                connection.execute(delete(table).where(table.c.sweep_id.in_(old)))

    def _sweeps(self, query: Any) -> list[StoredSweep]:
        with self._reading() as connection:
            return [StoredSweep(**row) for row in connection.execute(query).mappings()]
