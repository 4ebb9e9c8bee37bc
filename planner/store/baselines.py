"""Baselines: which run a name stands for, and who put which in the place of which."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Select, select

from planner.errors import UsageError
from planner.registry import nearest
from planner.store.runs import RunMethods
from planner.store.session import resolved
from planner.store.tables import baseline as baseline_table
from planner.store.tables import run as run_table
from planner.store.types import BaselineRow

_LONGEST_NAME = 100


class BaselineMethods(RunMethods):
    """The baselines of a store. One that is replaced stays, superseded by the next."""

    def set_baseline(self, name: str, run_id: str, set_by: str) -> BaselineRow:
        """Let ``name`` stand for the run whose id begins so; the present one is superseded.

        Setting the run that it stands for already changes nothing. Raises UsageError for an unknown
        run, a name that cannot be, or when another process replaced it at the same moment.
        """
        from planner.plan.identity import ID_DIGITS, digest  # loads the specs: not to list

        _check(name)
        with self._writing() as connection:
            newest = select(run_table.c.run_id).order_by(run_table.c.recorded_at.desc())
            whole = resolved(connection, "run", run_table.c.run_id, newest, run_id)
            present = _present(connection, name)
            if present and present.run_id == whole:
                return present
            supersedes = present.baseline_id if present else None
            # The id follows from what it replaces, so that of two who replace one at the same
            # moment the second finds it taken, the first of a name included.
            baseline_id = digest([name, supersedes])[:ID_DIGITS]
            row = BaselineRow(baseline_id, name, whole, datetime.now(UTC), set_by, supersedes)
            insert = self._insert_unless_there(baseline_table)
            if connection.execute(insert, dict(vars(row))).first() is None:
                message = f"baseline {name!r} was replaced by another process at the same moment"
                raise UsageError(message, "look at `planner baseline list`, then repeat")
        return row

    def baselines(self, plan_id: str | None = None) -> list[BaselineRow]:
        """The present baseline of every name, by name; those of one plan where it is given."""
        query = _current().order_by(baseline_table.c.name)
        if plan_id is not None:
            query = query.join(run_table).where(run_table.c.plan_id == plan_id)
        with self._reading() as connection:
            return _rows(connection, query)

    def baseline(self, name: str) -> BaselineRow:
        """The present baseline of a name. Raises UsageError for an unknown one."""
        with self._reading() as connection:
            present = _present(connection, name)
        if present is None:
            names = [row.name for row in self.baselines()]
            near = nearest(name, names)
            known = f"known: {', '.join(names[:10])}" if names else "the store holds no baseline"
            raise UsageError(
                f"no baseline is named {name!r}", f"did you mean {near!r}?" if near else known
            )
        return present

    def baseline_history(self, name: str) -> list[BaselineRow]:
        """Every baseline a name has had, the present one first. Raises as ``baseline`` does."""
        present = self.baseline(name)
        with self._reading() as connection:
            query = select(baseline_table).where(baseline_table.c.name == name)
            known = {row.baseline_id: row for row in _rows(connection, query)}
        chain = [present]
        while (before := chain[-1].supersedes) is not None:
            chain.append(known[before])
        return chain

    def every_baseline(self) -> list[BaselineRow]:
        """Every baseline, present or superseded, each after the one that it superseded."""
        rows: list[BaselineRow] = []
        for present in self.baselines():
            rows += reversed(self.baseline_history(present.name))
        return rows

    def keep_baseline(self, row: BaselineRow) -> bool:
        """Take over a baseline of another store. False when its place is taken.

        What it stands for and supersedes must be here already.
        """
        with self._writing() as connection:
            insert = self._insert_unless_there(baseline_table)
            return connection.execute(insert, dict(vars(row))).first() is not None


def _check(name: str) -> None:
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        message = f"a baseline needs a name of 1 to {_LONGEST_NAME} printable characters"
        raise UsageError(message, "as in main or release-1.2")


def _current() -> Select[Any]:
    """Baselines that no other supersedes."""
    later = baseline_table.alias()
    superseded = select(later.c.baseline_id).where(
        later.c.supersedes == baseline_table.c.baseline_id
    )
    return select(baseline_table).where(~superseded.exists())


def _present(connection: Connection, name: str) -> BaselineRow | None:
    rows = _rows(connection, _current().where(baseline_table.c.name == name))
    return rows[0] if rows else None


def _rows(connection: Connection, query: Select[Any]) -> list[BaselineRow]:
    return [BaselineRow(**row) for row in connection.execute(query).mappings()]
