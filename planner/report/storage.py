"""The store itself: what it holds, what could go, what went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from planner import units
from planner.report.cells import DASH, bullets, facts, heading, small, table, words

SHOWN = 20
"""Rows of what goes; all of them are in the JSON and in the archive."""


def store_view(store: Mapping[str, Any]) -> RenderableType:
    """What `planner db current` prints."""
    size = store["size_bytes"]
    counts = [(kind, f"{store[kind]:,}") for kind in ("plans", "runs", "baselines")]
    return Group(
        words(f"{store['place']}: revision {store['revision']}"),
        facts([*counts, ("size", DASH if size is None else units.show_bytes(size))]),
    )


def prune_view(found: Mapping[str, Any]) -> RenderableType:
    """What `planner db prune` found or did."""
    return Group(*_prune_parts(found))


def _prune_parts(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    runs, plans, copies = found["runs"], found["plans"], found["backups"]
    since = f"{_moment(found['before'])} UTC"
    if not (runs or plans or copies):
        yield words(f"nothing older than {since} could go")
        return
    verb = "removed" if found["removed"] else "could go"
    size = units.show_bytes(found["file_bytes"])
    yield words(
        f"{verb}: {_count(len(runs), 'run')} ({size} of files) and "
        f"{_count(len(plans), 'result')} of plans older than {since}",
        "bold",
    )
    if runs or plans:
        yield _rows(runs, plans)
    if len(runs) > SHOWN or len(plans) > SHOWN:
        yield small(f"the oldest {SHOWN} of each; --json has all")
    if copies:
        yield heading(f"Upgrade copies: {verb}")
        yield bullets(copies)
    yield from _after(found)


def _after(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    if not found["removed"]:
        yield small("nothing was changed; --yes removes this after writing it to a file")
        return
    if found["archive"]:
        yield words(f"kept in {found['archive']}; `planner db import` takes it back")
    if found["size_bytes"]:
        before, after = map(units.show_bytes, found["size_bytes"])
        yield words(f"the store took {before}, now {after}")
    if found["note"]:
        yield words(f"the file keeps its size: {found['note']}", "yellow")


def _rows(runs: list[Mapping[str, Any]], plans: list[Mapping[str, Any]]) -> Table:
    shown = table(("what", "id", "since (UTC)", "of"), left=range(4), whole=(1, 2))
    for row in runs[:SHOWN]:
        cells = (row["run_id"], _moment(row["recorded_at"]), row["tool"])
        shown.add_row("run", *map(words, cells))
    for row in plans[:SHOWN]:
        cells = (row["plan_id"], _moment(row["created_at"]), row["name"])
        shown.add_row("plan", *map(words, cells))
    return shown


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
