"""What is said of the store: what it holds, what could go, what went."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from planner.report.storage import SHOWN, prune_view, store_view

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def shown(view) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(view)
    return console.file.getvalue()


def runs(count):
    row = {"plan_id": None, "recorded_at": NOON, "tool": "vllm [bold]bench[/bold]"}
    return [row | {"run_id": f"{number:012x}"} for number in range(count)]


def plans(count):
    row = {"result_hash": "aa", "name": "chat", "created_at": NOON}
    return [row | {"plan_id": f"{number:012x}"} for number in range(count)]


def found(**changes):
    return {
        "removed": False,
        "before": NOON,
        "runs": [],
        "plans": [],
        "file_bytes": 0,
        "backups": [],
        "archive": None,
        "size_bytes": None,
        "note": None,
    } | changes


@pytest.mark.parametrize(("size", "said"), [(3 * 2**20, "3.00 MiB"), (None, "–")])
def test_a_store_is_told_by_its_counts_and_its_size(size, said):
    body = {"place": "p.db", "revision": "0001", "plans": 1234, "runs": 2, "baselines": 0}
    text = shown(store_view(body | {"size_bytes": size}))
    assert "p.db: revision 0001" in text
    assert "1,234" in text
    assert said in text


def test_nothing_to_remove_is_one_line():
    assert shown(prune_view(found())) == "nothing older than 2026-03-01 12:00 UTC could go\n"


def test_what_could_go_is_counted_and_listed_up_to_a_number():
    """25 runs: the first 20 are listed, names are not read as markup."""
    text = shown(prune_view(found(runs=runs(25), plans=plans(1), file_bytes=2**20)))
    assert "could go: 25 runs (1.00 MiB of files) and 1 result of plans" in text
    assert text.count("vllm [bold]bench[/bold]") == SHOWN
    assert "the oldest 20 of each; --json has all" in text
    assert "nothing was changed" in text


def test_what_went_says_where_it_is_now_and_what_was_gained():
    body = found(
        removed=True, runs=runs(1), archive="a.jsonl", size_bytes=[2**21, 2**20], note=None
    )
    text = shown(prune_view(body))
    assert "removed: 1 run " in text
    assert "kept in a.jsonl; `planner db import` takes it back" in text
    assert "the store took 2.00 MiB, now 1.00 MiB" in text
    assert "nothing was changed" not in text


def test_a_file_that_could_not_shrink_says_why():
    body = found(removed=True, runs=runs(1), archive="a", size_bytes=[9, 9], note="p.db is locked")
    assert "the file keeps its size: p.db is locked" in shown(prune_view(body))


def test_upgrade_copies_alone_are_listed_too():
    text = shown(prune_view(found(backups=["p.db.0001.bak"])))
    assert "Upgrade copies: could go" in text
    assert "p.db.0001.bak" in text
