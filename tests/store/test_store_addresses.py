"""How a user names a store."""

from __future__ import annotations

import pytest
from store_examples import example_plan, refusal

from planner.errors import StoreError
from planner.store.database import open_store


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
