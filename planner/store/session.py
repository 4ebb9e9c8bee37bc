"""What every part of the store works through: connections, transactions, insertion, ids."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Column, Connection, Engine, Select, Table, select, text
from sqlalchemy.sql.dml import ReturningInsert

from planner.errors import UsageError
from planner.store.engine import writing
from planner.store.faults import explained, refusal

_LISTED = 10  # ids named in a message
_COMPARED = 1000  # newest ids that a misspelt one is compared with


class Session:
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

    @property
    def file(self) -> Path | None:
        """The file of a SQLite store; None for a server and for one in memory."""
        url = self._engine.url
        return Path(url.database) if self._is_sqlite and url.database else None

    @property
    def in_memory(self) -> bool:
        """Whether it lives in one thread of this process alone."""
        return self._is_sqlite and self.file is None

    def size_bytes(self) -> int | None:
        """Of the file with its journal; None where there is none."""
        if self.file is None:
            return None
        parts = (self.file.with_name(self.file.name + end) for end in ("", "-wal"))
        return sum(part.stat().st_size for part in parts if part.exists())

    def revision(self) -> str:
        """The revision of its tables."""
        with self._reading() as connection:
            return str(connection.scalar(text("SELECT version_num FROM alembic_version")))

    def back_up(self, file: Path) -> None:
        """Copy a SQLite store to a new file, whole, while others may use it.

        Raises UsageError for a server, and for a file that is there already.
        """
        if not self._is_sqlite:
            hint = "use pg_dump, or planner db export"
            raise UsageError("only a SQLite store is copied to a file", hint)
        if file.exists():
            raise UsageError(f"{file} is there already", "name a new file")
        unfinished = file.with_name(f"{file.name}.part")
        unfinished.unlink(missing_ok=True)
        try:
            # One moment's state, read under SQLite's own lock. Not in a transaction, which the
            # engine would begin.
            with explained(str(file)), closing(self._engine.raw_connection()) as raw:
                raw.cursor().execute("VACUUM INTO ?", (str(unfinished),))
            durable(unfinished)  # which VACUUM INTO leaves to others
            unfinished.rename(file)
            durable(file.parent)
        finally:
            unfinished.unlink(missing_ok=True)

    def compact(self) -> None:
        """Give the space of removed rows back to the disk; a server does so by itself."""
        if self.file is None:
            return
        with explained(self._place), closing(self._engine.raw_connection()) as raw:
            cursor = raw.cursor()
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @property
    def _is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self._place), self._engine.connect() as connection:
            try:
                yield connection
            except ValueError as error:  # JSON or a time that is none: the bytes have changed
                hint = "put a copy of it in its place"
                raise refusal(self._place, f"is damaged: {error}", hint) from error

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """One transaction: all of it or nothing."""
        with explained(self._place), writing(self._engine) as connection:
            yield connection

    def _insert_unless_there(self, table: Table) -> ReturningInsert[Any]:
        """Returns a row when it inserted one; drivers do not agree on counts of rows."""
        key = next(iter(table.primary_key.columns))
        if self._is_sqlite:
            from sqlalchemy.dialects import sqlite

            return sqlite.insert(table).on_conflict_do_nothing().returning(key)
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing().returning(key)


def durable(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk before going on."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def resolved(
    connection: Connection, kind: str, column: Column[Any], newest: Select[Any], prefix: str
) -> str:
    """The id in ``column`` that begins so; ``newest`` selects ids, the newest first.

    Raises UsageError when no id begins so, or more than one does.
    """
    prefix = prefix.strip().lower()
    query = select(column).distinct().where(column.startswith(prefix, autoescape=True))
    found = list(connection.scalars(query.order_by(column).limit(_LISTED + 1)))
    if prefix in found or (prefix and len(found) == 1):
        return str(found[0])  # the id that is the prefix itself sorts first
    if not prefix or not found:
        raise _unknown(connection, kind, newest, prefix)
    more = "" if len(found) <= _LISTED else " and more"
    raise UsageError(
        f"several {kind}s begin with {prefix!r}: {', '.join(found[:_LISTED])}{more}",
        "give more digits",
    )


def _unknown(connection: Connection, kind: str, newest: Select[Any], prefix: str) -> UsageError:
    ids = list(dict.fromkeys(connection.scalars(newest.limit(_COMPARED))))
    if not ids:
        empty = "the store is empty" if kind == "plan" else f"the store holds no {kind}"
        return UsageError(f"no stored {kind} begins with {prefix!r}", empty)
    heads = {stored[: len(prefix)]: stored for stored in reversed(ids)}
    near = [heads[head] for head in difflib.get_close_matches(prefix, heads, n=3, cutoff=0.7)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"the newest is {ids[0]}"
    return UsageError(f"no stored {kind} begins with {prefix!r}", hint)
