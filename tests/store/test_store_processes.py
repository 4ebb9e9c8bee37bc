"""Several processes at one store, and processes that are killed. Every process is a real one."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from store_examples import actor, example_plan, finish, start_together

from planner.store.database import open_store

KERNELS_PER_PLAN = 3


def kernels_per_plan(store) -> dict[str, int]:
    query = (
        "SELECT plan.plan_id, count(plan_kernel.position) AS kernels FROM plan LEFT JOIN plan_kernel"
        " ON plan.plan_id = plan_kernel.plan_id GROUP BY plan.plan_id"
    )
    with store._engine.connect() as connection:
        return {row.plan_id: row.kernels for row in connection.execute(text(query))}


def is_sound(store) -> bool:
    if store._engine.dialect.name != "sqlite":
        return True
    with store._engine.connect() as connection:
        return connection.scalar(text("PRAGMA integrity_check")) == "ok"


def test_processes_that_create_a_store_at_once_all_succeed(url):
    """One makes the tables, the others find them made."""
    start_together([actor("open_together", url) for _ in range(4)])
    with open_store(url) as store:
        assert store.plans(1) == []


def test_plans_of_four_writers_at_once_are_all_there(url):
    """4 × 50 = 200 plans, each with its three kernels, on a store that none of them found made."""
    for process in [actor("save_fifty", url, first) for first in (0, 50, 100, 150)]:
        finish(process)
    with open_store(url) as store:
        expected = {f"{number:012x}": KERNELS_PER_PLAN for number in range(200)}
        assert kernels_per_plan(store) == expected
        assert is_sound(store)


def test_of_writers_of_the_same_plans_each_plan_is_new_to_one(url):
    """Two processes save the same 50 plans: 50 answers of 100 are "new"."""
    open_store(url).close()
    new = start_together([actor("save_same", url) for _ in range(2)])
    assert sum(map(int, new)) == 50
    with open_store(url) as store:
        assert set(kernels_per_plan(store).values()) == {KERNELS_PER_PLAN}


def test_a_writer_killed_between_plan_and_kernels_leaves_neither(url):
    """And the plan can be saved by another afterwards."""
    process = actor("stop_in_save", url)
    assert process.stdout.readline() == "half way\n"
    process.kill()
    process.wait()
    with open_store(url) as store:
        assert store.plans(10) == []
        assert store.save_plan(example_plan(7)) is True
        assert store.plan(example_plan(7).plan_id) == example_plan(7)


def test_a_writer_killed_at_any_moment_leaves_whole_plans_and_all_it_confirmed(url):
    """What the process said it had saved is there; at most one more is, whole."""
    process = actor("save_fifty", url, 0)
    said = [int(process.stdout.readline()) for _ in range(10)]
    process.kill()
    said += [int(line) for line in process.stdout.read().split()]
    process.communicate()
    with open_store(url) as store:
        found = kernels_per_plan(store)
        assert set(found) >= {f"{number:012x}" for number in said}
        assert len(found) <= len(said) + 1
        assert set(found.values()) == {KERNELS_PER_PLAN}
        assert is_sound(store)


def test_a_store_whose_creation_was_killed_is_created_by_the_next(url):
    """No half-made tables stand in the way."""
    process = actor("stop_in_create", url)
    assert process.stdout.readline() == "half way\n"
    process.kill()
    process.wait()
    with open_store(url) as store:
        assert store.save_plan(example_plan()) is True


@pytest.mark.parametrize("times", [1, 2])
def test_alembic_and_the_orm_are_not_loaded_to_create_or_open(url, times):
    """They take a third of a second, which every command would pay."""
    for _ in range(times):
        loaded = finish(actor("modules", url)).split()
    assert "sqlalchemy" in loaded
    assert not {"alembic", "sqlalchemy.orm"} & set(loaded)
