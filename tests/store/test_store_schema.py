"""Tables, migrations and saved databases of the past agree, on both databases."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text
from store_examples import HERE, ROOT, actor, example_plan, start_together

from planner.errors import StoreError
from planner.store import address, engine, schema
from planner.store.database import open_store
from planner.store.tables import metadata

MIGRATIONS = ROOT / "migrations"
REVISIONS = sorted(file.name[:4] for file in (MIGRATIONS / "versions").glob("[0-9]*.py"))
ADD_COLUMN = """
    with op.batch_alter_table("plan", recreate="auto") as batch:
        batch.add_column(sa.Column("note", sa.Text()))
        batch.alter_column("name", new_column_name="title")
"""
FAIL_HALF_WAY = """
    op.create_table("half", sa.Column("made", sa.Text()))
    op.execute("INSERT INTO absent VALUES (1)")
"""


def alembic_config(**attributes) -> Config:
    config = Config(output_buffer=attributes.pop("output", None))
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes.update(attributes)
    return config


def with_a_migration(folder: Path, body: str) -> Path:
    """The migrations of a later program: ours and one more."""
    later = shutil.copytree(MIGRATIONS, folder / "100% later")  # "%" means something to alembic
    number = f"{int(REVISIONS[-1]) + 1:04}"
    (later / "versions" / f"{number}_more.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision = {number!r}\ndown_revision = {REVISIONS[-1]!r}\n"
        f"def upgrade():{body}"
        f"    op.execute(\"INSERT INTO schema_release VALUES ('{number}', '9.8.7')\")\n"
    )
    return later


def upgrade(url: str, migrations: Path) -> None:
    place = address.parse(url)
    connections = engine.create(place)
    schema.bring_up_to_date(connections, place, migrations)
    connections.dispose()


def migrated(url: str) -> str:
    with engine.writing(engine.create(address.parse(url))) as connection:
        command.upgrade(alembic_config(connection=connection), "head")
    return url


def described(url: str) -> dict[str, object]:
    """All that a database says about its tables, in no particular order."""
    looking = inspect(engine.create(address.parse(url)))
    asked = ("columns", "pk_constraint", "foreign_keys", "indexes", "unique_constraints")
    return {
        f"{table}.{what}": sorted(map(str, answer)) if isinstance(answer, list) else str(answer)
        for table in looking.get_table_names()
        for what in asked
        for answer in [getattr(looking, f"get_{what}")(table)]
    }


def contents(url: str, table: str) -> list[tuple[object, ...]]:
    with engine.create(address.parse(url)).connect() as connection:
        return [tuple(row) for row in connection.execute(text(f"SELECT * FROM {table}"))]


def test_migrations_lead_to_the_tables(url):
    """Alembic finds nothing to change after the last migration."""
    migrated(url)
    with engine.create(address.parse(url)).connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_a_created_store_equals_a_migrated_one(url, tmp_path, request):
    """Creating skips alembic; nobody could tell from the database."""
    open_store(url).close()
    if url.startswith("sqlite"):
        other = migrated(f"sqlite:///{tmp_path / 'migrated.db'}")
    else:
        server = request.getfixturevalue("server")
        other = migrated(server.fresh_schema())
        assert server.schema(url) == server.schema(other)
        assert server.schema(url).count("CREATE TABLE") == 8
    assert described(url) == described(other)
    assert len(described(url)) == 5 * 8  # five questions, seven tables of ours and alembic's
    assert contents(url, "alembic_version") == contents(other, "alembic_version")
    assert contents(url, "schema_release")[-1] == contents(other, "schema_release")[-1]


def test_migrations_can_be_written_as_sql(file, tmp_path):
    """For an administrator who does not let programs alter tables."""
    written = StringIO()
    config = alembic_config(output=written)
    config.cmd_opts = type("Options", (), {"x": [f"db={file}"]})()
    command.upgrade(config, "head", sql=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(written.getvalue())
    other = migrated(f"sqlite:///{tmp_path / 'migrated.db'}")
    assert described(f"sqlite:///{file}") == described(other)
    assert open_store(str(file)).save_plan(example_plan()) is True


def test_every_revision_has_a_saved_database():
    """A new migration comes with one: ``sqlite3 plans.db .dump > databases/NNNN.sql``."""
    assert sorted(file.stem for file in (HERE / "databases").glob("*.sql")) == REVISIONS


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_saved_database_of_every_revision_opens_with_its_plans(revision, file):
    """They were written by the program of that time."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript((HERE / "databases" / f"{revision}.sql").read_text())
    with open_store(str(file)) as store:
        assert store.plan("000000000001") == example_plan(1)
        assert [row.plan_id for row in store.plans(10)] == ["000000000002", "000000000001"]
        assert store.save_plan(example_plan(3)) is True
    assert contents(f"sqlite:///{file}", "alembic_version") == [(REVISIONS[-1],)]


def test_an_older_store_is_upgraded_and_keeps_its_rows(url, tmp_path):
    """In SQLite the table is copied; the kernels that refer to it must not go with the old one."""
    with open_store(url) as store:
        store.save_plan(example_plan())
    upgrade(url, with_a_migration(tmp_path, ADD_COLUMN))
    assert len(contents(url, "plan_kernel")) == 3
    (row,) = contents(url, "plan")
    assert row[-1] is None  # the new column
    assert "chat" in row


def test_a_sqlite_store_is_copied_before_it_is_upgraded(file, tmp_path):
    """The copy is a whole store of the old revision, next to the new one."""
    with open_store(str(file)) as store:
        store.save_plan(example_plan())
    upgrade(f"sqlite:///{file}", with_a_migration(tmp_path, ADD_COLUMN))
    copy = file.with_name(f"plans.db.{REVISIONS[-1]}.bak")
    with open_store(str(copy)) as store:
        assert store.plan("0") == example_plan()


def test_a_copy_is_never_written_over(file, tmp_path):
    """Someone's file of that name stays, the copy takes another."""
    open_store(str(file)).close()
    taken = file.with_name(f"plans.db.{REVISIONS[-1]}.bak")
    taken.write_text("precious")
    upgrade(f"sqlite:///{file}", with_a_migration(tmp_path, ADD_COLUMN))
    assert taken.read_text() == "precious"
    assert file.with_name(f"plans.db.{REVISIONS[-1]}.2.bak").stat().st_size > 0


def test_an_upgrade_that_fails_leaves_the_store_as_it_was(url, tmp_path):
    """Tables, revision and rows; this program still works with it."""
    with open_store(url) as store:
        store.save_plan(example_plan())
    before = described(url)
    with pytest.raises(Exception, match="absent"):
        upgrade(url, with_a_migration(tmp_path, FAIL_HALF_WAY))
    assert described(url) == before
    with open_store(url) as store:
        assert store.plan("0") == example_plan()


def test_an_upgrade_that_would_orphan_rows_is_refused(file, tmp_path):
    """Foreign keys are off while SQLite copies tables, so they are looked over at the end."""
    with open_store(str(file)) as store:
        store.save_plan(example_plan())
    with pytest.raises(StoreError, match="3 rows refer to rows that are not there"):
        upgrade(
            f"sqlite:///{file}",
            with_a_migration(tmp_path, '\n    op.execute("DELETE FROM plan")\n'),
        )
    with open_store(str(file)) as store:
        assert store.plan("0") == example_plan()


def test_processes_that_upgrade_a_store_at_once_all_succeed(url, tmp_path):
    """One upgrades and copies, the others find it done."""
    with open_store(url) as store:
        store.save_plan(example_plan())
    later = with_a_migration(tmp_path, ADD_COLUMN)
    start_together([actor("upgrade_together", url, later) for _ in range(3)])
    assert len(contents(url, "plan")) == 1
    assert len(list(tmp_path.glob("*.bak*"))) == (1 if url.startswith("sqlite") else 0)


def test_a_newer_store_is_refused_with_the_release_to_install(url, tmp_path):
    """And is not touched."""
    open_store(url).close()
    upgrade(url, with_a_migration(tmp_path, ADD_COLUMN))
    before = described(url)
    number = f"{int(REVISIONS[-1]) + 1:04}"
    with pytest.raises(StoreError) as refused:
        open_store(url)
    assert f"is of revision {number}, newer than this program knows" in str(refused.value)
    assert "(install inference-planner >= 9.8.7)" in str(refused.value)
    assert described(url) == before


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE customers (name TEXT)"],
        ["CREATE TABLE alembic_version (version_num TEXT)"],
        [
            "CREATE TABLE alembic_version (version_num TEXT)",
            "INSERT INTO alembic_version VALUES ('1975ea83b712')",
        ],
        [
            "CREATE TABLE alembic_version (version_num TEXT)",
            "INSERT INTO alembic_version VALUES ('0042')",
        ],
    ],
)
def test_the_database_of_another_program_is_refused_and_left_alone(url, statements):
    """With tables but no revision, and with a revision that is none of ours."""
    with engine.writing(engine.create(address.parse(url))) as connection:
        for statement in statements:
            connection.execute(text(statement))
    before = described(url)
    with pytest.raises(StoreError, match="belongs to another program"):
        open_store(url)
    assert described(url) == before
