"""What a PostgreSQL server can refuse: each time one sentence with a hint, and nothing is lost."""

from __future__ import annotations

import psycopg
import pytest
from store_examples import actor, example_plan, finish, refusal, refused_save

from planner.errors import StoreError
from planner.store import address
from planner.store.database import open_store


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
    with psycopg.connect(server.url("postgres")) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
    assert "does not permit this" in refusal(server.url("postgres", user="guest"))
    unseen = server.fresh_schema().replace("postgres@", "guest@")
    assert "has no schema that this role may use" in refusal(unseen)


def test_a_server_whose_disk_is_full_is_reported(server):
    """A trigger raises what the server would."""
    with open_store(server.fresh_schema()) as store:
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
    with open_store(server.fresh_schema()) as store:
        with pytest.raises(StoreError, match="cannot hold a value"):
            store.save_plan(example_plan(name="a\0b"))
        assert store.plans(10) == []


def test_a_missing_driver_is_named_with_what_to_install():
    """PostgreSQL's driver is an extra."""
    assert finish(actor("without_driver", "postgresql://host/plans")) == (
        "the driver 'psycopg' for PostgreSQL is not installed"
        " (pip install 'inference-planner[postgresql]')"
    )
