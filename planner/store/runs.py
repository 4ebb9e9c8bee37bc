"""Saving measured runs and finding them again: what a tool reported, and its file whole beside it.

The ``context`` column holds a run's circumstances with its place in the file, notes, kernels and
the kernels of one step.
The ``sample`` table holds its figures, and below them the single measurements under ``sample``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select

from planner.errors import UsageError
from planner.plan.runs import UNITS, KernelTime, Metric, Run, Source, TracedSteps
from planner.plan.values import plain, restore
from planner.store.session import Session, resolved
from planner.store.tables import run as run_table
from planner.store.tables import sample as sample_table
from planner.store.types import RunRow, StoredRun

_SINGLE = "sample"
"""The statistic of a single measurement."""
ROW_COLUMNS = [run_table.c[name] for name in ("run_id", "plan_id", "recorded_at", "format", "tool")]
"""What a line of a listing is made of, beside its figures."""
_AT_ONCE = 500  # ids in one question; SQLite takes 32,766 parameters


def recorded(
    run: Run, raw: bytes, *, plan_id: str | None, position: int, at: datetime
) -> StoredRun:
    """The run as it is to be saved; the same file recorded for the same plan has the same id."""
    from planner.plan.identity import ID_DIGITS, digest  # loads the specs: not to list runs

    content = [run.source.sha256, position, plan_id, plain(run.context)]
    return StoredRun(digest(content)[:ID_DIGITS], plan_id, at, position, run, raw)


class RunMethods(Session):
    """The runs of a store."""

    def save_run(self, stored: StoredRun) -> bool:
        """Keep the run with its figures and its file, all or nothing. False when it was there.

        Raises UsageError for a figure that is no finite number.
        """
        rows = _sample_rows(stored)
        with self._writing() as connection:
            insert = self._insert_unless_there(run_table)
            if connection.execute(insert, _run_row(stored)).first() is None:
                return False
            if rows:
                connection.execute(sample_table.insert(), rows)
        return True

    def run(self, id_prefix: str) -> StoredRun:
        """The run whose id begins so, with its samples and its file.

        Raises UsageError when no id begins so, or more than one does.
        """
        column = run_table.c.run_id
        with self._reading() as connection:
            newest = _newest_first(select(column))
            run_id = resolved(connection, "run", column, newest, id_prefix)
            row = connection.execute(select(run_table).where(column == run_id)).mappings().one()
            figures = _figures(connection, [run_id], singles=True)[run_id]
        return _stored(dict(row), figures)

    def runs(
        self, limit: int, plan_id: str | None = None, after: str | None = None
    ) -> list[RunRow]:
        """The newest runs first, at most ``limit`` (one or more), of one plan where it is given.

        With ``after``, a run's id, only those that follow it. Raises UsageError where none is.
        """
        if limit < 1:
            raise UsageError(f"cannot list {limit} runs", "ask for one or more")
        query = select(*ROW_COLUMNS)
        if plan_id is not None:
            query = query.where(run_table.c.plan_id == plan_id)
        with self._reading() as connection:
            if after is not None:
                query = query.where(_follows(connection, after))
            return run_rows(connection, _newest_first(query).limit(limit))

    def every_run(self) -> Iterator[StoredRun]:
        """Every run with its file, the oldest first, one at a time."""
        columns = run_table.c
        with self._reading() as connection:
            query = select(columns.run_id).order_by(columns.recorded_at, columns.run_id)
            ids = connection.scalars(query).all()
        for run_id in ids:
            yield self.run(run_id)


def run_rows(connection: Connection, query: Select[Any]) -> list[RunRow]:
    """Lines of a listing, with their figures, of a query for ``ROW_COLUMNS``."""
    rows = connection.execute(query).mappings().all()
    figures = _figures(connection, [row["run_id"] for row in rows], singles=False)
    return [RunRow(**row, metrics=_metrics(figures[row["run_id"]])) for row in rows]


def _follows(connection: Connection, run_id: str) -> ColumnElement[bool]:
    """Later in the order of listings, in which newer rows come first."""
    columns = run_table.c
    at = connection.scalar(select(columns.recorded_at).where(columns.run_id == run_id))
    if at is None:
        raise UsageError(f"run {run_id} is not in the store any more", "begin at the first page")
    same = and_(columns.recorded_at == at, columns.run_id > run_id)
    return or_(columns.recorded_at < at, same)


def _newest_first(query: Select[Any]) -> Select[Any]:
    return query.order_by(run_table.c.recorded_at.desc(), run_table.c.run_id)


def _run_row(stored: StoredRun) -> dict[str, Any]:
    run = stored.run
    return {
        "run_id": stored.run_id,
        "plan_id": stored.plan_id,
        "recorded_at": stored.recorded_at,
        **plain(run.source),
        "context": {
            "position": stored.position,
            "said": plain(run.context),
            "notes": list(run.notes),
            "kernels": plain(run.kernels),
            "traced": plain(run.traced),
        },
        "raw": stored.raw,
    }


def _sample_rows(stored: StoredRun) -> list[dict[str, Any]]:
    run = stored.run
    figures: list[_Figure] = [(m.name, m.statistic, m.value) for m in run.metrics]
    figures += [(name, _SINGLE, value) for name, values in run.samples.items() for value in values]
    for name, statistic, value in figures:
        if not math.isfinite(value):
            raise UsageError(f"{statistic} {name} is {value}, no number", "mend the file")
    return [
        {
            "run_id": stored.run_id,
            "position": position,
            "name": name,
            "statistic": statistic,
            "value": float(value),
            "unit": UNITS[name],
        }
        for position, (name, statistic, value) in enumerate(figures)
    ]


def traced(document: Mapping[str, Any]) -> TracedSteps | None:
    """The steps of a trace in a stored or exported run; none in one kept before they were read."""
    found = document.get("traced")
    return restore(TracedSteps, found) if found else None


_Figure = tuple[str, str, float]


def _figures(
    connection: Connection, run_ids: Sequence[str], *, singles: bool
) -> Mapping[str, list[_Figure]]:
    columns = sample_table.c
    query = select(columns.run_id, columns.name, columns.statistic, columns.value)
    if not singles:
        query = query.where(columns.statistic != _SINGLE)
    found: defaultdict[str, list[_Figure]] = defaultdict(list)
    for start in range(0, len(run_ids), _AT_ONCE):
        some = query.where(columns.run_id.in_(run_ids[start : start + _AT_ONCE]))
        for run_id, *figure in connection.execute(some.order_by(columns.run_id, columns.position)):
            found[run_id].append((figure[0], figure[1], figure[2]))
    return found


def _metrics(figures: Iterable[_Figure]) -> tuple[Metric, ...]:
    # The names are those of the vocabulary: only runs are saved.
    return tuple(Metric(*figure) for figure in figures if figure[1] != _SINGLE)  # type: ignore[arg-type]


def _stored(row: Mapping[str, Any], figures: Sequence[_Figure]) -> StoredRun:
    samples: defaultdict[str, list[float]] = defaultdict(list)
    for name, statistic, value in figures:
        if statistic == _SINGLE:
            samples[name].append(value)
    circumstances = row["context"]
    return StoredRun(
        run_id=row["run_id"],
        plan_id=row["plan_id"],
        recorded_at=row["recorded_at"],
        position=circumstances["position"],
        run=Run(
            Source(row["format"], row["tool"], row["sha256"], row["size_bytes"]),
            _metrics(figures),
            {name: tuple(values) for name, values in samples.items()},
            circumstances["said"],
            tuple(KernelTime(**kernel) for kernel in circumstances["kernels"]),
            tuple(circumstances["notes"]),
            traced(circumstances),
        ),
        raw=bytes(row["raw"]),
    )
