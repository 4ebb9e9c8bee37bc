"""Removing what nothing in the store refers to.

A run is referred to by baselines, present and superseded. A plan is referred to by its runs, which
are judged by its newest result. Whatever is referred to stays, however old.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    text,
    true,
)

from planner.store.baselines import BaselineMethods
from planner.store.runs import ROW_COLUMNS, run_rows
from planner.store.tables import baseline as baseline_table
from planner.store.tables import plan as plan_table
from planner.store.tables import plan_kernel
from planner.store.tables import run as run_table
from planner.store.tables import sample as sample_table
from planner.store.types import PlanRow, Removable

_PLAN_COLUMNS = [plan_table.c[field.name] for field in fields(PlanRow)]
_PLAN_KEY = ("plan_id", "result_hash")


class RemovalMethods(BaselineMethods):
    """What a store could do without, and doing without it."""

    def removable(self, before: datetime) -> Removable:
        """What is older than a moment and referred to by nothing that would stay."""
        runs, plans = _run_goes(before), _plan_goes(before, ~_run_goes(before))
        by_age = select(*_PLAN_COLUMNS).where(plans).order_by(plan_table.c.created_at)
        with self._reading() as connection:
            query = select(*ROW_COLUMNS).where(runs).order_by(run_table.c.recorded_at)
            size = select(func.coalesce(func.sum(run_table.c.size_bytes), 0)).where(runs)
            return Removable(
                before,
                tuple(PlanRow(**row) for row in connection.execute(by_age).mappings()),
                tuple(run_rows(connection, query)),
                int(connection.scalar(size) or 0),
            )

    def remove(self, found: Removable) -> Removable:
        """Remove, all in one transaction, those of ``found`` that are still referred to by nothing.

        Returns what was removed: another process may have recorded or accepted a run since. It is
        for the caller to have kept a copy.
        """
        with self._writing() as connection:
            self._keep_writers_out(connection)
            columns = [run_table.c.run_id, run_table.c.size_bytes]
            query = select(*columns).where(_run_goes(found.before))
            sizes = {row.run_id: row.size_bytes for row in connection.execute(query)}
            runs = tuple(row for row in found.runs if row.run_id in sizes)
            for table in (sample_table, run_table):
                _delete(connection, table, ("run_id",), [{"run_id": row.run_id} for row in runs])
            # Now every run that is left holds its plan, old ones that came in since too.
            goes = _plan_goes(found.before, true())
            columns = [plan_table.c[name] for name in _PLAN_KEY]
            keys = {tuple(key) for key in connection.execute(select(*columns).where(goes))}
            plans = tuple(row for row in found.plans if (row.plan_id, row.result_hash) in keys)
            rows = [{"plan_id": row.plan_id, "result_hash": row.result_hash} for row in plans]
            for table in (plan_kernel, plan_table):
                _delete(connection, table, _PLAN_KEY, rows)
        return Removable(found.before, plans, runs, sum(sizes[row.run_id] for row in runs))

    def _keep_writers_out(self, connection: Connection) -> None:
        """Until the transaction ends, readers excepted. SQLite has one writer at a time anyway."""
        if not self._is_sqlite:
            tables = "plan, plan_kernel, run, sample, baseline"
            connection.execute(text(f"LOCK TABLE {tables} IN SHARE ROW EXCLUSIVE MODE"))


def _run_goes(before: datetime) -> ColumnElement[bool]:
    accepted = select(baseline_table.c.baseline_id).where(
        baseline_table.c.run_id == run_table.c.run_id
    )
    return and_(run_table.c.recorded_at < before, ~accepted.correlate(run_table).exists())


def _plan_goes(before: datetime, holds: ColumnElement[bool]) -> ColumnElement[bool]:
    """A result of no run that ``holds`` its plan, or one that a newer result has replaced."""
    own, later = plan_table.c, plan_table.alias("later")
    held = select(run_table.c.run_id).where(run_table.c.plan_id == own.plan_id, holds)
    # The same order as Store.plan has, which decides what a run is judged by.
    newer = or_(
        later.c.created_at > own.created_at,
        and_(later.c.created_at == own.created_at, later.c.result_hash < own.result_hash),
    )
    replaced = select(later.c.plan_id).where(later.c.plan_id == own.plan_id, newer)
    return and_(
        own.created_at < before,
        or_(~held.correlate(plan_table).exists(), replaced.correlate(plan_table).exists()),
    )


def _delete(
    connection: Connection, table: Table, key: Sequence[str], rows: Sequence[dict[str, Any]]
) -> None:
    if rows:
        same = (table.c[name] == bindparam(f"of_{name}") for name in key)
        named = [{f"of_{name}": value for name, value in row.items()} for row in rows]
        connection.execute(delete(table).where(*same), named)
