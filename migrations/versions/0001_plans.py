"""Plans with their kernels, and the tables for runs and baselines.

There is no way back: an older program finds the copy that was made before the upgrade.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_release()
    _create_plan()
    _create_plan_kernel()
    _create_run()
    _create_sample()
    _create_baseline()


def _create_release() -> None:
    op.create_table(
        "schema_release",
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("release", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_schema_release"),
        comment="Which release reads a revision, so that an older program can name it",
    )
    op.execute("INSERT INTO schema_release (revision, release) VALUES ('0001', '0.1.0')")


def _create_plan() -> None:
    op.create_table(
        "plan",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("result_hash", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("backend", sa.Text(), nullable=False),
        sa.Column("step_time_s", sa.Double(), nullable=False),
        sa.Column("fits", sa.Boolean(), nullable=False),
        sa.Column("parts", sa.JSON(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "result_hash", name="pk_plan"),
    )
    op.create_index("ix_plan_created_at", "plan", ["created_at"])
    op.create_index("ix_plan_name", "plan", ["name"])
    op.create_index("ix_plan_model_gpu_backend", "plan", ["model", "gpu", "backend"])


def _create_plan_kernel() -> None:
    op.create_table(
        "plan_kernel",
        sa.Column("plan_id", sa.Text(), nullable=False),
        sa.Column("result_hash", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("block", sa.Text(), nullable=True),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("hbm_bytes", sa.Double(), nullable=False),
        sa.Column("time_s", sa.Double(), nullable=False),
        sa.Column("bound", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("plan_id", "result_hash", "position", name="pk_plan_kernel"),
        sa.ForeignKeyConstraint(
            ["plan_id", "result_hash"],
            ["plan.plan_id", "plan.result_hash"],
            name="fk_plan_kernel_plan_id",
        ),
        comment="The kernels of plan.document once more, to be asked with SQL",
    )
    op.create_index("ix_plan_kernel_name", "plan_kernel", ["name"])


def _create_run() -> None:
    op.create_table(
        "run",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("plan_id", sa.Text(), nullable=True),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("context", sa.JSON(), nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_run"),
    )
    op.create_index("ix_run_plan_id_recorded_at", "run", ["plan_id", "recorded_at"])
    op.create_index("ix_run_sha256", "run", ["sha256"])


def _create_sample() -> None:
    op.create_table(
        "sample",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("statistic", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "position", name="pk_sample"),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], name="fk_sample_run_id"),
    )
    op.create_index("ix_sample_name_statistic", "sample", ["name", "statistic"])


def _create_baseline() -> None:
    op.create_table(
        "baseline",
        sa.Column("baseline_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("supersedes", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("baseline_id", name="pk_baseline"),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], name="fk_baseline_run_id"),
        sa.ForeignKeyConstraint(
            ["supersedes"], ["baseline.baseline_id"], name="fk_baseline_supersedes"
        ),
        sa.UniqueConstraint("supersedes", name="uq_baseline_supersedes"),
    )
    op.create_index("ix_baseline_name_set_at", "baseline", ["name", "set_at"])
    op.create_index("ix_baseline_run_id", "baseline", ["run_id"])
