"""What is kept of a sweep's rows to be shown: the best of them, counts, and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from planner.desk.sweep_file import Done
from planner.desk.sweep_grid import Piece
from planner.desk.sweep_rows import Row
from planner.plan.swept import RANKINGS, Line
from planner.spec.columns import RESULTS

_KEPT_ERRORS = 1000
_SLACK = 4


class Summary:
    """The best rows by one figure, the first of equals first."""

    def __init__(self, sort: str, top: int) -> None:
        self.sort, self.top = sort, top
        self.rows = self.errors = self.fitting = self.resumed = 0
        self.reasons: Counter[str] = Counter()
        self._before: list[dict[str, Any]] = []
        self._best: list[tuple[tuple[bool, bool, float], Row]] = []

    def resume(self, done: Done) -> None:
        """Count the rows that an interrupted sweep wrote; they are not shown."""
        self.rows, self.errors, self.fitting = done.rows, done.errors, done.fitting
        self.resumed = done.rows

    def go_on(self, before: Mapping[str, Any]) -> None:
        """Go on from the document of an interrupted sweep; its best rows stay in the running."""
        self.rows, self.errors = before["count"], before["errors"]
        self.fitting, self.resumed = before["fitting"], before["count"]
        self.reasons.update({each["error"]: each["rows"] for each in before["reasons"]})
        self._before = list(before["rows"])

    def take(self, piece: Piece) -> None:
        """All rows of a piece."""
        answer = piece.answer
        if isinstance(answer, Line):
            for place in range(piece.count):
                self.add(piece.row(place))
            return
        self.rows += piece.count
        self.fitting += answer.fitting
        for error in answer.rows.wrong.values():
            self._wrong(error)
        for place in answer.best(self.sort, self.top or piece.count):
            self.offer(piece.row(place))

    def exit_code(self, *, strict: bool) -> int:
        """2 where any row is wrong, or all where not ``strict``; 1 where none fits."""
        if self.errors and (strict or self.errors == self.rows):
            return 2
        return 0 if self.fitting else 1

    def add(self, row: Row) -> None:
        """One more row."""
        self.rows += 1
        self.offer(row)
        self.fitting += bool(row.line.fits)
        if row.line.error:
            self._wrong(row.line.error)

    def _wrong(self, error: str) -> None:
        self.errors += 1
        if error in self.reasons or len(self.reasons) < _KEPT_ERRORS:
            self.reasons[error] += 1

    def offer(self, row: Row) -> None:
        """Keep a row, if it is among the best."""
        if row.line.error:
            return
        self._best.append((row.line.rank(self.sort), row))
        if self.top and len(self._best) > _SLACK * self.top:
            self._cut()

    def _cut(self) -> None:
        self._best.sort(key=lambda each: each[0])
        if self.top:
            del self._best[self.top :]

    def best(self) -> list[Row]:
        """The best rows, the best first."""
        self._cut()
        return [row for _, row in self._best]

    def document(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "sort": self.sort,
            "count": self.rows,
            "errors": self.errors,
            "fitting": self.fitting,
            "resumed": self.resumed,
            "rows": self._rows(),
            "reasons": [{"error": error, "rows": n} for error, n in self.reasons.most_common()],
        }

    def _rows(self) -> list[dict[str, Any]]:
        """The best rows, those of before first among equals."""
        rows = [*self._before, *(row_document(row) for row in self.best())]
        rows.sort(key=lambda row: rank_in(row, self.sort))
        return rows[: self.top or None]


def rank_in(row: Mapping[str, Any], sort: str) -> tuple[bool, bool, float]:
    """As `Line.rank`, of a row as ``--json`` prints it."""
    found = row["predicted"].get(sort)
    value = row.get(sort) if found is None else found["value"]
    if value is None:
        return True, True, 0.0
    return False, not row["fits"], -value if RANKINGS[sort] else value


def row_document(row: Row) -> dict[str, Any]:
    """One row as ``--json`` prints it. Figures are in the unit of their column."""
    line = row.line
    return {
        "id": row.id,
        "cells": {name: text for name, text in row.cells.items() if name not in RESULTS},
        "predicted": {name: asdict(each) for name, each in line.predicted.items()},
        "fits": line.fits,
        "bound": line.bound,
        "mode": line.mode,
        "gpus": line.gpus,
        "tok_s": line.tok_s,
        "tok_s_per_gpu": line.tok_s_per_gpu,
        "usd_per_mtok": line.usd_per_mtok,
        "verdict": line.verdict,
        "ratio": line.ratio,
    }
