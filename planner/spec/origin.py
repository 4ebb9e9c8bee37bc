"""Where a value stands in the text a user wrote."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from dataclasses import field

from planner.errors import Fault, Where
from planner.records import dataclass

Path = tuple[str | int, ...]
"""Keys and list positions from a document's root: ``("nodes", "q_proj", "in", 0)``."""

_LONGEST_EXCERPT = 200


@dataclass(frozen=True)
class Mark:
    """Where a key and its value begin. Lines and columns count from one."""

    key_line: int
    key_column: int
    value_line: int
    value_column: int
    document: Document | None = None
    """The text it stands in where that is another than the file: a ``--set``."""


@dataclass(frozen=True, eq=False)
class Document:
    """One text with a mark for every path in it."""

    file: str
    lines: tuple[str, ...] = ()
    marks: Mapping[Path, Mark] = field(default_factory=dict)
    folder: str | None = None
    """Where relative paths in this text begin; by default the file's own folder."""

    def fault(self, line: int, column: int, message: str, hint: str | None = None) -> Fault:
        """A fault at a place of this text, with its line as an excerpt."""
        if line > len(self.lines) > 0:  # the parser counts the end of a text as one line more
            line, column = len(self.lines), len(self.lines[-1]) + 1
        text = _excerpt(self.lines[line - 1]) if 0 < line <= len(self.lines) else None
        return Fault(Where(self.file, line, column), message, hint, text)


@dataclass(frozen=True, eq=False)
class Origin:
    """A path inside a document; what a spec value remembers of its birth."""

    document: Document
    path: Path = ()

    @classmethod
    def unknown(cls) -> Origin:
        """The origin of a value made in Python."""
        return cls(Document("<python>"))

    def at(self, *path: str | int) -> Origin:
        """The origin of something inside this value."""
        return Origin(self.document, self.path + path)

    def fault(self, message: str, hint: str | None = None, *, key: bool = False) -> Fault:
        """A fault at this place: at the value, or at its key.

        A path that the text doesn't have (a default, a missing field) is shown at the nearest
        place above it.
        """
        document, mark = self._place()
        if mark is None:
            return Fault(Where(document.file), message, hint)
        if key:
            return document.fault(mark.key_line, mark.key_column, message, hint)
        return document.fault(mark.value_line, mark.value_column, message, hint)

    def word(self) -> str:
        """The unquoted scalar as the text has it: ``0.10``, of which data only keeps 0.1."""
        document, mark = self._place()
        if mark is None or not 0 < mark.value_line <= len(document.lines):
            return ""
        rest = document.lines[mark.value_line - 1][mark.value_column - 1 :]
        found = re.match(r"[^\s,\]}#]+", rest)
        return found[0] if found else ""

    def folder(self) -> pathlib.Path:
        """Where a relative path written here begins: its file's folder, for a ``--set`` the cwd."""
        document, _ = self._place()
        if document.folder is not None:
            return pathlib.Path(document.folder)
        return pathlib.Path(document.file).parent

    def _place(self) -> tuple[Document, Mark | None]:
        path = self.path
        while path and path not in self.document.marks:
            path = path[:-1]
        mark = self.document.marks.get(path)
        home = mark.document if mark else None
        return home or self.document, mark


def _excerpt(line: str) -> str | None:
    """The line as it may go to a terminal, one column a character; None for one of vast length."""
    if len(line) > _LONGEST_EXCERPT:
        return None
    return "".join(
        c if c.isprintable() else " " if c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line
    )
