"""A table of cases: each row a deployment, and what was measured of it.

The file is read as it is asked for, row by row. A row that is wrong carries its faults and costs
no other row; headings that are wrong cost the file, since no row could be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from planner.errors import Fault, PlannerError, SpecError, UsageError
from planner.spec.columns import Column, columns
from planner.spec.csv_cells import Cell, Flaw, Record, records
from planner.spec.faults import shown
from planner.spec.load import deployment_of
from planner.spec.origin import Document, Mark
from planner.spec.origin import Path as Place
from planner.spec.scalars import resolve
from planner.spec.source import absent
from planner.spec.types import DeploymentSpec
from planner.units import SECONDS

_LONGEST_NAME = 200


@dataclass(frozen=True, eq=False)
class Case:
    """One row."""

    id: str
    line: int
    cells: Mapping[str, str]
    """By column, as the file has them; as far as a broken row could be read."""
    deployment: DeploymentSpec | None
    """None where the row is wrong."""
    measured: Mapping[str, float]
    """By figure (``step_ms``), in the unit of its name."""
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, eq=False)
class CaseTable:
    """The columns of a file, and its rows, which can be taken once."""

    file: str
    columns: tuple[Column, ...]
    cases: Iterator[Case]


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
        raise SpecError([_fault(flaw, document)])
    found, faults = columns(header.cells, document)
    if faults:
        raise SpecError(faults)
    return CaseTable(file, tuple(found), _cases(rows, found, document))


_BEGIN = "begin with the names of columns: id,model,gpu,step.decode.batch,…"


def _no_table(header: Record) -> Flaw | None:
    text = header.cells[0].text
    if text[:1] in ("\udcff", "\udcfe") or "\0" in text:
        return Flaw(1, 1, "this is no UTF-8 text", "save the table as CSV in UTF-8")
    if len(header.cells) == 1 and (";" in text or "\t" in text):
        return Flaw(header.line, 1, "the columns are not separated by commas", "save it as CSV")
    return None


def _fault(flaw: Flaw, document: Document) -> Fault:
    return document.fault(flaw.line, flaw.column, flaw.message, flaw.hint)


def _cases(rows: Iterator[Record], found: Sequence[Column], document: Document) -> Iterator[Case]:
    lines: dict[str, int] = {}
    for record in rows:
        row = _Row(record, found, document)
        yield row.case(lines)


class _Row:
    """Collects the deployment, the figures and the faults of one row."""

    def __init__(self, record: Record, found: Sequence[Column], document: Document) -> None:
        self.record = record
        self.document = document
        self.pairs = list(zip(found, record.cells, strict=False))
        self.width = len(found)
        self.faults: list[Fault] = []
        self.data: dict[str, Any] = {}
        self.marks: dict[Place, Mark] = {(): Mark(record.line, 1, record.line, 1)}
        self.measured: dict[str, float] = {}

    def case(self, lines: dict[str, int]) -> Case:
        """The row; ``lines`` knows where each id stood before, and learns this one."""
        deployment = None
        name = self._id(lines)
        if self._is_whole():
            taken = [self._take(column, cell) for column, cell in self.pairs]
            deployment = self._deployment(name) if all(taken) else None
        cells = {column.name: cell.text for column, cell in self.pairs}
        faults = tuple(sorted(self.faults, key=lambda fault: fault.where))
        found = None if faults else deployment
        return Case(name, self.record.line, cells, found, self.measured, faults)

    def _is_whole(self) -> bool:
        """Whether each column has its cell, and each cell is text."""
        before = len(self.faults)
        record, count = self.record, len(self.record.cells)
        if record.flaw:
            self.faults.append(_fault(record.flaw, self.document))
        elif count != self.width:
            hint = "put text that holds a comma in quotes" if count > self.width else None
            message = f"{count} cells under {self.width} columns"
            self._refuse(record.cells[min(count, self.width + 1) - 1], message, hint)
        for cell in record.cells:
            if not cell.text.isprintable() and any(map(_is_foreign, cell.text)):
                self._refuse(cell, "a byte that is no UTF-8 text", "save the file as UTF-8")
        return len(self.faults) == before

    def _id(self, lines: dict[str, int]) -> str:
        cell = next((cell for column, cell in self.pairs if column.meaning == "id"), None)
        if cell is None or not cell.text:
            return f"line {self.record.line}"
        if cell.text in lines:
            hint = f"the first is in line {lines[cell.text]}"
            self._refuse(cell, f"a second id {shown(cell.text)}", hint)
        lines.setdefault(cell.text, self.record.line)
        return cell.text

    def _take(self, column: Column, cell: Cell) -> bool:
        """Read one cell; whether the deployment can be read on without it."""
        if not cell.text or column.meaning not in ("measured", "deployment"):
            return True
        try:
            if column.meaning == "measured":
                figure = str(column.path[0])
                self.measured[figure] = _measured(figure, cell.text)
            else:
                self._put(column, cell, _value(column, cell.text))
        except ValueError as error:
            self._refuse(cell, f"{column.name}: {error}")
            return column.meaning == "measured"
        return True

    def _put(self, column: Column, cell: Cell, value: Any) -> None:
        holder: Any = self.data
        here = Mark(cell.line, cell.column, cell.line, cell.column)
        for depth, part in enumerate(column.path[:-1], start=1):
            self.marks.setdefault(column.path[:depth], here)
            holder = holder.setdefault(part, {})
        holder[column.path[-1]] = value
        self.marks[column.path] = Mark(column.line, column.column, cell.line, cell.column)

    def _deployment(self, name: str) -> DeploymentSpec | None:
        document = Document(self.document.file, (), self.marks)
        data = {"name": name[:_LONGEST_NAME], **_listed(self.data)}
        try:
            return deployment_of(data, document)
        except SpecError as error:
            self.faults += error.faults
            return None

    def _refuse(self, cell: Cell, message: str, hint: str | None = None) -> None:
        self.faults.append(self.document.fault(cell.line, cell.column, message, hint))


def _is_foreign(character: str) -> bool:
    """Half of a byte that is no UTF-8, or a NUL."""
    return "\ud800" <= character <= "\udfff" or character == "\0"


def _value(column: Column, text: str) -> Any:
    """A cell as its field reads it. Raises ValueError with a sentence."""
    if column.is_text:
        return text
    value = resolve(text)
    if column.is_count and isinstance(value, float) and value.is_integer():
        return int(value)  # a table with empty cells writes its counts as 8.0
    return value


def _measured(figure: str, text: str) -> float:
    """A figure in the unit of its name, bare or with a unit of time. Raises ValueError."""
    value: Any = resolve(text)
    if isinstance(value, str) and not figure.endswith("_tok_s"):
        value = SECONDS.parse(text) * (1e3 if figure.endswith("_ms") else 1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, got {shown(text)}")  # noqa: TRY004 - as of resolve
    if value <= 0:
        raise ValueError(f"must be greater than 0, got {shown(value)}")
    return float(value)


def _listed(data: Any) -> Any:
    """Mappings from positions as lists; a position left out leaves a mapping, which is refused."""
    if not isinstance(data, dict):
        return data
    inner = {key: _listed(value) for key, value in data.items()}
    if inner and sorted(map(str, inner)) == sorted(map(str, range(len(inner)))):
        return [inner[key] for key in sorted(inner)]
    return inner
