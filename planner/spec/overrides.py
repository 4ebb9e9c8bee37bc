"""``--set step.decode.batch=64``: values given on the command line, with places of their own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from planner.errors import Fault, SpecError
from planner.spec.nodes import parse
from planner.spec.origin import Document, Mark, Path
from planner.spec.source import Construction

OVER = "--over "
"""Before a text that ``--over`` makes, so that its faults name what was typed."""
_QUESTIONS = ("step", "workload")
_CHOICES = {
    "step": ("decode", "prefill", "mixed", "shapes"),
    "workload": ("batch", "concurrency", "rate", "trace"),
}


def apply(
    data: dict[str, Any], document: Document, sets: Sequence[str], said: str = "--set"
) -> tuple[dict[str, Any], Document]:
    """``data`` and its document after each ``PATH=VALUE`` of ``sets``, in turn.

    A path is dotted; numbers are list positions; mappings on the way are made. A value is a scalar
    or a flow value (``[1, 2]``, ``{batch: 64}``) by the rules of a file; nothing means null.

    Setting one member of a choice replaces the other: with ``step.prefill.tokens=512`` a
    `step.decode` of the file goes, with ``workload.batch=8`` its `step` and `workload.rate`. Null
    replaces nothing.

    ``said`` is the option that the settings come by, as messages name it.
    Raises SpecError for text that is no ``PATH=VALUE``, a value that cannot be read, or a path
    through something that has no fields.
    """
    changed, marks, faults = copy.deepcopy(data), dict(document.marks), list[Fault]()
    for text in sets:
        try:
            _Setting(text, said).put(changed, marks)
        except SpecError as error:
            faults += error.faults
    if faults:
        raise SpecError(faults)
    return changed, Document(document.file, document.lines, marks, document.folder)


@dataclass(frozen=True)
class _Part:
    """One name of a dotted path, and the column it begins in."""

    name: str
    column: int


class _Setting:
    """One ``PATH=VALUE``. Its methods raise SpecError."""

    def __init__(self, text: str, said: str) -> None:
        self.text = text.removeprefix(OVER)
        option = OVER.strip() if text.startswith(OVER) else said
        self.document = Document(f"{option} {self.text}", (self.text,), folder="")

    def put(self, data: dict[str, Any], marks: dict[Path, Mark]) -> None:
        """Change ``data`` and ``marks`` in place."""
        parts = self._parts()
        path, holder = self._walk(parts, data, marks)
        _forget(path, marks)
        holder[path[-1]] = value = self._value(path, parts[-1], marks)
        if value is not None:
            _replace_others(path, data, marks)

    def _refusal(self, column: int, message: str, hint: str | None = None) -> SpecError:
        return SpecError([self.document.fault(1, column, message, hint)])

    def _parts(self) -> list[_Part]:
        names, equals, _ = self.text.partition("=")
        hint = "as in step.decode.batch=64"
        if not self.text.isprintable():
            raise self._refusal(1, "a setting is one line of plain text", hint)
        if not equals:
            raise self._refusal(len(self.text) + 1, "expected PATH=VALUE", hint)
        parts, column = [], 1
        for name in names.split("."):
            if not name.strip() or name != name.strip():
                raise self._refusal(column, "a path is names joined by dots", hint)
            parts.append(_Part(name, column))
            column += len(name) + 1
        return parts

    def _walk(
        self, parts: list[_Part], data: dict[str, Any], marks: dict[Path, Mark]
    ) -> tuple[Path, Any]:
        """The path as data has it, and the mapping or list that its last part stands in."""
        path: Path = ()
        holder: Any = data
        for part, following in pairwise(parts):
            key = self._key(part, holder, path)
            path = (*path, key)
            if isinstance(holder, dict) and holder.get(part.name) is None:
                holder[part.name] = {}
                marks[path] = Mark(1, part.column, 1, following.column, self.document)
            holder = holder[key]
        return (*path, self._key(parts[-1], holder, path)), holder

    def _key(self, part: _Part, holder: Any, path: Path) -> str | int:
        above = ".".join(map(str, path))
        if isinstance(holder, dict):
            return part.name
        if not isinstance(holder, list):
            message = f"{above} is no mapping, so nothing in it can be set"
            raise self._refusal(part.column, message)
        if part.name.isascii() and part.name.isdigit() and int(part.name[:9]) < len(holder):
            return int(part.name[:9])
        positions = f"positions 0 to {len(holder) - 1}" if holder else "no positions"
        message = f"{above} has {positions}, not {part.name[:40]!r}"
        raise self._refusal(part.column, message)

    def _value(self, path: Path, last: _Part, marks: dict[Path, Mark]) -> Any:
        start = self.text.index("=") + 1
        faults: list[Fault] = []
        # spaces in place of the path keep the columns of what follows
        node = parse(" " * start + self.text[start:], self.document, faults)
        column = node.column if node else start + 1
        marks[path] = Mark(1, last.column, 1, column, self.document)
        if node and node.kind in ("map", "list") and node.plain:
            raise self._refusal(node.column, "a value on one line", "write {key: value} or [a, b]")
        construction = Construction(self.document, faults, self.document)
        value = construction.value(node, path) if node else None
        if faults:
            raise SpecError(faults)
        marks.update(construction.marks)
        return value


def _forget(path: Path, marks: dict[Path, Mark]) -> None:
    for old in [place for place in marks if place[: len(path)] == path]:
        del marks[old]


def _replace_others(path: Path, data: dict[str, Any], marks: dict[Path, Mark]) -> None:
    """Drop what excludes the value just set."""
    if path[0] not in _QUESTIONS:
        return
    others: list[Path] = [(name,) for name in _QUESTIONS if name != path[0]]
    choices = _CHOICES[str(path[0])]
    if len(path) > 1 and path[1] in choices:
        others += [(path[0], name) for name in choices if name != path[1]]
    for other in others:
        holder = data if len(other) == 1 else data[path[0]]
        holder.pop(str(other[-1]), None)
        _forget(other, marks)
