"""How connections are opened and transactions begun, the same for both databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import NoSuchModuleError

from planner.errors import StoreError
from planner.store.address import Address

LOCK_WAIT_S = 10.0
"""How long to wait for a lock that another process holds, and for a server to answer."""

# PostgreSQL refuses NaN and infinity in JSON, so they are refused everywhere.
_to_json = partial(json.dumps, allow_nan=False, separators=(",", ":"))


def create(address: Address, lock_wait_s: float = LOCK_WAIT_S) -> Engine:
    """An engine for the address; opens no connection yet.

    Raises StoreError when the driver for PostgreSQL is missing.
    """
    if address.url.get_backend_name() == "sqlite":
        return _sqlite(address, lock_wait_s)
    return _postgresql(address, lock_wait_s)


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction that writes: all of it or nothing."""
    with engine.connect().execution_options(planner_writes=True) as connection, connection.begin():
        yield connection


def _sqlite(address: Address, lock_wait_s: float) -> Engine:
    engine = create_engine(
        address.url,
        connect_args={"timeout": lock_wait_s, "isolation_level": None},
        json_serializer=_to_json,
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:
        connection.execute("PRAGMA foreign_keys=ON")
        # FULL waits for the disk at every commit: a plan can be made again, but a run measured on
        # rented hardware cannot, and a command commits once.
        connection.execute("PRAGMA synchronous=FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # Python's module begins transactions late and not before DDL. IMMEDIATE takes the write
        # lock at once: a read lock that grows into one fails without waiting.
        writes = connection.get_execution_options().get("planner_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgresql(address: Address, lock_wait_s: float) -> Engine:
    wait = {} if "connect_timeout" in address.url.query else {"connect_timeout": int(lock_wait_s)}
    try:
        engine = create_engine(address.url, connect_args=wait, json_serializer=_to_json)
    except (ImportError, NoSuchModuleError) as error:
        raise StoreError(
            f"the driver {address.url.get_driver_name()!r} for PostgreSQL is not installed"
            " (pip install 'inference-planner[postgresql]')"
        ) from error

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {int(lock_wait_s * 1000)}")
        connection.commit()

    return engine
