"""The one error of importers: a file that cannot become a run, and why."""

from __future__ import annotations

from typing import Self

from planner.errors import Fault, PlannerError, Where


class ImportRefused(PlannerError):  # noqa: N818 - a file is refused, not in error
    """A measurement file was not taken. Nothing of it is kept."""

    def __init__(self, where: Where, reason: str, hint: str | None = None) -> None:
        self.where = where
        self.reason = reason
        self.hint = hint
        super().__init__(str(Fault(where, reason, hint)))

    def __reduce__(self) -> tuple[type[Self], tuple[Where, str, str | None]]:
        """Raised in one process, it may be caught in another."""
        return type(self), (self.where, self.reason, self.hint)
