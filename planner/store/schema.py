"""Brings a database to the tables of this program: created, upgraded, or refused.

The revision is read by plain SQL and a new database is built from ``tables``; alembic is imported
only to upgrade an older one. Three rules:

1. A database is written only after its revision was read; what is not ours stays as it is.
2. Creating and upgrading are one transaction each, and one process at a time does them.
3. Before a SQLite file is upgraded it is copied beside itself; a copy is never written over.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.engine.interfaces import DBAPICursor

from planner.store import tables
from planner.store.address import Address
from planner.store.engine import writing
from planner.store.faults import refusal

_ADVISORY_LOCK = 7_529_662  # any number, the same in every process of this program


def bring_up_to_date(engine: Engine, address: Address, migrations: Path) -> None:
    """Create or upgrade the tables where that is needed.

    Raises StoreError for a database of another program or of a newer revision.
    """
    revisions = _revisions(migrations)
    with engine.connect() as connection:
        if _revision(connection, address.shown, revisions) == revisions[-1]:
            return
    with _alone(engine) as connection:
        # Read again: another process may have been quicker.
        found = _revision(connection, address.shown, revisions)
        if found is None:
            _create(connection, revisions[-1])
        elif found != revisions[-1]:
            _upgrade(connection, address, found, migrations)


def _revisions(migrations: Path) -> list[str]:
    """Every revision this program knows, oldest first: the NNNN that the file names begin with."""
    return sorted(file.name[:4] for file in (migrations / "versions").glob("[0-9]*_*.py"))


def _revision(connection: Connection, place: str, revisions: list[str]) -> str | None:
    """The revision of the database, None when it is empty. Raises StoreError for any other."""
    names = inspect(connection).get_table_names()
    if not names:
        return None
    found = []
    if "alembic_version" in names:
        found = list(connection.scalars(text("SELECT version_num FROM alembic_version")))
    if len(found) == 1 and found[0] in revisions:
        return str(found[0])
    if len(found) == 1 and found[0].isdecimal() and "schema_release" in names:
        sentence = f"is of revision {found[0]}, newer than this program knows"
        release = _release(connection, found[0])
        raise refusal(place, sentence, f"install inference-planner >= {release}")
    raise refusal(place, "belongs to another program", "name an empty or a new database")


def _release(connection: Connection, revision: str) -> str:
    release = connection.scalar(
        text("SELECT release FROM schema_release WHERE revision = :revision"),
        {"revision": revision},
    )
    return str(release or "the one that wrote it")


@contextmanager
def _alone(engine: Engine) -> Iterator[Connection]:
    """A transaction that changes tables, while every other process that wants to waits."""
    if engine.dialect.name != "sqlite":
        with writing(engine) as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
            yield connection
        return
    with closing(engine.raw_connection()) as raw:
        _use_wal(raw.cursor())
    with engine.connect().execution_options(planner_writes=True) as connection:
        # A table that is copied to be changed would take the rows that refer to it along. The
        # pragma has no effect inside a transaction, so it is set around it.
        pragma = connection.connection.cursor()
        pragma.execute("PRAGMA foreign_keys=OFF")
        try:
            with connection.begin():
                yield connection
        finally:
            pragma.execute("PRAGMA foreign_keys=ON")
            pragma.close()


def _use_wal(cursor: DBAPICursor) -> None:
    """Readers and one writer at a time without waiting for each other; a property of the file.

    SQLite's own waiting does not cover this step while another process is about to write: of four
    that took it at once on a fresh file, one in eight was told "locked" straight away. So the step
    is repeated here, for as long as SQLite would have waited.
    """
    cursor.execute("PRAGMA busy_timeout")
    deadline = time.monotonic() + cursor.fetchall()[0][0] / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            primary = error.sqlite_errorcode & 0xFF
            if primary != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _create(connection: Connection, head: str) -> None:
    tables.metadata.create_all(connection, checkfirst=False)
    connection.execute(
        tables.schema_release.insert(), {"revision": head, "release": tables.OLDEST_RELEASE}
    )
    connection.execute(
        text(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
            "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": head})


def _upgrade(connection: Connection, address: Address, found: str, migrations: Path) -> None:
    from alembic import command
    from alembic.config import Config

    if address.file:
        _back_up(address.file, found)
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    if address.file:
        broken = connection.execute(text("PRAGMA foreign_key_check")).all()
        if broken:
            raise refusal(
                address.shown,
                f"could not be upgraded: {len(broken)} rows refer to rows that are not there",
                "it was left as it is; put right what sqlite3's PRAGMA foreign_key_check lists",
            )


def _back_up(file: Path, revision: str) -> None:
    """Copy the database beside itself. The caller holds the write lock, so names do not race."""
    unfinished = file.with_name(f"{file.name}.{revision}.bak.part")
    unfinished.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(unfinished)) as copy:
            source.backup(copy)
        unfinished.rename(_free_name(file, revision))
    finally:
        unfinished.unlink(missing_ok=True)


def _free_name(file: Path, revision: str) -> Path:
    name, count = file.with_name(f"{file.name}.{revision}.bak"), 1
    while name.exists():
        count += 1
        name = file.with_name(f"{file.name}.{revision}.{count}.bak")
    return name
