"""What the other process of a test does: ``python store_actor.py ACTION URL …``."""

from __future__ import annotations

import resource
import select
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from run_examples import example_run
from sqlalchemy import Engine, event
from store_examples import example_plan

from planner.errors import StoreError, UsageError
from planner.store import address, engine, schema
from planner.store.database import open_store
from planner.store.prune import prune


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def wait_for_the_others() -> None:
    say("ready")
    sys.stdin.readline()


def open_together(url: str) -> None:
    wait_for_the_others()
    open_store(url).close()


def save_fifty(url: str, first: str) -> None:
    with open_store(url) as store:
        for number in range(int(first), int(first) + 50):
            assert store.save_plan(example_plan(number))
            say(number)


def save_same(url: str) -> None:
    with open_store(url) as store:
        wait_for_the_others()
        say(sum(store.save_plan(example_plan(number)) for number in range(50)))


def stop_at(connections: type[Engine] | Engine, words: str) -> None:
    """Say so and sleep once the database is about to be sent a statement with these words."""

    @event.listens_for(connections, "before_cursor_execute")
    def stop(_connection, _cursor, statement, *_rest):
        if words in statement:
            say("half way")
            time.sleep(60)


def stop_in_save(url: str) -> None:
    with open_store(url) as store:
        stop_at(store._engine, "INSERT INTO plan_kernel")
        store.save_plan(example_plan(7))


def stop_in_create(url: str) -> None:
    stop_at(Engine, "CREATE TABLE baseline")
    open_store(url)


def upgrade_together(url: str, migrations: str) -> None:
    place = address.parse(url)
    connections = engine.create(place)
    wait_for_the_others()
    schema.bring_up_to_date(connections, place, Path(migrations))


def fill_disk(url: str, size_bytes: str) -> None:
    """A limit on the size of files stands in for a full disk."""
    with open_store(url) as store:
        assert store.save_plan(example_plan(0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(size_bytes), int(size_bytes)))
        try:
            for number in range(1, 1000):
                store.save_plan(example_plan(number))
                say(number)
        except StoreError as error:
            say(error)


def prune_all(url: str, archive: str) -> None:
    """Everything that nothing refers to, however young."""
    with open_store(url) as store:
        found = store.removable(datetime(9999, 1, 1, tzinfo=UTC))
        done = prune(store, found, Path(archive))
        say(*(row.run_id for row in done.removed.runs))


def stop_in_prune(url: str, archive: str, words: str) -> None:
    stop_at(Engine, words)
    prune_all(url, archive)


def prune_on(url: str, folder: str) -> None:
    """Prune again and again until told to end."""
    for number in range(1000):
        prune_all(url, f"{folder}/{number}.jsonl")
        if select.select([sys.stdin], [], [], 0)[0]:
            return


def record_fifty(url: str, first: str) -> None:
    """Plans planned long ago, each looked up and then given a run and a name, as commands do."""
    with open_store(url) as store:
        for number in range(int(first), int(first) + 50):
            plan = example_plan(number)
            store.save_plan(plan)
            run = example_run(number, plan.plan_id)
            try:
                store.save_run(run)
                store.save_plan(plan)
                store.set_baseline(f"b{number}", run.run_id, "ci")
            except (StoreError, UsageError) as error:  # the run was pruned before it was accepted
                say("refused", error)
                continue
            say(number)


def full_disk_at_prune(url: str, archive: str, size_bytes: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size_bytes), int(size_bytes)))
    try:
        prune_all(url, archive)
    except UsageError as error:
        say(error)


def modules(url: str) -> None:
    open_store(url).close()
    say(*sorted(sys.modules))


def without_driver(url: str) -> None:
    sys.modules["psycopg"] = None  # type: ignore[assignment]
    try:
        open_store(url)
    except StoreError as error:
        say(error)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
