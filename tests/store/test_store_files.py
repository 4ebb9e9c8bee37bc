"""What a SQLite file can refuse: each time one sentence with a hint, and nothing is lost."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Timer

import psycopg
import pytest
from run_examples import example_run
from sqlalchemy import text
from store_examples import actor, example_plan, finish, refusal, refused_save

from planner.errors import StoreError, UsageError
from planner.store import address
from planner.store.database import open_store
from planner.store.prune import prune

LATER = datetime(2027, 1, 1, tzinfo=UTC)
"""After every example."""


@contextmanager
def locked(url: str):
    """Another client is in the middle of a transaction."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(address.parse(url).file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
    else:
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE plan, run, baseline IN EXCLUSIVE MODE")
            yield


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


def test_a_file_cut_short_is_refused(file):
    """A copy that broke off: half of the pages are missing."""
    _with_plans(file, 40)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert "is damaged" in refusal(file)


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


@pytest.mark.parametrize("action", ["record", "accept", "prune"])
def test_nothing_is_recorded_accepted_or_pruned_under_a_lock(url, tmp_path, action):
    """Each is refused in the same words, and works once the other process is done."""
    with open_store(url) as store:
        store.save_run(example_run(0))
    archives = (tmp_path / f"{number}.jsonl" for number in itertools.count())
    actions = {
        "record": lambda store: store.save_run(example_run(1)),
        "accept": lambda store: store.set_baseline("main", example_run(0).run_id, "ci"),
        "prune": lambda store: prune(store, store.removable(LATER), next(archives)),
    }
    with open_store(url, lock_wait_s=0.05) as store:
        with (
            locked(url),
            pytest.raises(StoreError, match=r"is locked by another process \(wait for"),
        ):
            actions[action](store)
        assert [run.run_id for run in store.every_run()] == [example_run(0).run_id]
        assert actions[action](store)


def test_a_run_for_a_file_that_may_not_be_written_is_refused_and_others_are_read(
    bound_by_permissions,
):
    file = bound_by_permissions / "plans.db"
    with open_store(str(file)) as store:
        store.save_run(example_run(0))
    file.chmod(0o400)
    with open_store(str(file)) as store:
        with pytest.raises(StoreError, match=r"cannot be written \(check the permissions"):
            store.save_run(example_run(1))
        with pytest.raises(StoreError, match=r"cannot be written \(check the permissions"):
            store.set_baseline("main", example_run(0).run_id, "ci")
        with pytest.raises(StoreError, match=r"cannot be written \(check the permissions"):
            store.remove(store.removable(LATER))
        assert list(store.every_run()) == [example_run(0)]


def test_a_disk_that_is_full_loses_no_run_that_was_confirmed(small_disk, tmp_path):
    """1 MiB takes some 20 runs of 40 kB with the journal; the 100th is asked for."""
    file = small_disk / "plans.db"
    runs = [replace(example_run(number), raw=b"x" * 40_000) for number in range(100)]
    confirmed = []
    with open_store(str(file)) as store:
        with pytest.raises(StoreError, match=r"(the disk is full|error of the disk) \("):
            confirmed.extend(run for run in runs if store.save_run(run))
        assert len(confirmed) > 5
    with open_store(str(file)) as store:
        assert list(store.every_run()) == confirmed
        store.back_up(tmp_path / "copy.db")
    with open_store(str(tmp_path / "copy.db")) as store:
        assert list(store.every_run()) == confirmed
        assert store.save_run(runs[-1])


def test_a_full_disk_under_the_archive_leaves_the_store_as_it_is(small_disk, file):
    """Runs of 2 MB in all for a disk of one."""
    with open_store(str(file)) as store:
        for number in range(20):
            store.save_run(replace(example_run(number), raw=b"x" * 100_000))
        archive = small_disk / "archive.jsonl"
        with pytest.raises(UsageError, match=r"No space left on device \(name a file where"):
            prune(store, store.removable(LATER), archive)
        assert not archive.exists()
        assert len(list(store.every_run())) == 20


def test_a_new_file_that_another_process_is_about_to_write_is_waited_for(file):
    """SQLite itself does not wait when the journal becomes a write-ahead log."""
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        end = Timer(0.2, other.execute, ["ROLLBACK"])
        end.start()
        with open_store(str(file)) as store:
            assert store.save_plan(example_plan()) is True
        end.join()


def test_a_new_file_locked_by_another_process_is_refused_after_a_while(file):
    """Before there are any tables."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert "is locked by another process" in refusal(file, lock_wait_s=0.05)
    open_store(str(file)).close()


def _with_plans(file: Path, count: int) -> None:
    with open_store(str(file)) as store:
        for number in range(count):
            store.save_plan(example_plan(number))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # everything in the one file
