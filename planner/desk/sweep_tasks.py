"""What a sweep hands out: deployments to plan, many decode steps of one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from planner.desk.cases import Planner, fault_line, faults_line
from planner.errors import PlannerError, SpecError
from planner.plan.sweep import decodes
from planner.plan.swept import Line, Swept, line_of
from planner.spec.cases import Case
from planner.spec.catalog import Catalog
from planner.spec.question import CostModel, ask
from planner.spec.types import DeploymentSpec


@dataclass(frozen=True, eq=False)
class Task:
    """One deployment: as it stands, or at so many batches and contexts of its decode step."""

    deployment: DeploymentSpec | None
    """None where it is wrong."""
    batch: Any = None
    """Array; None for the deployment as it stands."""
    context: Any = None
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
        if task.batch is None:
            case = Case(deployment.name, 0, {}, deployment, task.measured)
            found = self._planner.answered(case)
            if found.answer is None:
                return Line({}, error=found.error)
            return line_of(found.answer, deployment)
        try:
            question = ask(deployment, self._catalog, self._cost_model)
            found_steps = decodes(question, task.batch, task.context)
        except SpecError as error:
            return Line({}, error=faults_line(error.faults))
        except PlannerError as error:
            return Line({}, error=fault_line(deployment.origin.fault(str(error))))
        batch = task.batch.astype(float)
        return Swept(batch, found_steps, deployment.parallel.gpus, deployment.price)


class Local:
    """Tasks one after another in this process."""

    def __init__(self, shared: Circumstances) -> None:
        self._worker = Worker(shared)

    def answers(self, tasks: Iterable[Task]) -> Iterator[Swept | Line]:
        """As `Executor.answers`."""
        return map(self._worker.answer, tasks)
