"""The tables. A change here needs a file in ``migrations/versions``; a test compares the two."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)

OLDEST_RELEASE = "0.1.0"
"""The first release of inference-planner whose tables these are; goes up with each migration."""

metadata = MetaData(
    # SQLite changes a table by copying it, which needs every constraint to have a known name.
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


class UtcDateTime(TypeDecorator[datetime]):
    """A moment, stored as UTC and read back as UTC. SQLite keeps no zone, so it is put back."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """To UTC. Raises ValueError for a time without a zone: which moment it means is unknown."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """From what the driver returns: naive from SQLite, in the session's zone elsewhere."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


schema_release = Table(
    "schema_release",
    metadata,
    Column("revision", Text, primary_key=True),
    Column("release", Text, nullable=False),
    comment="Which release reads a revision, so that an older program can name it",
)

plan = Table(
    "plan",
    metadata,
    Column("plan_id", Text, primary_key=True),
    Column("result_hash", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("model", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("backend", Text, nullable=False),
    Column("step_time_s", Double, nullable=False),
    Column("fits", Boolean, nullable=False),
    # Last, so that a listing in SQLite need not walk over them; JSON rather than JSONB, so that
    # a document comes back with its keys in the order they were written.
    Column("parts", JSON, nullable=False),
    Column("document", JSON, nullable=False),
    Index(None, "created_at"),
    Index(None, "name"),
    Index(None, "model", "gpu", "backend"),
)

plan_kernel = Table(
    "plan_kernel",
    metadata,
    Column("plan_id", Text, primary_key=True),
    Column("result_hash", Text, primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("block", Text),
    Column("repeat", Integer, nullable=False),
    # Formats with block scales take fractions of a byte; a double is exact up to 9 PB.
    Column("hbm_bytes", Double, nullable=False),
    Column("time_s", Double, nullable=False),
    Column("bound", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    ForeignKeyConstraint(["plan_id", "result_hash"], ["plan.plan_id", "plan.result_hash"]),
    Index(None, "name"),
    comment="The kernels of plan.document once more, to be asked with SQL",
)

run = Table(
    "run",
    metadata,
    Column("run_id", Text, primary_key=True),
    # No foreign key: a run belongs to what was asked, and one plan_id may have several results.
    Column("plan_id", Text),
    Column("recorded_at", UtcDateTime, nullable=False),
    Column("format", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("context", JSON, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Index(None, "plan_id", "recorded_at"),
    Index(None, "sha256"),
)

sample = Table(
    "sample",
    metadata,
    Column("run_id", Text, ForeignKey("run.run_id"), primary_key=True),
    # A run may repeat a (name, statistic): single measurements are rows of the same kind.
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("statistic", Text, nullable=False),
    Column("value", Double, nullable=False),
    Column("unit", Text, nullable=False),
    Index(None, "name", "statistic"),
)

baseline = Table(
    "baseline",
    metadata,
    Column("baseline_id", Text, primary_key=True),
    Column("run_id", Text, ForeignKey("run.run_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("set_at", UtcDateTime, nullable=False),
    Column("set_by", Text, nullable=False),
    # Unique: of two who replace the same baseline at once, one is told so.
    Column("supersedes", Text, ForeignKey("baseline.baseline_id"), unique=True),
    Index(None, "name", "set_at"),
    Index(None, "run_id"),
)

sweep = Table(
    "sweep",
    metadata,
    Column("sweep_id", Text, primary_key=True),
    Column("created_at", UtcDateTime, nullable=False),
    Column("status", Text, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("owner", Text, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("starts", Integer, nullable=False),
    # Texts of users stand in JSON, which takes every character: a text of PostgreSQL holds no NUL.
    Column("asked", JSON, nullable=False),
    Column("answer", JSON, nullable=False),
    Index(None, "created_at"),
    comment="Sweeps of services: what was asked, how far each is, what was found",
)
