"""What ``planner db prune`` does, as plain data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import units
from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.store.prune import Pruned
    from planner.store.types import Removable


def pruned(
    db: str | None, age: str, archive: Path | None, *, yes: bool, backups: bool
) -> dict[str, Any]:
    """What could be removed, or with ``yes`` was. Raises UsageError for an age that is none."""
    from planner.store.database import open_store
    from planner.store.prune import archive_beside, old_backups, prune

    now = datetime.now(UTC)
    before = _before(now, age)
    with open_store(db) as store:
        copies = old_backups(store) if backups else ()
        found = store.removable(before)
        if not yes:
            return _body(found, copies, done=None)
        done = prune(store, found, archive or archive_beside(store, now))
    for copy in copies:
        _unlink(copy)
    return _body(done.removed, copies, done)


def _before(now: datetime, age: str) -> datetime:
    try:
        return now - timedelta(seconds=units.SPAN.parse(age))
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OverflowError:
        raise UsageError(f"nothing is as old as {age}", "as in --older-than 90d") from None


def _unlink(copy: Path) -> None:
    try:
        copy.unlink(missing_ok=True)  # another process may prune too
    except OSError as error:
        raise UsageError(f"{copy} cannot be removed: {error.strerror}") from error


def _body(found: Removable, copies: tuple[Path, ...], done: Pruned | None) -> dict[str, Any]:
    return {
        "removed": done is not None,
        "before": found.before,
        "runs": [
            {key: getattr(row, key) for key in ("run_id", "plan_id", "recorded_at", "tool")}
            for row in found.runs
        ],
        "plans": [
            {key: getattr(row, key) for key in ("plan_id", "result_hash", "name", "created_at")}
            for row in found.plans
        ],
        "file_bytes": found.file_bytes,
        "backups": [str(copy) for copy in copies],
        "archive": str(done.archive) if done and done.archive else None,
        "size_bytes": list(done.size_bytes) if done and done.size_bytes else None,
        "note": done.note if done else None,
    }
