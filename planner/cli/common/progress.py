"""Rows that take their time: how many there were so far, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from time import monotonic

from planner.desk.cases import Answered

_QUIET_S = 1.0


class Progress:
    """Told of rows, it says on stderr how many there were so far, from the first second on."""

    def __init__(self) -> None:
        self._count = 0
        self._begun = self._last = monotonic()

    def add(self, rows: int = 1) -> None:
        """So many more."""
        self._count += rows
        now = monotonic()
        if now - self._last > _QUIET_S:
            self._last, rate = now, self._count / (now - self._begun)
            what = "row" if self._count == 1 else "rows"
            sys.stderr.write(f"{self._count:,} {what} planned, {rate:,.0f} a second\n")
            sys.stderr.flush()


def told(rows: Iterable[Answered]) -> Iterator[Answered]:
    """The rows, their progress told."""
    progress = Progress()
    for row in rows:
        yield row
        progress.add()
