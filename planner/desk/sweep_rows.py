"""The rows of a sweep over a table of cases, and what rows of any sweep are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from planner.desk.cases import faults_line
from planner.desk.sweep_tasks import Executor, Task
from planner.plan.swept import Line, Swept
from planner.spec.cases import Case, CaseTable, DecodeStep, RawCase
from planner.spec.types import DeploymentSpec

BLOCK = 32_768
"""Rows of a table that are read before they are answered."""


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
    known: dict[tuple[str, ...], DeploymentSpec] = {}
    while block := list(islice(rows, BLOCK)):
        yield from _Block(block, known).rows(executor)


@dataclass(eq=False)
class _Block:
    """Neighbouring rows: decode steps of one deployment are answered together."""

    raw: Sequence[RawCase]
    known: dict[tuple[str, ...], DeploymentSpec]
    """Deployments of earlier rows, by their cells."""
    _together: dict[tuple[str, ...], list[tuple[int, DecodeStep]]] = field(default_factory=dict)
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
        step = row.decode_step()
        if step is None:
            self._alone[place] = _task(row.case())
            return
        if step.shared not in self.known:
            case = row.case()
            if case.deployment is None or not sweeps(case.deployment):
                self._alone[place] = _task(case)
                return
            self.known[step.shared] = case.deployment
        row.claim()
        self._together.setdefault(step.shared, []).append((place, step))

    def _answered_together(self, executor: Executor) -> Iterator[tuple[int, Line]]:
        import numpy as np

        tasks = [
            Task(
                self.known[shared],
                np.array([step.batch for _, step in steps]),
                np.array([step.context for _, step in steps]),
            )
            for shared, steps in self._together.items()
        ]
        found = executor.answers(tasks)
        for steps, answer in zip(self._together.values(), found, strict=True):
            if isinstance(answer, Swept):
                yield from ((place, answer.line(n)) for n, (place, _) in enumerate(steps))


def sweeps(deployment: DeploymentSpec) -> bool:
    """Whether batches and contexts of a deployment are answered together."""
    step = deployment.step
    return step is not None and step.decode is not None and deployment.speculation is None


def _task(case: Case) -> Task:
    if case.deployment is None:
        return Task(None, error=faults_line(case.faults))
    return Task(case.deployment, measured=case.measured)
