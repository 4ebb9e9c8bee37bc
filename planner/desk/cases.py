"""Tables of cases: each row planned and judged, and written back."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from planner.errors import Fault, PlannerError, SpecError, UsageError
from planner.plan.cases import Answer, Predicted, answer
from planner.plan.types import Plan
from planner.serving.plan import plan_question
from planner.spec.cases import Case, CaseTable
from planner.spec.catalog import Catalog
from planner.spec.columns import ID, PREDICTED, RESULTS
from planner.spec.question import CostModel, ask

_DIGITS = 6
_KEPT = 256


@dataclass(frozen=True, eq=False)
class Answered:
    """A case with its answer, or with what is wrong with it."""

    case: Case
    answer: Answer | None
    error: str | None
    """One line, at its place in the file."""


def fault_line(fault: Fault) -> str:
    """A fault without the excerpt of its text."""
    return str(replace(fault, text=None))


def faults_line(faults: Iterable[Fault]) -> str:
    """Faults in one line."""
    return "; ".join(map(fault_line, faults))


class Planner:
    """Plans deployments of one catalogue; the same one again is not planned again."""

    def __init__(
        self, catalog: Catalog, cost_model: CostModel = "calibrated", *, spread: bool = True
    ) -> None:
        """Without ``spread`` intervals are those of kernels and hosts alone."""
        self._catalog = catalog
        self._spread = spread
        self._cost_model: CostModel = cost_model
        self._plans: dict[str, Plan] = {}

    def answered(self, case: Case, origin: str = "") -> Answered:
        """The case's plan and judgement; whatever is wrong with its input becomes its error."""
        if case.deployment is None:
            return Answered(case, None, faults_line(case.faults))
        try:
            return Answered(case, answer(self.plan(case), case.measured, origin), None)
        except SpecError as error:
            return Answered(case, None, faults_line(error.faults))
        except PlannerError as error:
            return Answered(case, None, fault_line(case.deployment.origin.fault(str(error))))

    def plan(self, case: Case) -> Plan:
        """The plan of a case that is right. Raises SpecError, and UsageError without a place."""
        assert case.deployment is not None
        asked = case.deployment.model_dump_json(exclude={"name"})
        if asked not in self._plans:
            if len(self._plans) == _KEPT:
                self._plans.clear()
            question = ask(case.deployment, self._catalog, self._cost_model)
            if not self._spread:
                question = replace(question, spread=None)
            self._plans[asked] = plan_question(question)
        return self._plans[asked]


def result_cells(row: Answered) -> dict[str, str]:
    """What is written back of a case, by column. A cell without a figure is empty."""
    cells = dict.fromkeys(RESULTS, "")
    cells["error"] = row.error or ""
    found = row.answer
    if found is None:
        return cells
    cells |= predicted_cells(found.predicted)
    cells["fits"] = "true" if found.fits else "false"
    cells["bound"] = found.bound
    cells["verdict"] = found.verdict or ""
    cells["ratio"] = number_cell(found.ratio)
    return cells


def predicted_cells(predicted: Mapping[str, Predicted]) -> dict[str, str]:
    """Predicted figures and the ends of their intervals, by column."""
    cells: dict[str, str] = {}
    for name, each in predicted.items():
        place = f"{PREDICTED}.{name}"
        ends = {place: each.value, f"{place}_low": each.low, f"{place}_high": each.high}
        cells |= {column: number_cell(value) for column, value in ends.items()}
    return cells


def number_cell(value: float | None) -> str:
    """Six digits; nothing for what is no number."""
    return "" if value is None or not math.isfinite(value) else f"{value:.{_DIGITS}g}"


def taken(path: Path) -> Path:
    """The file whose place a new one takes: of a link what it points to.

    Raises UsageError for a folder, a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no file", "name a file with -o")
    return path.resolve() if path.is_symlink() else path


@contextmanager
def written(path: Path, table: CaseTable) -> Iterator[Callable[[Answered], None]]:
    """A function that writes a case back with its results; the file stands when all are written.

    Raises UsageError where the file cannot be written.
    """
    own = [column.name for column in table.columns if column.name not in RESULTS]
    header = own if ID in own else [ID, *own]
    path = taken(path)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow([*header, *RESULTS])

            def write(row: Answered) -> None:
                cells = {**row.case.cells, ID: row.case.id, **result_cells(row)}
                writer.writerow([cells.get(name, "") for name in (*header, *RESULTS)])

            yield write
        part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "name a file with -o") from error
    finally:
        part.unlink(missing_ok=True)
