"""What a database can refuse: each time one sentence with a hint, and nothing is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from store_examples import actor, example_plan, finish

from planner.errors import StoreError
from planner.store import address
from planner.store.database import open_store


def refusal(url: object, **options) -> str:
    """The sentence with which opening is refused."""
    with pytest.raises(StoreError) as refused:
        open_store(str(url), **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def refused_save(store, number: int = 1) -> str:
    with pytest.raises(StoreError) as refused:
        store.save_plan(example_plan(number))
    assert "\n" not in str(refused.value)
    return str(refused.value)


@contextmanager
def locked(url: str):
    """Another client is in the middle of a transaction."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(address.parse(url).file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
    else:
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE plan IN ACCESS EXCLUSIVE MODE")
            yield


# Files


@pytest.mark.parametrize("content", ["x", "no database\n", "price: 0.69 USD/h\n" * 400])
def test_a_text_file_is_refused_and_left_as_it_is(file, content):
    """SQLite itself would take a file of one byte for an empty database."""
    file.write_text(content)
    assert f"{file} is no SQLite database" in refusal(file)
    assert file.read_text() == content


def test_an_empty_file_becomes_a_store(file):
    """``touch plans.db`` and ``mktemp`` make such."""
    file.touch()
    with open_store(str(file)) as store:
        assert store.save_plan(example_plan()) is True


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    """The hint says that it is one."""
    assert "it is a folder; name a file in it" in refusal(tmp_path)


def test_a_file_below_a_file_is_refused(file):
    """The hint says which is the file."""
    file.write_text("x")
    assert f"{file} is a file, not a folder" in refusal(file / "plans.db")


def test_a_file_in_a_folder_that_is_not_there_is_refused(tmp_path):
    """A misspelt path makes no folders."""
    assert f"there is no folder {tmp_path}/absent" in refusal(tmp_path / "absent" / "plans.db")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_not_be_written_is_refused(bound_by_permissions):
    """Neither the file nor its journal could be made."""
    bound_by_permissions.chmod(0o500)
    assert "check the permissions of the file and its folder" in refusal(
        bound_by_permissions / "plans.db"
    )


def test_a_file_that_may_not_be_read_is_refused(bound_by_permissions):
    """Another user's, say."""
    file = bound_by_permissions / "plans.db"
    open_store(str(file)).close()
    file.chmod(0)
    assert "check the permissions of the file and its folder" in refusal(file)


def test_a_file_that_may_not_be_written_can_be_read(bound_by_permissions):
    """Listing works, saving is refused."""
    file = bound_by_permissions / "plans.db"
    with open_store(str(file)) as store:
        store.save_plan(example_plan(0))
    file.chmod(0o400)
    with open_store(str(file)) as store:
        assert "cannot be written (check the permissions" in refused_save(store)
        assert store.plan("0") == example_plan(0)


def test_a_damaged_file_is_refused_at_opening(file):
    """The page that lists the tables is noise from its 100th byte on."""
    _with_plans(file, 40)
    with file.open("r+b") as damaged:
        damaged.seek(100)
        damaged.write(b"\xa5" * 3996)
    assert f"{file} is damaged (put a copy in its place" in refusal(file)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b'{"deployment"', b"\xff\xfe\xff\xfe"),  # no text
        (b'{"deployment"', b"{{{{"),  # no JSON
        (b"2026-03-01 ", b"2026-xx-01 "),  # no time
    ],
)
def test_a_damaged_row_is_refused_when_it_is_read(file, was, now):
    """The structure of the file is whole, so SQLite hands out what the bytes have become."""
    _with_plans(file, 1)
    content = file.read_bytes()
    assert content.count(was) >= 1
    file.write_bytes(content.replace(was, now + was[len(now) :]))
    with open_store(str(file)) as store, pytest.raises(StoreError, match="is damaged"):
        store.plan("0")


def test_a_file_cut_short_is_refused_when_it_is_read(file):
    """A copy that broke off: half of the pages are missing."""
    _with_plans(file, 40)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with open_store(str(file)) as store, pytest.raises(StoreError, match="is damaged"):
        store.plans(1000)


def test_a_disk_that_fills_up_stops_the_saving_and_loses_nothing(file):
    """SQLite may not grow beyond the pages it has; the real "disk is full"."""
    with open_store(str(file)) as store:
        store.save_plan(example_plan(0))
        with store._engine.connect() as connection:
            pages = connection.scalar(text("PRAGMA page_count"))
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        big = example_plan(1, document={"kernels": [], "filler": "x" * 50_000})
        with pytest.raises(StoreError, match=r"cannot grow: the disk is full \(free some space"):
            store.save_plan(big)
        assert [row.plan_id for row in store.plans(10)] == ["000000000000"]


def test_a_limit_on_the_size_of_files_stops_the_saving_and_loses_nothing(file):
    """As under a quota: every plan that was confirmed is there, and the next process can go on."""
    *said, error = finish(actor("fill_disk", file, 200_000)).splitlines()
    assert f"the database {file} " in error
    with open_store(str(file)) as store:
        confirmed = {f"{int(number):012x}" for number in ["0", *said]}
        assert {row.plan_id for row in store.plans(1000)} == confirmed
        assert store.save_plan(example_plan(999)) is True


def test_a_store_locked_by_another_process_is_refused_after_a_while(url):
    """Ten seconds usually; a twentieth of one here. Reading still works in SQLite."""
    open_store(url).close()
    with open_store(url, lock_wait_s=0.05) as store:
        with locked(url):
            assert "is locked by another process (wait for" in refused_save(store)
        assert store.save_plan(example_plan(1)) is True


def test_a_new_file_locked_by_another_process_is_refused_after_a_while(file):
    """Before there are any tables."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "is locked by another process" in refusal(file, lock_wait_s=0.05)
    open_store(str(file)).close()


# Servers


def test_a_server_that_is_not_there_is_refused_without_the_password():
    """Port 1 is nobody's."""
    sentence = refusal("postgresql://me:s3cret@127.0.0.1:1/plans")
    assert "postgresql+psycopg://me:***@127.0.0.1:1/plans cannot be reached: " in sentence
    assert "(check the address and the server)" in sentence
    assert "s3cret" not in sentence


def test_a_database_that_is_not_there_is_refused(server):
    """The server's own words say which."""
    assert 'database "absent" does not exist' in refusal(server.url("absent"))


def test_a_user_that_is_not_there_is_refused(server):
    """The server's own words say who."""
    assert 'role "stranger" does not exist' in refusal(server.url("postgres", user="stranger"))


def test_a_user_without_rights_is_refused(server):
    """May connect, may not create."""
    url = server.fresh_database()
    with psycopg.connect(url) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
    assert "does not permit this" in refusal(url.replace("postgres@", "guest@"))


def test_a_server_whose_disk_is_full_is_reported(server):
    """A trigger raises what the server would."""
    with open_store(server.fresh_database()) as store:
        with store._engine.begin() as connection:
            connection.exec_driver_sql(
                "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$"
            )
            connection.exec_driver_sql(
                "CREATE TRIGGER full_disk BEFORE INSERT ON plan_kernel EXECUTE FUNCTION full_disk()"
            )
        assert "the server's disk is full" in refused_save(store)
        assert store.plans(10) == []


def test_a_connection_that_the_server_ends_is_reported_and_made_anew(server):
    """The next call works again."""
    url = server.fresh_database()
    with open_store(url) as store:
        store.plans(1)
        with psycopg.connect(server.url("postgres"), autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [address.parse(url).url.database],
            )
        assert "ended the connection" in refused_save(store)
        assert store.save_plan(example_plan(1)) is True


def test_a_text_that_postgresql_cannot_hold_is_refused(server):
    """YAML can write a NUL character, PostgreSQL cannot keep one."""
    with open_store(server.fresh_database()) as store:
        with pytest.raises(StoreError, match="cannot hold a value"):
            store.save_plan(example_plan(name="a\0b"))
        assert store.plans(10) == []


def test_a_missing_driver_is_named_with_what_to_install():
    """PostgreSQL's driver is an extra."""
    assert finish(actor("without_driver", "postgresql://host/plans")) == (
        "the driver 'psycopg' for PostgreSQL is not installed"
        " (pip install 'inference-planner[postgresql]')"
    )


# Addresses


@pytest.mark.parametrize(
    "url", ["mysql://host/db", "sqlite:///x.db?mode=ro", "postgresql+nosuch://host/db"]
)
def test_other_databases_drivers_and_options_are_refused(url):
    """SQLite and PostgreSQL alone are tested."""
    assert "known" in refusal(url) or "not installed" in refusal(url)


def test_an_address_that_cannot_be_read_is_not_repeated():
    """It may hold a password."""
    sentence = refusal("postgresql://me:s3cret@host:port/db")
    assert "cannot be read" in sentence
    assert "s3cret" not in sentence


def test_a_path_and_its_url_are_the_same_store(file):
    """``--db plans.db`` and ``--db sqlite:///plans.db``."""
    with open_store(str(file)) as store:
        store.save_plan(example_plan())
    with open_store(f"sqlite:///{file}") as store:
        assert store.plan("0") == example_plan()


def test_a_path_may_hold_any_character(tmp_path):
    """Blanks, percent signs and question marks mean nothing in a path."""
    file = tmp_path / "my 100% plans?#.db"
    with open_store(str(file)) as store:
        store.save_plan(example_plan())
    assert file.stat().st_size > 0


def test_the_environment_names_the_store(file, monkeypatch):
    """Unless the call does."""
    monkeypatch.setenv("PLANNER_DB", str(file))
    open_store().close()
    assert file.exists()


def test_the_default_is_a_file_in_the_data_folder_of_the_user(tmp_path, monkeypatch):
    """Made with all folders above it."""
    monkeypatch.delenv("PLANNER_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "new" / "share"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with open_store() as store:
        store.save_plan(example_plan())
    (file,) = tmp_path.rglob("plans.db")
    assert file.parent.name == "planner"


def test_a_data_folder_that_cannot_be_made_is_refused(file, monkeypatch):
    """A file is in its place."""
    file.write_text("x")
    monkeypatch.delenv("PLANNER_DB", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(file))
    monkeypatch.setenv("HOME", str(file))
    with pytest.raises(StoreError, match="cannot be created: Not a directory"):
        open_store()


def test_a_store_in_memory_is_a_store():
    """For a plan that shall leave no trace."""
    with open_store(":memory:") as store:
        store.save_plan(example_plan())
        assert store.plan("0") == example_plan()


def _with_plans(file: Path, count: int) -> None:
    with open_store(str(file)) as store:
        for number in range(count):
            store.save_plan(example_plan(number))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # everything in the one file
