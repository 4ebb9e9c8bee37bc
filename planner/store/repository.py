"""Saving plans and finding them again. Rows are appended; nothing here edits or removes one."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, select
from sqlalchemy.sql.dml import ReturningInsert

from planner.errors import UsageError
from planner.store.engine import writing
from planner.store.faults import explained, refusal
from planner.store.tables import plan as plan_table
from planner.store.tables import plan_kernel
from planner.store.types import PlanRow, StoredPlan

_KERNEL_COLUMNS = ("name", "block", "repeat", "hbm_bytes", "time_s", "bound", "evidence")
_ROW_COLUMNS = [plan_table.c[field.name] for field in fields(PlanRow)]
_LISTED = 10  # ids named in a message
_COMPARED = 1000  # newest ids that a misspelt one is compared with


class Store:
    """An open database. Every method raises StoreError when the database refuses."""

    def __init__(self, engine: Engine, place: str) -> None:
        self._engine = engine
        self._place = place

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def place(self) -> str:
        """Where it is, as messages name it: a file or an address without its password."""
        return self._place

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def save_plan(self, plan: StoredPlan) -> bool:
        """Keep the plan with its kernels, all or nothing. False when it was there already.

        Another ``result_hash`` under the same ``plan_id`` is another row: our model changed.
        """
        key = {"plan_id": plan.plan_id, "result_hash": plan.result_hash}
        kernels = [
            key | {"position": position} | {name: kernel[name] for name in _KERNEL_COLUMNS}
            for position, kernel in enumerate(plan.document["kernels"])
        ]
        with explained(self._place), writing(self._engine) as connection:
            if connection.execute(self._insert_unless_there(), dict(vars(plan))).first() is None:
                return False
            if kernels:
                connection.execute(plan_kernel.insert(), kernels)
        return True

    def plan(self, id_prefix: str) -> StoredPlan:
        """The plan whose id begins so; of several results the newest.

        Raises UsageError when no id begins so, or more than one does.
        """
        with self._reading() as connection:
            plan_id = _resolve(connection, id_prefix.strip().lower())
            query = select(plan_table).where(plan_table.c.plan_id == plan_id)
            row = connection.execute(_newest_first(query).limit(1)).mappings().one()
        return StoredPlan(**row)

    def plans(
        self,
        limit: int,
        model: str | None = None,
        gpu: str | None = None,
        backend: str | None = None,
        name: str | None = None,
    ) -> list[PlanRow]:
        """The newest plans first, at most ``limit`` (one or more), those that match exactly."""
        if limit < 1:
            raise UsageError(f"cannot list {limit} plans", "ask for one or more")
        wanted = {"model": model, "gpu": gpu, "backend": backend, "name": name}
        query = select(*_ROW_COLUMNS).where(
            *(plan_table.c[key] == value for key, value in wanted.items() if value is not None)
        )
        with self._reading() as connection:
            rows = connection.execute(_newest_first(query).limit(limit)).mappings().all()
        return [PlanRow(**row) for row in rows]

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self._place), self._engine.connect() as connection:
            try:
                yield connection
            except ValueError as error:  # JSON or a time that is none: the bytes have changed
                hint = "put a copy of it in its place"
                raise refusal(self._place, f"is damaged: {error}", hint) from error

    def _insert_unless_there(self) -> ReturningInsert[tuple[str]]:
        """Returns a row when it inserted one; drivers do not agree on counts of rows."""
        if self._engine.dialect.name == "sqlite":
            from sqlalchemy.dialects import sqlite

            unless_there = sqlite.insert(plan_table).on_conflict_do_nothing()
            return unless_there.returning(plan_table.c.plan_id)
        from sqlalchemy.dialects import postgresql

        return (
            postgresql.insert(plan_table).on_conflict_do_nothing().returning(plan_table.c.plan_id)
        )


def _newest_first(query: Select[Any]) -> Select[Any]:
    columns = plan_table.c
    return query.order_by(columns.created_at.desc(), columns.plan_id, columns.result_hash)


def _resolve(connection: Connection, prefix: str) -> str:
    plan_id = plan_table.c.plan_id
    query = select(plan_id).distinct().where(plan_id.startswith(prefix, autoescape=True))
    found = list(connection.scalars(query.order_by(plan_id).limit(_LISTED + 1)))
    if prefix in found or (prefix and len(found) == 1):
        return str(found[0])  # the id that is the prefix itself sorts first
    if not prefix or not found:
        raise _unknown(connection, prefix)
    more = "" if len(found) <= _LISTED else " and more"
    raise UsageError(
        f"several plans begin with {prefix!r}: {', '.join(found[:_LISTED])}{more}",
        "give more digits",
    )


def _unknown(connection: Connection, prefix: str) -> UsageError:
    query = _newest_first(select(plan_table.c.plan_id)).limit(_COMPARED)
    newest = list(dict.fromkeys(connection.scalars(query)))
    if not newest:
        return UsageError(f"no stored plan begins with {prefix!r}", "the store is empty")
    heads = {stored[: len(prefix)]: stored for stored in reversed(newest)}
    near = [heads[head] for head in difflib.get_close_matches(prefix, heads, n=3, cutoff=0.7)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"the newest is {newest[0]}"
    return UsageError(f"no stored plan begins with {prefix!r}", hint)
