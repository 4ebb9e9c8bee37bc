"""Making a store smaller: nothing is removed before it is on the disk in an archive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from planner.errors import StoreError, UsageError
from planner.store.repository import Store
from planner.store.transfer import lines_of, write_lines
from planner.store.types import Removable, StoredRun


@dataclass(frozen=True)
class Pruned:
    """What was removed, and where it is now."""

    removed: Removable
    archive: Path | None
    """JSON lines that ``import_lines`` takes back; None where there was nothing to remove."""
    size_bytes: tuple[int, int] | None
    """Of a SQLite store before and after; None for a server."""
    note: str | None = None
    """Why the file was not made smaller, where it could not be."""


def prune(store: Store, found: Removable, archive: Path) -> Pruned:
    """Write what was found to a new file, then remove it in one transaction.

    Killed at any moment, a row is in the store or in the archive or in both. What another process
    came to refer to in between stays in the store. Raises UsageError when the archive cannot be
    written, and when another process removes the same; nothing is removed then.
    """
    if not found.plans and not found.runs:
        return Pruned(found, None, None)
    plans = (store.result(row.plan_id, row.result_hash) for row in found.plans)
    write_lines(archive, lines_of(plans, _runs(store, found)))
    before = store.size_bytes()
    removed = store.remove(found)
    note = _compacted(store)
    after = store.size_bytes()
    sizes = None if before is None or after is None else (before, after)
    return Pruned(removed, archive, sizes, note)


def archive_beside(store: Store, moment: datetime) -> Path:
    """A name beside a SQLite file, as in ``plans.db.20261130-044552.pruned.jsonl``.

    Raises UsageError for a server and for a store in memory, which have no place beside them.
    """
    if store.file is None:
        message = f"where to keep what is removed from {store.place} is not said"
        raise UsageError(message, "name a file with --archive")
    return store.file.with_name(f"{store.file.name}.{moment:%Y%m%d-%H%M%S}.pruned.jsonl")


def old_backups(store: Store) -> tuple[Path, ...]:
    """The copies that upgrades left beside a SQLite file, the oldest first, without the newest.

    Raises UsageError for a server, which has none.
    """
    if store.file is None:
        raise UsageError(f"{store.place} has no backups beside it", "leave --backups out")
    name = re.compile(re.escape(store.file.name) + r"\.\d{4}(\.\d+)?\.bak")
    found = [path for path in store.file.parent.iterdir() if name.fullmatch(path.name)]
    return tuple(sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))[:-1])


def _runs(store: Store, found: Removable) -> Iterator[StoredRun]:
    for row in found.runs:
        yield store.run(row.run_id)


def _compacted(store: Store) -> str | None:
    """The rows are gone already, so a file that stays large is no failure: why it does."""
    try:
        store.compact()
    except StoreError as error:
        return str(error)
    return None
