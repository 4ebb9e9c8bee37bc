"""Words of command lines, each with the place it was written at."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.errors import Fault, PlannerError, Where


@dataclass(frozen=True)
class Word:
    """One argument of a command."""

    text: str
    where: Where
    missing: str | None = None
    """A variable in it that the text does not set; it stands in ``text`` as ``$NAME``."""


@dataclass(frozen=True)
class Command:
    """One command, with the environment that the text around it sets."""

    words: tuple[Word, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    image: str | None = None
    """The container image it runs in, where the text says so."""
    files: Mapping[str, Places] = field(default_factory=dict)
    """Files that the text around it writes, by the paths it writes them to."""


class Refused(PlannerError):  # noqa: N818 - a text is refused, not in error
    """A command line that cannot be read, with every reason."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in faults))


@dataclass(frozen=True)
class Places:
    """Where each character of a text stands in its file."""

    text: str
    file: str
    line: int = 1
    column: int = 1
    """Of the first character; of the first line alone unless ``indent`` is given."""
    indent: int = 0
    """Columns cut off ahead of every further line, as YAML does in a block."""
    starts: tuple[int, ...] = ()

    @classmethod
    def of(cls, text: str, file: str, line: int = 1, column: int = 1, indent: int = 0) -> Places:
        """The places of a text whose first character stands at ``line`` and ``column``."""
        breaks = [index + 1 for index, character in enumerate(text) if character == "\n"]
        return cls(text, file, line, column, indent, (0, *breaks))

    def place(self, line: int, column: int) -> Where:
        """The place in the file of a line and column of the text, both from one."""
        start = self.column if line == 1 else 1 + self.indent
        return Where(self.file, self.line + line - 1, start + column - 1)

    def at(self, index: int) -> Where:
        """The place of the character at ``index``."""
        row = bisect.bisect_right(self.starts, index) - 1
        offset = index - self.starts[row]
        start = self.column if row == 0 else 1 + self.indent
        return Where(self.file, self.line + row, start + offset)
