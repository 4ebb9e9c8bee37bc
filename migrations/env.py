"""Alembic's entry: runs the files in ``versions`` over a connection that the program passes in.

By hand, for a new revision or to read its SQL::

    alembic -c migrations/alembic.ini revision --rev-id 0002 -m words --autogenerate
    alembic -c migrations/alembic.ini upgrade head --sql
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection

from planner.store import address, engine
from planner.store.tables import metadata


def _write_sql(place: address.Address) -> None:
    context.configure(
        url=place.url,
        target_metadata=metadata,
        literal_binds=True,
        dialect_opts={"paramstyle": "named"},
    )
    with context.begin_transaction():
        context.run_migrations()


def _run(connection: Connection) -> None:
    # SQLite cannot alter most things in place; batches copy the table instead.
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


def _place() -> address.Address:
    """By hand alone: ``-x db=…`` or PLANNER_DB, as the program reads them."""
    return address.parse(
        context.get_x_argument(as_dictionary=True).get("db", os.environ.get("PLANNER_DB"))
    )


if context.is_offline_mode():
    _write_sql(_place())
elif (passed := context.config.attributes.get("connection")) is not None:
    _run(passed)
else:
    with engine.writing(engine.create(_place())) as opened:
        _run(opened)
