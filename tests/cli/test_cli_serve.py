"""``planner serve`` before it serves: what it refuses."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture(autouse=True)
def without_tokens(monkeypatch):
    """None of whoever runs the tests."""
    monkeypatch.delenv("PLANNER_READ_TOKEN", raising=False)
    monkeypatch.delenv("PLANNER_WRITE_TOKEN", raising=False)


def test_a_port_that_is_taken_is_refused_with_a_hint(run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", "--port", str(port), "--db", str(tmp_path / "x.db"))
    assert result.code == 2
    assert "Address already in use (try another --port)" in result.err


def test_a_store_that_is_none_is_refused(run, tmp_path):
    (tmp_path / "x.db").write_text("no database")
    result = run("serve", "--port", "0", "--db", str(tmp_path / "x.db"))
    assert result.code == 2
    assert "is no SQLite database" in result.err


def test_a_store_in_memory_is_refused(run):
    result = run("serve", "--port", "0", "--db", ":memory:")
    assert (result.code, result.err) == (
        2,
        "a store in memory cannot be served (name a file with --db)\n",
    )


def test_a_wrong_token_file_is_refused(run, tmp_path):
    result = run("serve", "--token-file", str(tmp_path / "none"))
    assert result.code == 2
    assert "cannot be read" in result.err


def test_beyond_loopback_a_token_is_needed(run, tmp_path):
    result = run("serve", "--host", "0.0.0.0", "--port", "0", "--db", str(tmp_path / "x.db"))
    assert result.code == 2
    assert result.err == (
        "beyond this machine, at 0.0.0.0, a token is needed (give --token-file, or "
        "PLANNER_READ_TOKEN and PLANNER_WRITE_TOKEN)\n"
    )
