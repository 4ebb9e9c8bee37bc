"""A report as one HTML file that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from planner import __version__
from planner.report.pieces import Bullets, Command, Grid, Heading, Line, Pairs, Picture, Piece
from planner.report.style import NOTEBOOK, PAGE, STYLE


def page(title: str, found: Iterable[Piece]) -> str:
    """A whole document."""
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{PAGE}{STYLE}</style>\n</head>\n"
    )
    return (
        f'{head}<body class="planner-report">\n<main>\n<h1>{escape(title)}</h1>\n'
        f"{body(found)}</main>\n"
        f"<footer>planner {__version__}</footer>\n</body>\n</html>\n"
    )


def body(found: Iterable[Piece]) -> str:
    """The pieces, one after the other."""
    return "".join(map(_piece, found))


def fragment(found: Iterable[Piece]) -> str:
    """The pieces with their style, to stand in another page such as a notebook's cell."""
    return f'<style>{STYLE}{NOTEBOOK}</style>\n<div class="planner-report">{body(found)}</div>\n'


def _piece(piece: Piece) -> str:
    if isinstance(piece, Heading | Line | Command):
        return _text(piece)
    if isinstance(piece, Bullets):
        items = "".join(f"<li>{_lines(sentence)}</li>" for sentence in piece.sentences)
        return f"<ul>{items}</ul>\n"
    if isinstance(piece, Pairs):
        return _pairs(piece)
    if isinstance(piece, Picture):
        return f'<figure tabindex="0">{piece.svg}</figure>\n'
    return _grid(piece)


def _text(piece: Heading | Line | Command) -> str:
    if isinstance(piece, Heading):
        return f"<h2>{escape(piece.text)}</h2>\n"
    if isinstance(piece, Command):
        return f'<pre tabindex="0">{escape(piece.text)}</pre>\n'
    return f'<p class="{piece.tone}">{_lines(piece.text)}</p>\n'


def _lines(text: str) -> str:
    return "<br>".join(map(escape, text.split("\n")))


def _pairs(piece: Pairs) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{_lines(value)}</dd>" for name, value in piece.rows)
    return f"<dl>{rows}</dl>\n"


def _grid(piece: Grid) -> str:
    sides = [' class="number"' if right else "" for right in piece.right]
    head = "".join(
        f'<th scope="col"{side}>{escape(header)}</th>'
        for side, header in zip(sides, piece.headers, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(f"<td{side}>{_lines(cell)}</td>" for side, cell in zip(sides, row, strict=True))
        + "</tr>\n"
        for row in piece.rows
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
