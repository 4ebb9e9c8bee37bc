"""How well predictions order the runs of a table that do the same work."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import Any

from planner.calibrate.ranking import Option, choice
from planner.cli.common.case_groups import refusal
from planner.desk.cases import Answered
from planner.plan.cases import METRICS
from planner.plan.expected import cost
from planner.spec.cases import CaseTable

_WORK = ("model", "step", "workload", "experts")
"""What is asked of a deployment; all other columns are ways to do it."""


class Ranked:
    """Options of the same work, by figure."""

    def __init__(self, table: CaseTable) -> None:
        names = [column.name for column in table.columns if column.meaning == "deployment"]
        self._work = [name for name in names if name.partition(".")[0] in _WORK]
        self._ways = [name for name in names if name not in self._work]
        self._options: defaultdict[str, list[Option]] = defaultdict(list)

    def add(self, row: Answered) -> None:
        """Count a row's figures, where they say anything about predictions."""
        if row.answer is None or refusal(row):
            return
        work, way = (
            tuple(row.case.cells.get(name, "") for name in names)
            for names in (self._work, self._ways)
        )
        for held in row.answer.held:
            if held.predicted is None or not held.ratio:
                continue
            metric = METRICS[held.figure][0]
            measured, predicted = (
                cost(metric, value) for value in (held.measured, held.predicted.value)
            )
            self._options[held.figure].append(Option(work, way, measured, predicted))

    def documents(self) -> list[dict[str, Any]]:
        """Each figure that has two ways of the same work, with how well they are ordered."""
        found = [{"figure": name, **asdict(choice(each))} for name, each in self._options.items()]
        return [each for each in found if each["groups"]]
