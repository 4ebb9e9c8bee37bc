"""Where a sweep writes its rows: a part beside the file, with which an interrupted one goes on."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, BinaryIO

from planner.desk.cases import number_cell, predicted_cells, taken
from planner.desk.sweep_rows import Row
from planner.errors import UsageError
from planner.plan.swept import Line
from planner.spec.columns import ID, RESULTS


def line_cells(line: Line) -> dict[str, str]:
    """What is written of an answer, by column."""
    fits = "" if line.fits is None else "true" if line.fits else "false"
    return {
        **dict.fromkeys(RESULTS, ""),
        **predicted_cells(line.predicted),
        "fits": fits,
        "bound": line.bound,
        "verdict": line.verdict or "",
        "ratio": number_cell(line.ratio),
        "error": line.error or "",
    }


@dataclass(frozen=True)
class Done:
    """What an interrupted sweep left, but for its last row, which is planned once more."""

    rows: int = 0
    errors: int = 0
    fitting: int = 0


class Part:
    """The rows of a sweep on their way into a file."""

    def __init__(self, stream: Any, names: Sequence[str], done: Done, last: Sequence[str]) -> None:
        self.done = done
        self._names = names
        self._last = last
        self._stream = stream
        self._writer = csv.writer(stream, lineterminator="\n")

    def keep(self) -> None:
        """Let what was written outlive this process, whatever ends it."""
        self._stream.flush()

    def write(self, row: Row) -> None:
        """Write a row with its results.

        Raises UsageError where the first is not what the interrupted sweep ended with.
        """
        cells = {**row.cells, ID: row.id, **line_cells(row.line)}
        values = [cells.get(name, "") for name in self._names]
        if not self._last:
            self._writer.writerow(values)
        elif values != list(self._last):
            message = f"the rows written so far are of another sweep: {self._last[0]} differs"
            raise UsageError(message, "remove the .part file to begin anew")
        self._last = ()


@contextmanager
def part_of(path: Path, own: Sequence[str]) -> Iterator[Part]:
    """A part with the columns ``own`` and those of results; it becomes the file when all is well.

    Where it is left early it stays, and the next sweep goes on behind its last whole row. Raises
    UsageError where it cannot be written, or is of a sweep with other columns.
    """
    kept = [name for name in own if name not in RESULTS]
    names = [*(kept if ID in kept else [ID, *kept]), *RESULTS]
    path = taken(path)
    part = path.with_name(f"{path.name}.part")
    try:
        with _own(part):
            done, last = _resumed(part, names)
            with part.open("a", encoding="utf-8", errors="surrogateescape", newline="") as stream:
                if done is None:
                    csv.writer(stream, lineterminator="\n").writerow(names)
                yield Part(stream, names, done or Done(), last)
            part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name a file with -o") from error


@contextmanager
def _own(part: Path) -> Iterator[None]:
    """A part that no other sweep writes meanwhile. Raises UsageError where one does."""
    import fcntl

    with part.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait for it, or name another file with -o"
            raise UsageError(f"another sweep is writing {part}", hint) from None
        yield


def _resumed(part: Path, names: Sequence[str]) -> tuple[Done | None, list[str]]:
    """What a part holds, and its last row; half a row at its end is cut off. None of an empty one.

    Raises UsageError where its columns are others.
    """
    with part.open("r+b") as stream:
        texts = _records(stream)
        header = next(texts, b"")
        if header and _cells(header) != list(names):
            message = f"{part} is of another sweep: its columns differ"
            raise UsageError(message, "remove it, or name another file with -o")
        done, last, end = Done(), list[str](), len(header)
        for text in texts:
            if last:
                cells = dict(zip(names, last, strict=True))
                fits, wrong = cells["fits"] == "true", bool(cells["error"])
                done = Done(done.rows + 1, done.errors + wrong, done.fitting + fits)
            last, end = _cells(text), end + len(text)
        stream.truncate(end)
    return (done if header else None), last


def _cells(text: bytes) -> list[str]:
    return next(csv.reader(StringIO(text.decode("utf-8", "surrogateescape"), newline="")))


def _records(stream: BinaryIO) -> Iterator[bytes]:
    """Whole records: a line ends one where quotes are closed."""
    text = b""
    for line in stream:
        text += line
        if text.endswith(b"\n") and text.count(b'"') % 2 == 0:
            yield text
            text = b""
