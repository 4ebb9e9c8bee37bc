"""Saving plans and finding them again. Rows are appended; nothing here edits one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    func,
    or_,
    select,
    tuple_,
)

from planner.errors import UsageError
from planner.store.removal import RemovalMethods
from planner.store.session import resolved
from planner.store.sweeps import SweepMethods
from planner.store.tables import plan as plan_table
from planner.store.tables import plan_kernel
from planner.store.tables import run as run_table
from planner.store.types import Contents, PlanRow, StoredPlan

_KERNEL_COLUMNS = ("name", "block", "repeat", "hbm_bytes", "time_s", "bound", "evidence")
_ROW_COLUMNS = [plan_table.c[field.name] for field in fields(PlanRow)]


class Store(SweepMethods, RemovalMethods):
    """An open database. Every method raises StoreError when the database refuses."""

    def save_plan(self, plan: StoredPlan) -> bool:
        """Keep the plan with its kernels, all or nothing. False when it was there already.

        Another ``result_hash`` under the same ``plan_id`` is another row: our model changed.
        """
        key = {"plan_id": plan.plan_id, "result_hash": plan.result_hash}
        kernels = [
            key | {"position": position} | {name: kernel[name] for name in _KERNEL_COLUMNS}
            for position, kernel in enumerate(plan.document["kernels"])
        ]
        with self._writing() as connection:
            insert = self._insert_unless_there(plan_table)
            if connection.execute(insert, dict(vars(plan))).first() is None:
                return False
            if kernels:
                connection.execute(plan_kernel.insert(), kernels)
        return True

    def plan(self, id_prefix: str) -> StoredPlan:
        """The plan whose id begins so; of several results the newest.

        Raises UsageError when no id begins so, or more than one does.
        """
        column = plan_table.c.plan_id
        with self._reading() as connection:
            newest = _newest_first(select(column))
            plan_id = resolved(connection, "plan", column, newest, id_prefix)
            query = select(plan_table).where(column == plan_id)
            row = connection.execute(_newest_first(query).limit(1)).mappings().one()
        return StoredPlan(**row)

    def plans(
        self,
        limit: int,
        model: str | None = None,
        gpu: str | None = None,
        backend: str | None = None,
        name: str | None = None,
        *,
        after: tuple[str, str] | None = None,
    ) -> list[PlanRow]:
        """The newest plans first, at most ``limit`` (one or more), those that match exactly.

        With ``after``, ids of a plan and a result, only those that follow this one. Raises
        UsageError where it is not there.
        """
        if limit < 1:
            raise UsageError(f"cannot list {limit} plans", "ask for one or more")
        wanted = {"model": model, "gpu": gpu, "backend": backend, "name": name}
        query = select(*_ROW_COLUMNS).where(
            *(plan_table.c[key] == value for key, value in wanted.items() if value is not None)
        )
        with self._reading() as connection:
            if after is not None:
                query = query.where(_follows(self._row(connection, *after)))
            rows = connection.execute(_newest_first(query).limit(limit)).mappings().all()
        return [PlanRow(**row) for row in rows]

    def every_plan(self) -> Iterator[StoredPlan]:
        """Every result of every plan, the oldest first, one at a time."""
        key = (plan_table.c.plan_id, plan_table.c.result_hash)
        with self._reading() as connection:
            ids = connection.execute(select(*key).order_by(plan_table.c.created_at, *key)).all()
        for plan_id, result_hash in ids:
            yield self.result(plan_id, result_hash)

    def result(self, plan_id: str, result_hash: str) -> StoredPlan:
        """One result of a plan, by whole ids. Raises UsageError when it isn't there."""
        with self._reading() as connection:
            return StoredPlan(**self._row(connection, plan_id, result_hash))

    @staticmethod
    def _row(connection: Connection, plan_id: str, result_hash: str) -> RowMapping:
        columns = plan_table.c
        query = select(plan_table).where(
            columns.plan_id == plan_id, columns.result_hash == result_hash
        )
        row = connection.execute(query).mappings().one_or_none()
        if row is None:
            raise UsageError(f"plan {plan_id} is not in the store any more", "repeat the command")
        return row

    def contents(self) -> Contents:
        """How much there is of everything."""
        counted = (plan_table, run_table)
        with self._reading() as connection:
            plans, runs = (
                int(connection.scalar(select(func.count()).select_from(table)) or 0)
                for table in counted
            )
        return Contents(plans, runs, len(self.baselines()), self.size_bytes())


def _follows(row: RowMapping) -> ColumnElement[bool]:
    """Later in the order of listings, in which newer rows come first."""
    at, ids = plan_table.c.created_at, (plan_table.c.plan_id, plan_table.c.result_hash)
    same = and_(at == row["created_at"], tuple_(*ids) > (row["plan_id"], row["result_hash"]))
    return or_(at < row["created_at"], same)


def _newest_first(query: Select[Any]) -> Select[Any]:
    columns = plan_table.c
    return query.order_by(columns.created_at.desc(), columns.plan_id, columns.result_hash)
