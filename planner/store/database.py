"""Opening the store."""

from __future__ import annotations

import os

from planner import resources
from planner.store import address, engine, schema
from planner.store.faults import explained, refusal
from planner.store.repository import Store


def open_store(url: str | None = None, *, lock_wait_s: float = engine.LOCK_WAIT_S) -> Store:
    """The store at ``url``, its tables created or upgraded as needed; use it in a ``with``.

    ``url`` is a file or a SQLAlchemy URL of SQLite or PostgreSQL. Without one, the environment
    variable PLANNER_DB counts, then ``plans.db`` in the user's data folder. A SQLite file is copied
    to ``<file>.<revision>.bak`` before it is upgraded.
    Raises StoreError when the database cannot be opened or is none of ours.
    """
    place = address.parse(os.environ.get("PLANNER_DB") if url is None else url)
    if place.file and address.too_short_for_a_database(place.file):
        raise refusal(place.shown, "is no SQLite database", "name another file")
    connections = engine.create(place, lock_wait_s)
    try:
        with explained(place.shown):
            schema.bring_up_to_date(connections, place, resources.folder("migrations"))
    except BaseException:
        connections.dispose()
        raise
    return Store(connections, place.shown)
