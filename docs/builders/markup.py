"""Small pieces of Markdown that the builders share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_NONE = "–"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A pipe table. Empty cells get a dash, bars in cells are escaped."""
    lines = [_row(header), _row(["---"] * len(header))]
    lines += [_row([_cell(cell) for cell in row]) for row in rows]
    return "\n".join(lines)


def code(text: object) -> str:
    """The text as inline code."""
    return f"`{text}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or _NONE


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
