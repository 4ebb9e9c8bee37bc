"""The rows of a sweep over a table of cases, and what rows of any sweep are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from planner.desk.cases import faults_line
from planner.desk.sweep_tasks import Executor, Task
from planner.plan.swept import Line, Swept
from planner.spec.cases import Case, CaseTable, RawCase
from planner.spec.sizes import Sizes, sizes_of
from planner.spec.types import DeploymentSpec

BLOCK = 32_768
"""Rows of a table that are read before they are answered."""
Shared = tuple[Sizes | str, ...]


@dataclass(frozen=True, eq=False)
class Row:
    """One row with its answer."""

    id: str
    cells: Mapping[str, str]
    line: Line


def case_rows(table: CaseTable, executor: Executor, done: int = 0) -> Iterator[Row]:
    """The rows of a table after the first ``done``, answered, in order."""
    rows = table.rows
    for row in islice(rows, done):
        row.claim()
    known: dict[Shared, DeploymentSpec] = {}
    while block := list(islice(rows, BLOCK)):
        yield from _Block(block, known).rows(executor)


@dataclass(eq=False)
class _Block:
    """Neighbouring rows: those that differ in the sizes of their load are answered together."""

    raw: Sequence[RawCase]
    known: dict[Shared, DeploymentSpec]
    """Deployments of earlier rows, by their cells."""
    _together: dict[Shared, list[tuple[int, tuple[int, ...]]]] = field(default_factory=dict)
    _alone: dict[int, Task] = field(default_factory=dict)

    def rows(self, executor: Executor) -> Iterator[Row]:
        for place, row in enumerate(self.raw):
            self._take(place, row)
        lines = dict(self._answered_together(executor))
        for place in set(range(len(self.raw))) - lines.keys() - self._alone.keys():
            # with the same faults, at its own place
            self._alone[place] = _task(self.raw[place].again())
        for place, answer in zip(self._alone, executor.answers(self._alone.values()), strict=True):
            assert isinstance(answer, Line)
            lines[place] = answer
        for place, row in enumerate(self.raw):
            yield Row(row.id, row.cells, lines[place])

    def _take(self, place: int, row: RawCase) -> None:
        sized = row.sized()
        if sized is None:
            self._alone[place] = _task(row.case())
            return
        if sized.shared not in self.known:
            case = row.case()
            if case.deployment is None or sizes_of(case.deployment) is not sized.shared[0]:
                self._alone[place] = _task(case)
                return
            self.known[sized.shared] = case.deployment
        row.claim()
        self._together.setdefault(sized.shared, []).append((place, sized.sizes))

    def _answered_together(self, executor: Executor) -> Iterator[tuple[int, Line]]:
        import numpy as np

        tasks = [
            Task(self.known[shared], tuple(np.array([sizes for _, sizes in rows]).T))
            for shared, rows in self._together.items()
        ]
        found = executor.answers(tasks)
        for rows, answer in zip(self._together.values(), found, strict=True):
            if isinstance(answer, Swept):
                wrong = answer.rows.wrong
                yield from (
                    (place, answer.line(n)) for n, (place, _) in enumerate(rows) if n not in wrong
                )


def _task(case: Case) -> Task:
    if case.deployment is None:
        return Task(None, error=faults_line(case.faults))
    return Task(case.deployment, measured=case.measured)
