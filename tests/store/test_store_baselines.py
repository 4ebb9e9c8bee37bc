"""Names for accepted runs, the same on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from run_examples import example_run

from planner.errors import UsageError
from planner.store.database import open_store


@pytest.fixture
def runs(store):
    """Ids of three stored runs, the last of another plan."""
    examples = [example_run(0), example_run(1), example_run(2, plan_id="b" * 12)]
    for example in examples:
        store.save_run(example)
    return [example.run_id for example in examples]


def test_a_baseline_stands_for_the_run_it_was_set_to(store, runs):
    before = datetime.now(UTC)
    row = store.set_baseline("main", runs[0][:6], "ci")
    assert (row.name, row.run_id, row.set_by, row.supersedes) == ("main", runs[0], "ci", None)
    assert before <= row.set_at <= datetime.now(UTC)
    assert store.baseline("main") == row


def test_who_superseded_what_is_kept(store, runs):
    first = store.set_baseline("main", runs[0], "ann")
    second = store.set_baseline("main", runs[1], "bob")
    third = store.set_baseline("main", runs[0], "ann")
    assert store.baseline("main") == third
    assert store.baseline_history("main") == [third, second, first]
    assert [row.supersedes for row in (third, second)] == [second.baseline_id, first.baseline_id]


def test_setting_the_run_it_stands_for_changes_nothing(store, runs):
    first = store.set_baseline("main", runs[0], "ann")
    assert store.set_baseline("main", runs[0], "bob") == first
    assert store.baseline_history("main") == [first]


def test_present_baselines_are_listed_by_name(store, runs):
    store.set_baseline("main", runs[0], "ci")
    store.set_baseline("main", runs[1], "ci")
    store.set_baseline("beta", runs[2], "ci")
    assert [(row.name, row.run_id) for row in store.baselines()] == [
        ("beta", runs[2]),
        ("main", runs[1]),
    ]
    assert [row.name for row in store.baselines("b" * 12)] == ["beta"]


def test_an_unknown_baseline_is_refused_with_the_nearest(store, runs):
    with pytest.raises(UsageError, match="the store holds no baseline"):
        store.baseline("main")
    store.set_baseline("main", runs[0], "ci")
    with pytest.raises(UsageError, match="did you mean 'main'"):
        store.baseline_history("mian")


def test_a_baseline_of_an_unknown_run_is_refused(store, runs):
    with pytest.raises(UsageError, match="no stored run begins with 'zz'"):
        store.set_baseline("main", "zz", "ci")
    assert store.baselines() == []


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101])
def test_a_name_that_cannot_be_is_refused(store, runs, name):
    with pytest.raises(UsageError, match="1 to 100 printable characters"):
        store.set_baseline(name, runs[0], "ci")


def test_of_many_that_set_a_name_at_once_the_history_stays_one_line(url):
    """Some are told that another was quicker; those that were not are all in the line."""
    examples = [example_run(number) for number in range(12)]
    with open_store(url) as store:
        for example in examples:
            store.save_run(example)

        def set_it(example):
            try:
                return store.set_baseline("main", example.run_id, "ci").baseline_id
            except UsageError:
                return None

        with ThreadPoolExecutor(4) as threads:
            done = list(filter(None, threads.map(set_it, examples)))
        assert sorted(row.baseline_id for row in store.baseline_history("main")) == sorted(done)
        assert len(store.baselines()) == 1
