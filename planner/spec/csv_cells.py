"""CSV text to cells with their places, row by row: a broken row costs no other.

RFC 4180 with what spreadsheets make of it: a byte-order mark, either line ending, blank lines,
spaces around quotes. Python's own reader knows no columns, and reads on where a quote is open.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

LARGEST_BYTES = 2**20
"""Size of the longest line, and of the longest text in quotes, that is read."""
_SPACES = re.compile("[ \t]*")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a row. Lines and columns count from one; bytes that are no UTF-8 are kept as
    surrogates, so that they can be written back.
    """

    text: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a row cannot be read to its end."""

    line: int
    column: int
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One row: its cells, up to its flaw where it has one."""

    line: int
    cells: tuple[Cell, ...]
    flaw: Flaw | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    text: str
    whole: bool = True


class _Stop(Exception):  # noqa: N818 - ends a row, is no error of its own
    def __init__(self, line: int, at: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.flaw = Flaw(line, at + 1, message, hint)


def records(stream: BinaryIO) -> Iterator[Record]:
    """The rows of a file that hold anything, the header too. Reads no more than it gives out."""
    reader = _Reader(stream)
    while (line := reader.line()) is not None:
        record = _Row(reader, line).record()
        if record.flaw or any(cell.text for cell in record.cells):
            yield record


class _Reader:
    """Lines of a stream, some of which may be put back."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._number = 0
        self._back: deque[_Line] = deque()

    def line(self) -> _Line | None:
        """The next line without its ending; None at the end."""
        if self._back:
            return self._back.popleft()
        raw = self._stream.readline(LARGEST_BYTES)
        if not raw:
            return None
        self._number += 1
        whole = rest = raw
        while not rest.endswith(b"\n") and (rest := self._stream.readline(LARGEST_BYTES)):
            whole = b""
        text = raw.decode("utf-8", "surrogateescape")
        if self._number == 1:
            text = text.removeprefix("\ufeff")
        return _Line(self._number, text.removesuffix("\n").removesuffix("\r"), bool(whole))

    def put_back(self, lines: list[_Line]) -> None:
        """Give these out again, the first one first."""
        self._back.extendleft(reversed(lines))


class _Row:
    """Takes one row from the reader, with the lines that its quotes reach over."""

    def __init__(self, reader: _Reader, line: _Line) -> None:
        self._reader = reader
        self._line = line
        self._at = 0

    def record(self) -> Record:
        """The row."""
        first, cells = self._line.number, list[Cell]()
        if not self._line.whole:
            return Record(first, (), Flaw(first, 1, "a line of over 1 MiB"))
        if '"' not in self._line.text and "\r" not in self._line.text:
            return Record(first, tuple(_plain(self._line)))
        try:
            while True:
                cells.append(self._cell())
                if self._at >= len(self._line.text):
                    return Record(first, tuple(cells))
                self._at += 1
        except _Stop as stop:
            return Record(first, tuple(cells), stop.flaw)

    def _cell(self) -> Cell:
        text, start = self._line.text, self._at
        begins = _end_of_spaces(text, start)
        if text.startswith('"', begins):
            return self._quoted(begins)
        end = text.find(",", start)
        self._at = len(text) if end < 0 else end
        plain = text[start : self._at]
        if "\r" in plain:
            message = "a carriage return inside a line"
            raise _Stop(self._line.number, text.index("\r"), message, "end lines in LF or CRLF")
        return Cell(plain.strip(), self._line.number, begins + 1 if plain.strip() else start + 1)

    def _quoted(self, opened: int) -> Cell:
        home, at, size = self._line, opened + 1, 0
        taken: list[_Line] = []
        parts: list[str] = []
        while True:
            text = self._line.text
            end = text.find('"', at)
            parts.append(text[at:] if end < 0 else text[at:end])
            if end < 0:
                size += len(text) + 1
                following = self._reader.line() if size < LARGEST_BYTES else None
                if following is None or not following.whole:
                    self._reader.put_back([*taken, following] if following else taken)
                    raise _Stop(home.number, opened, "the quote that opens here is not closed")
                taken.append(following)
                parts.append("\n")
                self._line, at = following, 0
            elif text.startswith('"', end + 1):
                parts.append('"')
                at = end + 2
            else:
                self._at = self._after(end + 1)
                return Cell("".join(parts).strip(), home.number, opened + 1)

    def _after(self, at: int) -> int:
        """Where the cell ends: only spaces may follow its closing quote."""
        text, at = self._line.text, _end_of_spaces(self._line.text, at)
        if at < len(text) and text[at] != ",":
            message, hint = "text after a closing quote", 'a quote inside quotes is written ""'
            raise _Stop(self._line.number, at, message, hint)
        return at


def _plain(line: _Line) -> Iterator[Cell]:
    """The cells of a line without quotes: most lines."""
    column = 1
    for piece in line.text.split(","):
        text = piece.strip()
        spaces = len(piece) - len(piece.lstrip(" \t")) if text else 0
        yield Cell(text, line.number, column + spaces)
        column += len(piece) + 1


def _end_of_spaces(text: str, start: int) -> int:
    found = _SPACES.match(text, start)
    return found.end() if found else start
