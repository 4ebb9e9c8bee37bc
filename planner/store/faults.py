"""What a database says when it refuses, put into sentences with a hint."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from planner.errors import StoreError

_Sentence = tuple[str, str, str]

_REFERS = (
    "lacks what is referred to",
    "another process may have removed it; an export is imported whole",
)

_SQLITE: tuple[_Sentence, ...] = (
    ("SQLITE_NOTADB", "is no SQLite database", "name another file; this one was left as it is"),
    ("SQLITE_CORRUPT", "is damaged", "put a copy in its place, or try sqlite3's .recover"),
    ("SQLITE_READONLY", "cannot be written", "check the permissions of the file and its folder"),
    ("SQLITE_PERM", "may not be opened", "check the permissions of the file and its folder"),
    ("SQLITE_FULL", "cannot grow: the disk is full", "free some space; nothing stored was lost"),
    ("SQLITE_IOERR", "met an error of the disk", "check its space, its health and size limits"),
    ("SQLITE_BUSY", "is locked by another process", "wait for that process to end, then repeat"),
    ("SQLITE_LOCKED", "is locked by another process", "wait for that process to end, then repeat"),
    ("SQLITE_CONSTRAINT_FOREIGNKEY", *_REFERS),
    ("SQLITE_PROTOCOL", "cannot be locked", "keep it on a local disk, not on a network share"),
)
"""Beginning of SQLite's name of an error, what it means, what to do."""

_POSTGRESQL: tuple[_Sentence, ...] = (
    ("28", "refused the login", "check user, password and the server's pg_hba.conf"),
    ("3D000", "does not exist", "create it with createdb"),
    ("3F000", "has no schema that this role may use", "have the role granted USAGE and CREATE"),
    ("42501", "does not permit this", "have the role granted what it lacks"),
    ("25006", "is read-only", "name the primary server, not a standby"),
    ("531", "could not grow: the server's disk is full", "free some space there and repeat"),
    ("53", "has no room for another connection or its memory", "wait a little, then repeat"),
    ("55P03", "is locked by another process", "wait for that process to end, then repeat"),
    ("23503", *_REFERS),
    ("40", "was changed by another process at the same moment", "repeat the command"),
    ("57", "ended the connection", "see whether the server is restarting, then repeat"),
    ("08", "lost the connection", "check the network and the server, then repeat"),
)
"""Beginning of the SQLSTATE (PostgreSQL manual, appendix A), what it means, what to do."""


def refusal(place: str, sentence: str, hint: str) -> StoreError:
    """The error to raise when the database at ``place`` cannot be used."""
    return StoreError(f"the database {place} {sentence} ({hint})")


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Turn what the database at ``place`` raises into StoreError; a bug keeps its traceback."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, sqlite3.Error):
            found = _sqlite_refusal(place, cause)
        else:
            connecting = isinstance(error, DBAPIError) and error.statement is None
            found = _postgresql_refusal(place, cause, connecting=connecting)
        if found is None:
            raise
        raise found from error


def _sqlite_refusal(place: str, error: sqlite3.Error) -> StoreError | None:
    name = getattr(error, "sqlite_errorname", None)
    if name is None:  # raised by Python's module itself
        undecodable = str(error).startswith("Could not decode")
        return _known(place, "SQLITE_CORRUPT", _SQLITE) if undecodable else None
    if name.startswith("SQLITE_CANTOPEN"):
        return refusal(place, "cannot be opened", _why_not(place))
    return _known(place, name, _SQLITE)


def _why_not(path: str) -> str:
    folder = os.path.dirname(path) or "."  # noqa: PTH120 - Path() would change what the user wrote
    if os.path.isdir(path):  # noqa: PTH112
        return "it is a folder; name a file in it"
    if not os.path.exists(folder):  # noqa: PTH110
        return f"there is no folder {folder}; create it first"
    if not os.path.isdir(folder):  # noqa: PTH112
        return f"{folder} is a file, not a folder"
    return "check the permissions of the file and its folder"


def _postgresql_refusal(
    place: str, error: BaseException | None, *, connecting: bool
) -> StoreError | None:
    state: str | None = getattr(error, "sqlstate", None)
    if state is not None:
        return _known(place, state, _POSTGRESQL)
    reason = str(error).strip().splitlines()[0]
    if connecting:
        return refusal(place, f"cannot be reached: {reason}", "check the address and the server")
    if type(error).__name__ == "OperationalError":  # the driver noticed before the server spoke
        return refusal(place, f"lost the connection: {reason}", "check the server, then repeat")
    if type(error).__name__ == "DataError":
        return refusal(place, f"cannot hold a value: {reason}", "change the value")
    return None


def _known(place: str, code: str, table: tuple[_Sentence, ...]) -> StoreError | None:
    for prefix, sentence, hint in table:
        if code.startswith(prefix):
            return refusal(place, sentence, hint)
    return None
