"""One row of a table of cases, read: a deployment, what was measured of it, or what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.errors import Fault, SpecError
from planner.spec.columns import Column
from planner.spec.csv_cells import Cell, Flaw, Record
from planner.spec.faults import shown
from planner.spec.load import deployment_of
from planner.spec.origin import Document, Mark
from planner.spec.origin import Path as Place
from planner.spec.scalars import resolve
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


def flaw_fault(flaw: Flaw, document: Document) -> Fault:
    """What is wrong with a row's text."""
    return document.fault(flaw.line, flaw.column, flaw.message, flaw.hint)


class Row:
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
            self.faults.append(flaw_fault(record.flaw, self.document))
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
