"""Saving and finding plans, the same on both databases."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text
from store_examples import example_plan

from planner.errors import UsageError
from planner.store.database import open_store
from planner.store.types import PlanRow


def test_a_plan_comes_back_as_it_was_saved(url):
    """Every field, also after the store was closed and opened again."""
    plan = example_plan()
    with open_store(url) as store:
        assert store.save_plan(plan) is True
    with open_store(url) as store:
        assert store.plan(plan.plan_id) == plan


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)  # fmt: skip
def test_any_document_comes_back_equal(store, value):
    """Whatever JSON can say, the store keeps, on both databases."""
    document = {"kernels": [], "value": value}
    plan_id = hashlib.sha256(repr(value).encode()).hexdigest()[:12]
    store.save_plan(example_plan(plan_id=plan_id, document=document))
    assert store.plan(plan_id).document == document


def test_a_document_keeps_the_order_of_its_keys(store):
    """A stored plan prints like a fresh one."""
    document = {"kernels": [], "zebra": 1, "apple": {"y": 1, "x": 2}}
    store.save_plan(example_plan(document=document))
    assert str(store.plan("0").document) == str(document)


def test_a_number_that_json_lacks_is_a_bug_and_stores_nothing(store):
    """NaN would be kept by SQLite and refused by PostgreSQL; so neither takes it."""
    with pytest.raises(Exception, match="JSON compliant"):
        store.save_plan(example_plan(document={"kernels": [], "value": float("nan")}))
    assert store.plans(10) == []


def test_saving_twice_is_a_no_op(store):
    """The first row stays, its time included."""
    first = example_plan()
    assert store.save_plan(first) is True
    again = example_plan(created_at=first.created_at + timedelta(days=1), name="renamed")
    assert store.save_plan(again) is False
    assert store.plan(first.plan_id) == first
    assert len(store.plans(10)) == 1


def test_another_result_of_the_same_plan_is_another_row_and_the_newest_is_found(store):
    """The question is the same, our model has changed: both answers are kept."""
    old = example_plan(step_time_s=0.02)
    new = example_plan(
        result_hash="bb" * 32, step_time_s=0.03, created_at=old.created_at + timedelta(hours=1)
    )
    assert store.save_plan(new) is True
    assert store.save_plan(old) is True
    assert store.plan(old.plan_id) == new
    assert [row.step_time_s for row in store.plans(10)] == [0.03, 0.02]


def test_kernels_can_be_asked_with_sql(store):
    """One row per kernel in the plan's order; a kernel outside of any block has none."""
    store.save_plan(example_plan())
    with store._engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT plan_id, position, name, block, repeat, hbm_bytes, time_s, bound, evidence"
                " FROM plan_kernel ORDER BY position"
            )
        ).all()
    key = "000000000000"
    assert [tuple(row) for row in rows] == [
        (key, 0, "kernel_0", None, 28, 1000.5, 1e-6, "memory", "roofline"),
        (key, 1, "kernel_1", "decoder", 28, 1001.5, 2e-6, "memory", "roofline"),
        (key, 2, "kernel_2", "decoder", 28, 1002.5, 3e-6, "memory", "roofline"),
    ]


def test_a_prefix_finds_its_plan_in_either_case(store):
    """As many digits as tell it from the others, blanks around them do not count."""
    store.save_plan(example_plan(plan_id="abc000000000"))
    store.save_plan(example_plan(plan_id="abd000000000"))
    assert store.plan(" ABC ").plan_id == "abc000000000"


def test_an_id_that_begins_another_is_found(store):
    """The whole id wins over longer ones."""
    store.save_plan(example_plan(plan_id="abc"))
    store.save_plan(example_plan(plan_id="abcd"))
    assert store.plan("abc").plan_id == "abc"


def test_an_ambiguous_prefix_lists_what_it_could_mean(store):
    """At most ten of them."""
    for number in range(12):
        store.save_plan(example_plan(number))
    with pytest.raises(UsageError) as refused:
        store.plan("00")
    listed = ", ".join(f"{number:012x}" for number in range(10))
    assert str(refused.value) == (
        f"several plans begin with '00': {listed} and more (give more digits)"
    )


def test_an_unknown_id_names_the_nearest(store):
    """Two digits changed places."""
    store.save_plan(example_plan(plan_id="3f9c12d84e7a"))
    store.save_plan(example_plan(plan_id="b00000000000"))
    with pytest.raises(UsageError, match=r"begins with '3f9c21' \(did you mean 3f9c12d84e7a\?\)"):
        store.plan("3f9c21")


def test_an_unknown_id_unlike_all_others_names_the_newest(store):
    """Better than nothing, and it shows what an id looks like."""
    store.save_plan(example_plan(1))
    with pytest.raises(UsageError, match=r"'zzz' \(the newest is 000000000001\)"):
        store.plan("zzz")


@pytest.mark.parametrize("prefix", ["", "%", "_", "'", "\\"])
def test_a_prefix_is_text_and_no_pattern(store, prefix):
    """Nothing matches by accident, and nothing is taken for SQL."""
    store.save_plan(example_plan(1))
    with pytest.raises(UsageError, match="no stored plan begins with"):
        store.plan(prefix)


def test_an_empty_store_says_so(store):
    """There is no nearest id to name."""
    with pytest.raises(UsageError, match="the store is empty"):
        store.plan("abc")


def test_a_listing_is_newest_first_limited_and_without_documents(store):
    """Plans 0 to 4 are a second apart; the two newest are 4 and 3."""
    for number in (3, 0, 4, 1, 2):
        store.save_plan(example_plan(number))
    rows = store.plans(2)
    assert [row.plan_id for row in rows] == ["000000000004", "000000000003"]
    assert [type(row) for row in rows] == [PlanRow, PlanRow]


@pytest.mark.parametrize("column", ["model", "gpu", "backend", "name"])
def test_a_listing_is_narrowed_by_each_column(store, column):
    """Exactly the rows whose column is the value, the newest of all is not among them."""
    store.save_plan(example_plan(1, **{column: "wanted"}))
    store.save_plan(example_plan(2))
    assert [row.plan_id for row in store.plans(10, **{column: "wanted"})] == ["000000000001"]
    assert store.plans(10, **{column: "absent"}) == []


def test_a_listing_of_nothing_is_refused(store):
    """SQLite would take -1 for all rows, PostgreSQL for an error."""
    with pytest.raises(UsageError, match="cannot list -1 plans"):
        store.plans(-1)


def test_times_are_kept_as_utc(store):
    """13:00 at two hours east of Greenwich is 11:00 UTC."""
    there = timezone(timedelta(hours=2))
    store.save_plan(example_plan(created_at=datetime(2026, 3, 1, 13, tzinfo=there)))
    (row,) = store.plans(1)
    assert row.created_at == datetime(2026, 3, 1, 11, tzinfo=UTC)
    assert row.created_at.tzinfo is UTC


def test_a_time_without_a_zone_is_a_bug(store):
    """Which moment it means is unknown."""
    with pytest.raises(Exception, match="has no time zone"):
        store.save_plan(example_plan(created_at=datetime(2026, 3, 1)))  # noqa: DTZ001


def test_a_kernel_that_cannot_be_stored_leaves_no_plan(store):
    """Plan and kernels are one transaction."""
    plan = example_plan()
    plan.document["kernels"][2]["name"] = None
    with pytest.raises(Exception, match=r"(?i)not.null"):
        store.save_plan(plan)
    assert store.plans(10) == []
    plan.document["kernels"][2]["name"] = "mended"
    assert store.save_plan(plan) is True


def test_a_row_that_refers_to_none_is_refused(url):
    """Foreign keys are on, which SQLite does not do by itself."""
    open_store(url).close()
    orphan = text("INSERT INTO sample VALUES ('no run', 0, 'step', 'mean', 1.0, 's')")
    refused = pytest.raises(Exception, match=r"(?i)foreign key")
    with open_store(url) as store, store._engine.connect() as connection, refused:
        connection.execute(orphan)


def test_rows_are_appended_and_never_edited(store):
    """All that is sent to the database while plans are saved and read begins with one of these."""
    sent = set()
    event.listen(store._engine, "before_cursor_execute", lambda *call: sent.add(call[2].split()[0]))
    for changes in ({}, {}, {"result_hash": "bb"}):
        store.save_plan(example_plan(**changes))
    store.plan("0")
    store.plans(10, model="x")
    assert sent - {"BEGIN"} == {"INSERT", "SELECT"}


def test_threads_may_share_a_store(store):
    """As the service does: 4 threads save 10 plans each."""
    with ThreadPoolExecutor(4) as threads:
        saved = list(threads.map(store.save_plan, map(example_plan, range(40))))
    assert saved == [True] * 40
    assert len(store.plans(100)) == 40


def test_plans_are_listed_page_by_page(store):
    """Three of one moment, then two older: pages of two are (0, 1), (2, 3), (4)."""
    moment = example_plan().created_at
    for number, later in enumerate((1, 1, 1, 0, 0)):
        at = moment + timedelta(seconds=later)
        store.save_plan(example_plan(number, created_at=at))
    pages, after = [], None
    while rows := store.plans(2, after=after):
        pages.append([int(row.plan_id, 16) for row in rows])
        after = (rows[-1].plan_id, rows[-1].result_hash)
    assert pages == [[0, 1], [2, 3], [4]]
    with pytest.raises(UsageError, match="not in the store"):
        store.plans(2, after=("ff", "ff"))
