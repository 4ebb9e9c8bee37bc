"""What an import read, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from planner.report.cells import bullets, facts, heading, table, words


def import_view(
    written_to: str,
    found: Mapping[str, str],
    notes: Sequence[str],
    rows: Iterable[Mapping[str, Any]] = (),
) -> RenderableType:
    """Where the spec is, what it holds, and what it does not."""
    parts: list[RenderableType] = [facts([("written to", written_to), *found.items()])]
    if listed := list(rows):
        parts += [heading("Words"), _words(listed)]
    if notes:
        parts += [heading("Notes"), bullets(notes)]
    return Group(*parts)


def _words(rows: list[Mapping[str, Any]]) -> RenderableType:
    found = table(("place", "word", "value", "becomes"), left=range(4))
    for row in rows:
        cells = (row["where"], row["word"], row["value"] or "", row["becomes"])
        found.add_row(*(words(cell) for cell in cells))
    return found
