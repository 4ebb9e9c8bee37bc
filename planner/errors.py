"""One tree of errors for people. The CLI alone prints them and turns them into exit codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, order=True)
class Where:
    """A place in a text a user wrote. Lines and columns count from one; zero means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Fault:
    """One thing wrong with an input, where it stands, and what to do about it."""

    where: Where
    message: str
    hint: str | None = None
    """Ends the message in brackets, as in ``did you mean 'context'?``."""
    text: str | None = None
    """The line the fault stands in, shown below the message with a caret."""

    def __str__(self) -> str:
        head = f"{self.where}: {self.message}"
        if self.hint:
            head = f"{head} ({self.hint})"
        if self.text is None or not self.where.line:
            return head
        number = f"{self.where.line:>4}"
        caret = " " * (self.where.column - 1) + "^"
        return f"{head}\n{number} | {self.text}\n     | {caret}"


class PlannerError(Exception):
    """Any failure that is the input's or the surroundings' fault, not a bug."""

    exit_code = 2


class SpecError(PlannerError):
    """A spec is wrong. Carries every fault found, in the order they stand in the file."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: fault.where))
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Fault, ...]]]:
        """Raised in one process, it may be caught in another."""
        return type(self), (self.faults,)


class UsageError(PlannerError):
    """A question that cannot be answered as put: bad option, unknown name, impossible request."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message} ({hint})" if hint else message)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None]]:
        """Raised in one process, it may be caught in another."""
        return type(self), (self.message, self.hint)


class StoreError(PlannerError):
    """The database cannot be opened, is newer than this program, or refused a write."""
