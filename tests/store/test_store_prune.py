"""Pruning: what nothing refers to goes, after it is on the disk elsewhere; the rest stays."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_examples import example_run
from store_examples import actor, example_plan, finish
from test_store_transfer import everything

from planner.errors import UsageError
from planner.store.database import open_store
from planner.store.prune import archive_beside, old_backups, prune
from planner.store.transfer import import_lines

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
"""When the example plan and the example run of number 0 were made; number n is n seconds later."""
OLD, YOUNG = 0, 100
LIMIT = NOON + timedelta(seconds=50)


def plan_id(number: int) -> str:
    return f"{number:012x}"


def going(store, before=LIMIT):
    """What could go: numbers of plans with the hash of the result, and ids of runs."""
    found = store.removable(before)
    plans = {(int(row.plan_id, 16), row.result_hash[:2]) for row in found.plans}
    return plans, {row.run_id for row in found.runs}


def test_an_old_plan_without_runs_goes_and_a_young_one_stays(store):
    store.save_plan(example_plan(OLD))
    store.save_plan(example_plan(YOUNG))
    assert going(store) == ({(OLD, "aa")}, set())


def test_the_limit_itself_is_not_older_than_it(store):
    store.save_plan(example_plan(50))
    store.save_run(example_run(50))
    assert going(store) == (set(), set())


def test_an_old_run_goes_with_its_plan(store):
    store.save_plan(example_plan(OLD))
    store.save_run(example_run(OLD, plan_id(OLD)))
    assert going(store) == ({(OLD, "aa")}, {example_run(OLD, plan_id(OLD)).run_id})


def test_a_young_run_holds_its_old_plan(store):
    store.save_plan(example_plan(OLD))
    store.save_run(example_run(OLD, plan_id(OLD)))
    store.save_run(example_run(YOUNG, plan_id(OLD)))
    assert going(store) == (set(), {example_run(OLD, plan_id(OLD)).run_id})


def test_a_baseline_holds_its_run_and_that_its_plan_also_once_superseded(store):
    """Both runs are old; the first was the baseline, the second is."""
    for number in (OLD, OLD + 1):
        store.save_plan(example_plan(number))
        store.save_run(example_run(number, plan_id(number)))
        store.set_baseline("main", example_run(number, plan_id(number)).run_id, "ci")
    assert going(store) == (set(), set())


def test_of_a_plan_with_a_run_the_newest_result_stays_however_old(store):
    """Saved 0, 1 and 2 s after noon; of two saved at once the one that `plan` hands out."""
    for seconds, result in ((0, "aa"), (1, "cc"), (2, "dd"), (2, "bb")):
        moment = NOON + timedelta(seconds=seconds)
        store.save_plan(example_plan(OLD, result_hash=result * 32, created_at=moment))
    store.save_run(example_run(YOUNG, plan_id(OLD)))
    assert store.plan(plan_id(OLD)).result_hash[:2] == "bb"
    assert going(store) == ({(OLD, "aa"), (OLD, "cc"), (OLD, "dd")}, set())


def test_a_run_of_no_plan_or_of_one_that_is_elsewhere_goes_by_its_age(store):
    store.save_run(example_run(OLD, None))
    store.save_run(example_run(OLD + 1, "f" * 12))
    store.save_run(example_run(YOUNG, None))
    assert len(going(store)[1]) == 2


def test_what_goes_is_gone_whole_and_the_archive_brings_it_back(store, tmp_path):
    """Kernels and samples go too, so that saving again is new; order and times come back."""
    for number in (OLD, YOUNG):
        store.save_plan(example_plan(number))
        store.save_run(example_run(number, plan_id(number)))
    before = everything(store)
    done = prune(store, store.removable(LIMIT), tmp_path / "archive.jsonl")
    assert (len(done.removed.plans), len(done.removed.runs)) == (1, 1)
    assert done.removed.file_bytes == len(example_run(OLD).raw)
    assert [plan.plan_id for plan in store.every_plan()] == [plan_id(YOUNG)]
    assert [run.plan_id for run in store.every_run()] == [plan_id(YOUNG)]
    with (tmp_path / "archive.jsonl").open() as lines:
        counts = import_lines(store, lines, "archive.jsonl")
    assert counts == {"plan": (1, 0), "run": (1, 0), "baseline": (0, 0)}
    assert everything(store) == before


def test_nothing_to_remove_writes_no_archive(store, tmp_path):
    store.save_plan(example_plan(YOUNG))
    assert prune(store, store.removable(LIMIT), tmp_path / "archive.jsonl").archive is None
    assert not (tmp_path / "archive.jsonl").exists()


def test_an_archive_that_is_there_already_is_left_and_nothing_goes(store, tmp_path):
    store.save_plan(example_plan(OLD))
    archive = tmp_path / "archive.jsonl"
    archive.write_text("mine")
    with pytest.raises(UsageError, match=r"archive.jsonl cannot be written: File exists"):
        prune(store, store.removable(LIMIT), archive)
    assert archive.read_text() == "mine"
    assert len(list(store.every_plan())) == 1


def test_what_came_to_be_referred_to_since_stays_and_is_in_the_archive_too(store, tmp_path):
    """A run for one plan, a baseline for a run of another, recorded after looking."""
    for number in range(3):
        store.save_plan(example_plan(number))
        store.save_run(example_run(number, plan_id(number)))
    found = store.removable(LIMIT)
    store.save_run(example_run(YOUNG, plan_id(0)))
    store.set_baseline("main", example_run(1, plan_id(1)).run_id, "ci")
    done = prune(store, found, tmp_path / "archive.jsonl")
    assert [row.plan_id for row in done.removed.plans] == [plan_id(2)]
    assert [row.plan_id for row in done.removed.runs] == [plan_id(0), plan_id(2)]
    assert [plan.plan_id for plan in store.every_plan()] == [plan_id(0), plan_id(1)]
    assert len((tmp_path / "archive.jsonl").read_text().splitlines()) == 1 + 3 + 3


def test_an_old_run_that_was_taken_over_since_holds_its_plan(store, tmp_path):
    """It isn't in the archive, so it stays, and with it what it is judged by."""
    store.save_plan(example_plan(OLD))
    found = store.removable(LIMIT)
    store.save_run(example_run(OLD, plan_id(OLD)))
    done = prune(store, found, tmp_path / "archive.jsonl")
    assert (done.removed.plans, done.removed.runs) == ((), ())


def test_of_two_who_prune_at_once_the_second_is_told_and_removes_nothing(store, tmp_path):
    store.save_plan(example_plan(OLD))
    store.save_run(example_run(OLD, plan_id(OLD)))
    found = store.removable(LIMIT)
    prune(store, found, tmp_path / "first.jsonl")
    with pytest.raises(UsageError, match=f"plan {plan_id(OLD)} is not in the store any more"):
        prune(store, found, tmp_path / "second.jsonl")
    assert not (tmp_path / "second.jsonl").exists()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_what_stays_refers_to_nothing_that_went(tmp_path_factory, data):
    """By hand for any store: kept runs are the young and the accepted; see the two sentences below."""
    numbers = st.integers(0, 6)
    plans = data.draw(st.lists(st.tuples(numbers, st.sampled_from("abc"), numbers), max_size=8))
    runs = data.draw(st.lists(st.tuples(numbers, numbers), unique=True, max_size=6))
    accepted = data.draw(st.lists(st.sampled_from(runs), max_size=4)) if runs else []
    limit = data.draw(numbers)
    with open_store(":memory:") as store:
        for number, result, seconds in plans:
            moment = NOON + timedelta(seconds=seconds)
            store.save_plan(example_plan(number, result_hash=result * 64, created_at=moment))
        stored = {run: example_run(run[0], plan_id(run[1])) for run in runs}
        for run in stored.values():
            store.save_run(run)
        for run in accepted:
            store.set_baseline("main", stored[run].run_id, "ci")
        newest = {row.plan_id: store.plan(row.plan_id).result_hash for row in store.every_plan()}
        before = NOON + timedelta(seconds=limit)
        had = list(store.every_plan())
        file = tmp_path_factory.mktemp("archive") / "archive.jsonl"
        prune(store, store.removable(before), file)
        # A run stays that is not older than the limit, or was ever a baseline.
        kept_runs = [run for run in runs if run[0] >= limit or run in accepted]
        assert {r.run_id for r in store.every_run()} == {stored[run].run_id for run in kept_runs}
        # A result stays that is not older, or is the newest of a plan that such a run belongs to.
        held = {plan_id(run[1]) for run in kept_runs}
        assert list(store.every_plan()) == [
            plan
            for plan in had
            if plan.created_at >= before
            or (plan.plan_id in held and plan.result_hash == newest[plan.plan_id])
        ]


def test_a_pruned_file_gives_its_space_back(file, tmp_path):
    """40 runs with files of 100 kB: 4 MB at least go."""
    raw = b"x" * 100_000
    with open_store(str(file)) as store:
        for number in range(40):
            run = example_run(number)
            store.save_run(type(run)(**{**vars(run), "raw": raw}))
        done = prune(store, store.removable(LIMIT), tmp_path / "archive.jsonl")
    was, now = done.size_bytes
    assert was - now > 40 * 100_000
    assert file.stat().st_size == now


def test_a_file_that_another_process_reads_keeps_its_size_and_says_so(file, tmp_path):
    """The rows are gone all the same."""
    with open_store(str(file), lock_wait_s=0.05) as store, open_store(str(file)) as other:
        store.save_plan(example_plan(OLD))
        with other._reading() as connection:
            connection.exec_driver_sql("SELECT * FROM plan").fetchone()
            done = prune(store, store.removable(LIMIT), tmp_path / "archive.jsonl")
        assert store.plans(1) == []
        assert done.note is None or "locked" in done.note


def test_the_archive_stands_beside_a_file_and_must_be_named_for_a_server(url):
    with open_store(url) as store:
        if store.file is None:
            with pytest.raises(UsageError, match=r"name a file with --archive"):
                archive_beside(store, NOON)
        else:
            name = f"{store.file.name}.20260301-120000.pruned.jsonl"
            assert archive_beside(store, NOON) == store.file.with_name(name)


@pytest.mark.parametrize(
    "words",
    ["DELETE FROM sample", "DELETE FROM run", "DELETE FROM plan_kernel", "DELETE FROM plan"],
)
def test_killed_between_archive_and_removal_everything_is_still_there(url, tmp_path, words):
    """And the archive is whole by then; the next process goes on."""
    with open_store(url) as store:
        store.save_plan(example_plan(OLD))
        store.save_run(example_run(OLD, plan_id(OLD)))
        before = everything(store)
    archive = tmp_path / "archive.jsonl"
    process = actor("stop_in_prune", url, archive, words)
    assert process.stdout.readline() == "half way\n"
    process.kill()
    process.wait()
    with open_store(url) as store, open_store(":memory:") as other:
        assert everything(store) == before
        with archive.open() as lines:
            import_lines(other, lines, "archive.jsonl")
        assert everything(other) == before
        assert prune(store, store.removable(LIMIT), tmp_path / "second.jsonl").removed.plans


def test_killed_while_it_writes_the_archive_everything_is_still_there(url, tmp_path):
    """The archive is cut short then; its name is taken, so nobody adds to it."""
    with open_store(url) as store:
        for number in range(3):
            store.save_run(example_run(number))
        before = everything(store)
    process = actor("stop_in_prune", url, tmp_path / "archive.jsonl", "run.raw")
    assert process.stdout.readline() == "half way\n"
    process.kill()
    process.wait()
    assert len((tmp_path / "archive.jsonl").read_text().splitlines()) < 1 + 3
    with open_store(url) as store:
        assert everything(store) == before


def test_a_full_disk_under_the_archive_stops_before_anything_goes(file, tmp_path):
    """A limit on the size of files stands in for it: 30 runs of 3 kB do not fit into 50 kB."""
    with open_store(str(file)) as store:
        for number in range(30):
            run = example_run(number)
            store.save_run(type(run)(**{**vars(run), "raw": b"x" * 3000}))
        before = everything(store)
    archive = tmp_path / "archive.jsonl"
    said = finish(actor("full_disk_at_prune", file, archive, 50_000))
    assert (
        said
        == f"{archive} cannot be written: File too large (name a file where there is more space)"
    )
    assert not archive.exists()
    with open_store(str(file)) as store:
        assert everything(store) == before


def test_pruning_beside_processes_that_record_loses_nothing(url, tmp_path):
    """Two record and accept 50 runs each while one prunes all it may: every run that was accepted is
    there with its plan, and every run that was ever recorded is there or in an archive.
    """
    open_store(url).close()
    pruner = actor("prune_on", url, tmp_path)
    recorders = [actor("record_fifty", url, first) for first in (0, 50)]
    said = [line for process in recorders for line in finish(process).splitlines()]
    pruner.stdin.write("end\n")
    pruner.stdin.flush()
    finish(pruner)
    accepted = {int(line) for line in said if line.isdecimal()}
    refused = [line for line in said if not line.isdecimal()]
    assert len(accepted) + len(refused) == 100
    assert all("any more" in line or "no stored run" in line or "lacks" in line for line in refused)
    archived = {
        document["run_id"]
        for file in tmp_path.glob("*.jsonl")
        for document in map(json.loads, file.read_text().splitlines())
        if document["kind"] == "run"
    }
    with open_store(url) as store:
        runs = {run.run_id for run in store.every_run()}
        for number in accepted:
            assert store.plan(plan_id(number)) == example_plan(number)
            assert example_run(number, plan_id(number)).run_id in runs
        everyone = {example_run(number, plan_id(number)).run_id for number in range(100)}
        assert runs | archived == everyone


def test_old_backups_are_all_upgrade_copies_of_this_file_but_the_newest(file, tmp_path):
    """By their time. Copies of other files, other suffixes and unfinished ones are nobody's."""
    names = ["plans.db.0001.bak", "plans.db.0001.2.bak", "plans.db.0002.bak"]
    others = ["plans.db.bak", "other.db.0001.bak", "plans.db.0003.bak.part", "plansxdb.0001.bak"]
    for seconds, name in enumerate([*names, *others]):
        _touch(tmp_path / name, seconds)
    with open_store(str(file)) as store:
        assert [path.name for path in old_backups(store)] == names[:2]
    _touch(tmp_path / names[0], 1000)
    with open_store(str(file)) as store:
        assert [path.name for path in old_backups(store)] == names[1:]


def test_a_store_without_backups_has_no_old_ones(url):
    with open_store(url) as store:
        if store.file:
            assert old_backups(store) == ()
        else:
            with pytest.raises(UsageError, match=r"leave --backups out"):
                old_backups(store)


def _touch(path: Path, seconds: int) -> None:
    import os

    path.touch()
    os.utime(path, (1_700_000_000 + seconds,) * 2)
