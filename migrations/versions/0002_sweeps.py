"""Sweeps of a service, so that they outlive it.

There is no way back: an older program finds the copy that was made before the upgrade.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sweep",
        sa.Column("sweep_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("starts", sa.Integer(), nullable=False),
        sa.Column("asked", sa.JSON(), nullable=False),
        sa.Column("answer", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("sweep_id", name="pk_sweep"),
        comment="Sweeps of services: what was asked, how far each is, what was found",
    )
    op.create_index("ix_sweep_created_at", "sweep", ["created_at"])
    op.execute("INSERT INTO schema_release (revision, release) VALUES ('0002', '0.1.0')")
