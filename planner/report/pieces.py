"""A report as pieces that any page is made of: the views of the terminal, taken apart again.

Views are written once, in ``rich``. What they hold is headings, lines, lists, pairs and tables, so
HTML and Markdown say the same words in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from planner.plan.values import plain
from planner.report.cells import Typed


@dataclass(frozen=True)
class Heading:
    """The title of a section."""

    text: str


@dataclass(frozen=True)
class Line:
    """A line of text; ``tone`` is ``plain``, ``strong``, ``small``, ``good`` or ``bad``."""

    text: str
    tone: str = "plain"


@dataclass(frozen=True)
class Command:
    """Lines for a shell."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """Sentences, each by itself."""

    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Pairs:
    """Words and what they are."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Grid:
    """A table; ``right`` says which columns are numbers."""

    headers: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A chart as SVG. A page without pictures leaves it out."""

    svg: str


Piece = Heading | Line | Command | Bullets | Pairs | Grid | Picture


def pieces(view: RenderableType) -> Iterator[Piece]:
    """What a view is made of. Raises TypeError for anything that no view holds."""
    if isinstance(view, Group):
        for inner in view.renderables:
            yield from pieces(inner)
    elif isinstance(view, Table):
        yield _table(view)
    elif isinstance(view, Typed):
        yield Command(view.plain)
    elif isinstance(view, Text):
        yield from _text(view)
    else:
        raise TypeError(f"{type(view).__name__} is no piece of a report")


def plain_pieces(found: Iterable[Piece]) -> list[dict[str, Any]]:
    """Pieces as plain data, each with its kind under ``piece``."""
    return [{"piece": type(each).__name__.lower(), **plain(each)} for each in found]


def _text(text: Text) -> Iterator[Piece]:
    style, said = str(text.style), text.plain
    if style == "bold" and said.startswith("\n"):
        yield Heading(said.strip())
    elif said.strip():
        yield Line(said.strip("\n"), _tone(style))


def _tone(style: str) -> str:
    if "red" in style:
        return "bad"
    if "green" in style:
        return "good"
    return {"bold": "strong", "dim": "small"}.get(style, "plain")


def _table(found: Table) -> Piece:
    rows = tuple(
        zip(*([_cell(cell) for cell in column.cells] for column in found.columns), strict=True)
    )
    if found.show_header:
        headers = tuple(_cell(column.header) for column in found.columns)
        return Grid(headers, tuple(column.justify == "right" for column in found.columns), rows)
    if all(first == "-" for first, *_ in rows):
        return Bullets(tuple(" ".join(rest) for _, *rest in rows))
    return Pairs(tuple((first, " ".join(rest)) for first, *rest in rows))


def _cell(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
