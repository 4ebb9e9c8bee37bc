"""A report as Markdown for pull requests and chats: tables and lists, no pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable

from planner.report.pieces import Bullets, Command, Grid, Heading, Line, Pairs, Piece

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#@])")
"""What Markdown or GitHub might obey in the names of users."""


def markdown(title: str, found: Iterable[Piece]) -> str:
    """The report as text that ends in a newline."""
    parts = [f"## {escaped(title)}", *filter(None, map(piece_markdown, found))]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown takes as it stands."""
    return _SPECIAL.sub(r"\\\1", text).replace("\n", " ")


def piece_markdown(piece: Piece) -> str:
    """One piece, without a newline at its end; nothing of a picture."""
    if isinstance(piece, Heading | Line | Command):
        return _text(piece)
    if isinstance(piece, Bullets):
        return "\n".join(f"- {escaped(sentence)}" for sentence in piece.sentences)
    if isinstance(piece, Pairs):
        return _rows(("", ""), (False, False), piece.rows)
    if isinstance(piece, Grid):
        return _rows(piece.headers, piece.right, piece.rows)
    return ""


def _text(piece: Heading | Line | Command) -> str:
    if isinstance(piece, Heading):
        return f"### {escaped(piece.text)}"
    if isinstance(piece, Command):
        return _command(piece.text)
    text = escaped(piece.text.strip())
    if piece.tone in {"strong", "bad"}:
        return f"**{text}**"
    return f"<sub>{text}</sub>" if piece.tone == "small" else text


def _command(text: str) -> str:
    """Between fences longer than any of its own."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{text}\n{fence}"


def _rows(headers: Iterable[str], right: Iterable[bool], rows: Iterable[Iterable[str]]) -> str:
    """A table of GitHub's Markdown; lines of a cell are kept as breaks."""
    lines = [_row(map(escaped, headers)), _row("--:" if numbers else ":--" for numbers in right)]
    lines += [_row("<br>".join(map(escaped, cell.split("\n"))) for cell in row) for row in rows]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
