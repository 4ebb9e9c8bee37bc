"""Errors of judged cases, grouped by columns, as they come in: no plan is kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from planner.desk.cases import Answered, result_cells
from planner.errors import UsageError
from planner.plan.cases import Held, tally
from planner.plan.circumstances import planned
from planner.spec.cases import CaseTable
from planner.spec.columns import RESULTS, known_columns
from planner.spec.faults import did_you_mean

FIGURE = "figure"
_OPEN = ("backend.flags.", "step.shapes.")


def by_columns(text: str, table: CaseTable) -> tuple[str, ...]:
    """The columns named in ``--by``, joined by commas. Raises UsageError for an unknown one."""
    known = (FIGURE, *(column.name for column in table.columns), *known_columns())
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for name in names:
        if name not in known and not name.startswith(_OPEN):
            hint = did_you_mean(name, known) or "a column of the table, figure, verdict or bound"
            raise UsageError(f"cannot group by {name!r}", hint)
    return names


class Groups:
    """Figures and refusals by the values of some columns."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._held: defaultdict[tuple[str, ...], list[Held]] = defaultdict(list)
        self._rows: Counter[tuple[str, ...]] = Counter()
        self._refused: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)

    def add(self, row: Answered) -> None:
        """Count a case's figures, and the case once in each group that has any of them."""
        groups = set()
        for each, why in _figures(row):
            values = self._values(row, each)
            groups.add(values)
            if why:
                self._refused[values][why] += 1
            elif each:
                self._held[values].append(each)
        self._rows.update(groups)

    def documents(self) -> list[dict[str, Any]]:
        """Each group with its errors and refusals, sorted by its values."""
        return [
            {
                "group": dict(zip(self.names, values, strict=True)),
                "rows": self._rows[values],
                **asdict(tally(self._held[values])),
                "refused": dict(self._refused[values]),
            }
            for values in sorted(self._rows)
        ]

    def _values(self, row: Answered, held: Held | None) -> tuple[str, ...]:
        """What the row says, and what it leaves unsaid by its plan."""
        known: dict[str, Any] = planned(row.answer.plan) if row.answer else {}
        cells = {**row.case.cells, **result_cells(row), FIGURE: held.figure if held else ""}
        return tuple(cells.get(name) or str(known.get(name, "")) for name in self.names)


def _figures(row: Answered) -> Iterator[tuple[Held | None, str | None]]:
    """Each figure of a row, and the word for why it does not count; one nothing where none is."""
    if row.answer is None or not row.answer.held:
        yield None, refusal(row)
        return
    for each in row.answer.held:
        yield each, refusal(row) or (None if each.ratio else "not predicted")


def refusal(row: Answered) -> str | None:
    """The word for why a whole row says nothing about the predictions; None where it does."""
    found = row.answer
    if found is None:
        return "error"
    if found.impossible:
        return "impossible"
    if not found.held:
        return "nothing measured"
    return None if any(each.ratio for each in found.held) else "not predicted"


def case_document(row: Answered) -> dict[str, Any]:
    """One case as ``--json`` prints it."""
    found, cells = row.answer, row.case.cells
    circumstances: Mapping[str, Any] = planned(found.plan) if found else cells
    return {
        "id": row.case.id,
        "line": row.case.line,
        "cells": {name: text for name, text in cells.items() if name not in RESULTS},
        "engine": circumstances.get("backend.name", ""),
        "gpu": circumstances.get("gpu", ""),
        "plan_id": found.plan.plan_id if found else None,
        "fits": found.fits if found else None,
        "bound": found.bound if found else None,
        "predicted": {name: asdict(p) for name, p in found.predicted.items()} if found else {},
        "figures": [_figure(each) for each in found.held] if found else [],
        "verdict": found.verdict if found else None,
        "ratio": found.ratio if found else None,
        "reason": found.reason if found else None,
        "refused": refusal(row),
        "error": row.error,
    }


def _figure(each: Held) -> dict[str, Any]:
    predicted = each.predicted
    return {
        "figure": each.figure,
        "measured": each.measured,
        "predicted": predicted.value if predicted else None,
        "low": predicted.low if predicted else None,
        "high": predicted.high if predicted else None,
        "ratio": each.ratio,
        "verdict": each.verdict,
        "reason": each.reason,
    }
