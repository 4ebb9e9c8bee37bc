"""A table of cases: each row a deployment, and what was measured of it.

The file is read as it is asked for, row by row. A row that is wrong carries its faults and costs
no other row; headings that are wrong cost the file, since no row could be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from planner.errors import PlannerError, SpecError, UsageError
from planner.spec.case_row import Case, Row, flaw_fault
from planner.spec.columns import Column, columns
from planner.spec.csv_cells import Flaw, Record, records
from planner.spec.origin import Document
from planner.spec.sizes import MOST, Sizes, named_sizes, whole_size
from planner.spec.source import absent

__all__ = ["Case", "CaseTable", "RawCase", "SizedCase", "open_cases", "read_cases"]


@dataclass(frozen=True, eq=False)
class SizedCase:
    """A row cut in what many rows may share and the sizes of its load, in which they differ."""

    shared: tuple[Sizes | str, ...]
    """Which sizes, and cells of every other field of the deployment, by column."""
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RawCase:
    """One row that is not read yet."""

    _record: Record
    _columns: Sequence[Column]
    _document: Document
    _lines: dict[str, int]
    """Where each id stood before."""

    def case(self) -> Case:
        """The row, read. Ask once: a second time its id is one that stood before."""
        return Row(self._record, self._columns, self._document).case(self._lines)

    def again(self) -> Case:
        """The row, read once more."""
        return Row(self._record, self._columns, self._document).case({})

    @cached_property
    def id(self) -> str:
        """As `Case.id`."""
        return self._named or f"line {self._record.line}"

    @cached_property
    def _named(self) -> str:
        """The cell of its id."""
        pairs = zip(self._columns, self._record.cells, strict=False)
        return next((cell.text for column, cell in pairs if column.meaning == "id"), "")

    @property
    def cells(self) -> dict[str, str]:
        """As `Case.cells`."""
        pairs = zip(self._columns, self._record.cells, strict=False)
        return {column.name: cell.text for column, cell in pairs}

    def claim(self) -> None:
        """Take the row's id, where it is not read whole."""
        if self._named:
            self._lines.setdefault(self.id, self._record.line)

    def sized(self) -> SizedCase | None:
        """The row by its sizes; None where it must be read whole: it has others, is wrong by
        itself, or has measured figures to judge.
        """
        record = self._record
        texts = [cell.text for cell in record.cells]
        whole = record.flaw is None and len(texts) == len(self._columns)
        if not whole or not all(map(str.isprintable, texts)) or self.id in self._lines:
            return None
        shared: list[str] = []
        given: dict[str, str] = {}
        for column, text in zip(self._columns, texts, strict=True):
            if column.meaning == "measured" and text:
                return None
            if column.name in MOST:
                given |= {column.name: text} if text else {}
            elif column.meaning == "deployment":
                shared.append(text)
        sizes = named_sizes(given)
        numbers = [whole_size(given[path], path) for path in sizes.paths] if sizes else [0]
        return SizedCase((sizes, *shared), tuple(numbers)) if sizes and all(numbers) else None


@dataclass(frozen=True, eq=False)
class CaseTable:
    """The columns of a file, and its rows, which can be taken once."""

    file: str
    columns: tuple[Column, ...]
    rows: Iterator[RawCase]

    @property
    def cases(self) -> Iterator[Case]:
        """The rows, each read whole."""
        return (row.case() for row in self.rows)


@contextmanager
def open_cases(path: Path) -> Iterator[CaseTable]:
    """The table in a CSV file, as long as it is open.

    Raises UsageError for a missing file or a folder, SpecError with every fault of the headings.
    """
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a folder, not a table of cases")
        stream = path.open("rb")
    except FileNotFoundError:
        raise absent(path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PlannerError(f"cannot read {str(path)!r}: {reason}") from None
    with stream:
        yield read_cases(stream, str(path))


def read_cases(stream: BinaryIO, file: str) -> CaseTable:
    """The table in a stream of bytes; ``file`` is its name in messages. Raises SpecError."""
    document = Document(file)
    rows = records(stream)
    header = next(rows, None)
    if header is None:
        raise SpecError([document.fault(1, 1, "there is nothing in this file", _BEGIN)])
    flaw = header.flaw or _no_table(header)
    if flaw:
        raise SpecError([flaw_fault(flaw, document)])
    found, faults = columns(header.cells, document)
    if faults:
        raise SpecError(faults)
    lines: dict[str, int] = {}
    raw = (RawCase(record, found, document, lines) for record in rows)
    return CaseTable(file, tuple(found), raw)


_BEGIN = "begin with the names of columns: id,model,gpu,step.decode.batch,…"


def _no_table(header: Record) -> Flaw | None:
    text = header.cells[0].text
    if text[:1] in ("\udcff", "\udcfe") or "\0" in text:
        return Flaw(1, 1, "this is no UTF-8 text", "save the table as CSV in UTF-8")
    if len(header.cells) == 1 and (";" in text or "\t" in text):
        return Flaw(header.line, 1, "the columns are not separated by commas", "save it as CSV")
    return None
