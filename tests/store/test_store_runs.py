"""Saving and finding measured runs, the same on both databases."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from run_examples import FIRST, RUNS_PER_PROCESS, example_run, recorder
from sqlalchemy import event, text

from planner.errors import StoreError, UsageError
from planner.plan.runs import Metric
from planner.store.database import open_store

ROWS_PER_RUN = 5
"""Three figures and two single measurements."""


def test_a_run_comes_back_as_it_was_saved(url):
    """Every field, the bytes of its file included, also after the store was closed."""
    run = example_run()
    with open_store(url) as store:
        assert store.save_run(run) is True
    with open_store(url) as store:
        assert store.run(run.run_id) == run


def test_a_run_of_no_plan_comes_back_too(store):
    run = example_run(plan_id=None)
    store.save_run(run)
    assert store.run(run.run_id) == run


def test_a_run_kept_before_steps_were_read_has_none(store):
    """Its context column names no steps."""
    run = example_run()
    store.save_run(run)
    with store._engine.begin() as connection:
        context = json.loads(
            connection.execute(text("SELECT CAST(context AS TEXT) FROM run")).scalar_one()
        )
        del context["traced"]
        connection.execute(text("UPDATE run SET context = :it"), {"it": json.dumps(context)})
    assert store.run(run.run_id) == replace(run, run=replace(run.run, traced=None))


def test_saving_twice_is_a_no_op(store):
    """The first row stays, its time included."""
    first = example_run()
    assert store.save_run(first) is True
    assert store.save_run(replace(first, recorded_at=FIRST + timedelta(days=1))) is False
    assert store.run(first.run_id) == first
    assert len(store.runs(10)) == 1


def test_what_makes_a_run_another_one():
    """The file, the plan and the circumstances; not the time, nor what we read out of the file."""
    first = example_run()
    others = [example_run(1), example_run(plan_id="1" * 12), example_run(context={"gpu": "l40s"})]
    assert len({first.run_id, *(other.run_id for other in others)}) == 4
    assert example_run(notes=()).run_id == first.run_id
    assert len(first.run_id) == 12


def test_runs_are_found_by_the_beginning_of_their_id(store):
    run = example_run()
    store.save_run(run)
    assert store.run(f" {run.run_id[:5].upper()} ").run_id == run.run_id


def test_an_unknown_run_is_refused_with_the_nearest(store):
    with pytest.raises(
        UsageError, match=r"no stored run begins with 'ab' \(the store holds no run\)"
    ):
        store.run("ab")
    run = example_run()
    store.save_run(run)
    wrong = run.run_id[:-1] + ("0" if run.run_id[-1] != "0" else "1")
    with pytest.raises(UsageError, match=f"did you mean {run.run_id}"):
        store.run(wrong)


def test_a_listing_has_the_newest_first_with_their_figures(store):
    for number in (2, 0, 1):
        store.save_run(example_run(number))
    rows = store.runs(2)
    assert [row.recorded_at for row in rows] == [FIRST + timedelta(seconds=n) for n in (2, 1)]
    assert rows[0].metrics == example_run().run.metrics
    assert rows[0].tool == "vllm 0.26"


def test_a_listing_can_be_of_one_plan(store):
    store.save_run(example_run(1, plan_id="a" * 12))
    store.save_run(example_run(2, plan_id="b" * 12))
    assert [row.plan_id for row in store.runs(10, "a" * 12)] == ["a" * 12]
    assert store.runs(10, "c" * 12) == []


def test_a_listing_of_nothing_is_refused(store):
    with pytest.raises(UsageError, match="cannot list 0 runs"):
        store.runs(0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_figure_that_is_no_number_is_refused_and_stores_nothing(store, value):
    with pytest.raises(UsageError, match="mean step is"):
        store.save_run(example_run(metrics=(Metric("step", "mean", value),)))
    assert store.runs(10) == []


def test_figures_can_be_asked_with_sql(store):
    """Single measurements stand below the figures, under `sample`."""
    store.save_run(example_run())
    query = text("SELECT name, statistic, value, unit FROM sample ORDER BY position")
    with store._engine.connect() as connection:
        assert [tuple(row) for row in connection.execute(query)] == [
            ("step", "mean", 0.0071, "s"),
            ("step", "p99", 0.0093, "s"),
            ("output_throughput", "mean", 1200.5, "tokens/s"),
            ("step", "sample", 0.007, "s"),
            ("step", "sample", 0.0072, "s"),
        ]


def test_rows_are_appended_and_never_edited(store):
    """All that is sent to the database begins with one of these."""
    sent = set()
    event.listen(store._engine, "before_cursor_execute", lambda *call: sent.add(call[2].split()[0]))
    for number in (1, 2, 2):
        store.save_run(example_run(number))
        store.set_baseline("main", example_run(number).run_id, "ci")
    store.runs(10)
    store.baseline_history("main")
    assert sent - {"BEGIN"} == {"INSERT", "SELECT"}


@pytest.mark.slow
def test_of_eight_writers_two_of_them_killed_every_confirmed_run_is_there_once_and_whole(url):
    """6 × 250 = 1,500 runs of those that lived; of the killed ones all they confirmed, and at most
    one more each.
    """
    open_store(url).close()
    writers = [recorder(url, RUNS_PER_PROCESS * place) for place in range(8)]
    said: list[int] = []
    for writer in writers[:2]:
        said += [int(writer.stdout.readline()) for _ in range(20)]
        writer.kill()
    for writer in writers:
        said += [int(line) for line in writer.stdout.read().split()]
        writer.communicate(timeout=300)
    assert [writer.returncode for writer in writers[2:]] == [0] * 6
    with open_store(url) as store:
        found = rows_per_run(store)
    assert len(said) == len(set(said)) >= 6 * RUNS_PER_PROCESS + 40
    assert {example_run(number).run_id for number in said} <= set(found)
    assert len(found) <= len(said) + 2
    assert set(found.values()) == {ROWS_PER_RUN}


def rows_per_run(store) -> Counter[str]:
    query = text(
        "SELECT run.run_id, count(sample.position) FROM run"
        " LEFT JOIN sample ON sample.run_id = run.run_id GROUP BY run.run_id"
    )
    with store._engine.connect() as connection:
        return Counter({row[0]: row[1] for row in connection.execute(query)})


def test_a_disk_that_fills_up_stops_the_recording_and_loses_nothing(tmp_path):
    """A limit on the pages of the database stands in for the disk; no run is there by half."""
    with open_store(str(tmp_path / "plans.db")) as store:
        event.listen(
            store._engine, "begin", lambda c: c.exec_driver_sql("PRAGMA max_page_count=60")
        )
        kept = []
        with pytest.raises(StoreError, match=r"the disk is full \(free some space"):
            kept.extend(number for number in range(1000) if store.save_run(example_run(number)))
        found = rows_per_run(store)
        assert found.keys() == {example_run(number).run_id for number in kept} != set()
        assert set(found.values()) == {ROWS_PER_RUN}
