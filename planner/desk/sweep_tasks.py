"""What a sweep hands out: deployments to plan, many decode steps of one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from planner.desk.cases import Planner, fault_line, faults_line
from planner.errors import PlannerError, SpecError
from planner.plan.batches import batches
from planner.plan.sweep import Rows, decodes, prefills
from planner.plan.swept import Line, Swept, line_of
from planner.serving.loops import loops
from planner.spec.cases import Case
from planner.spec.catalog import Catalog
from planner.spec.question import CostModel, ask
from planner.spec.sizes import Sizes, sizes_of
from planner.spec.types import DeploymentSpec


@dataclass(frozen=True, eq=False)
class Task:
    """One deployment: as it stands, or at many sizes of its load."""

    deployment: DeploymentSpec | None
    """None where it is wrong."""
    sizes: tuple[Any, ...] | None = None
    """Arrays of the sizes of its load, as `Sizes` names them; None for it as it stands."""
    measured: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    """What is wrong with it."""


@dataclass(frozen=True)
class Circumstances:
    """What all tasks of a sweep share."""

    folders: tuple[Path, ...] = ()
    """Of the user's catalogue."""
    closed: bool = False
    """Whether names of the catalogue alone count, no paths."""
    cost_model: CostModel = "calibrated"


class Executor(Protocol):
    """Answers tasks, here or elsewhere."""

    def answers(self, tasks: Iterable[Task]) -> Iterator[Swept | Line]:
        """The answers in the order of the tasks. What is wrong with one is its answer's error."""
        ...


class Worker:
    """Answers tasks in this process."""

    def __init__(self, shared: Circumstances) -> None:
        self._catalog = Catalog.standard(shared.folders, closed=shared.closed)
        self._cost_model: CostModel = shared.cost_model
        self._planner = Planner(self._catalog, shared.cost_model)

    def answer(self, task: Task) -> Swept | Line:
        """The answer to one task."""
        deployment = task.deployment
        if deployment is None:
            return Line({}, error=task.error)
        if task.sizes is None:
            case = Case(deployment.name, 0, {}, deployment, task.measured)
            found = self._planner.answered(case)
            if found.answer is None:
                return Line({}, error=found.error)
            return line_of(found.answer, deployment)
        try:
            question = ask(deployment, self._catalog, self._cost_model)
            rows = _SWEPT[sizes_of(deployment)](question, *task.sizes)
        except SpecError as error:
            return Line({}, error=faults_line(error.faults))
        except PlannerError as error:
            return Line({}, error=fault_line(deployment.origin.fault(str(error))))
        return Swept(rows, deployment.parallel.gpus, deployment.price)


_SWEPT: Mapping[Sizes | None, Callable[..., Rows]] = {
    Sizes.DECODE: decodes,
    Sizes.PREFILL: prefills,
    Sizes.BATCH: batches,
    Sizes.LOOP: loops,
}


class Local:
    """Tasks one after another in this process."""

    def __init__(self, shared: Circumstances) -> None:
        self._worker = Worker(shared)

    def answers(self, tasks: Iterable[Task]) -> Iterator[Swept | Line]:
        """As `Executor.answers`."""
        return map(self._worker.answer, tasks)
