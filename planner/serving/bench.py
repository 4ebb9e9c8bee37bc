"""Servings of candidates, each asked for once, and why those that cannot be are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from planner.errors import PlannerError, SpecError
from planner.plan.memory import changed
from planner.plan.serving_types import ServingPlan
from planner.serving.candidates import Candidate, started
from planner.serving.closed import serve
from planner.spec.question import Question


@dataclass(eq=False)
class Bench:
    """What was tried."""

    users: int
    left_out: Counter[str] = field(default_factory=Counter)
    """Reasons, and how many candidates each kept out."""
    _known: dict[Hashable, ServingPlan | None] = field(default_factory=dict)
    _started: dict[Hashable, Candidate | None] = field(default_factory=dict)

    @property
    def served(self) -> int:
        """Deployments that were planned."""
        return sum(found is not None for found in self._known.values())

    def start(self, candidate: Candidate) -> Candidate | None:
        """The candidate as its engine starts; None where it does not."""
        key = _key(candidate.question)
        if key not in self._started:
            self._started[key] = self._start(candidate)
        return self._started[key]

    def _start(self, candidate: Candidate) -> Candidate | None:
        try:
            found = started(candidate)
        except PlannerError as error:
            self.left_out[_reason(error)] += 1
            return None
        if found is None:
            self.left_out["does not start: weights, or one sequence, are too large"] += 1
        return found

    def serve(
        self, candidate: Candidate, replicas: int, users: int | None = None
    ) -> ServingPlan | None:
        """The users served by so many replicas; None where it cannot be."""
        question = placed(candidate, replicas, users or self.users)
        key = _key(question)
        if key not in self._known:
            try:
                self._known[key] = serve(question)
            except PlannerError as error:
                self.left_out[_reason(error)] += 1
                self._known[key] = None
        return self._known[key]


def placed(candidate: Candidate, replicas: int, users: int) -> Question:
    """The question of so many replicas of a candidate for so many users."""
    data = candidate.question.deployment.parallel.data * replicas
    found = changed(candidate.question, parallel={"data": data}, workload={"concurrency": users})
    if candidate.nodes == 1:
        return found
    nodes = {"nodes": candidate.nodes * replicas}
    return replace(found, deployment=found.deployment.model_copy(update=nodes))


def _key(question: Question) -> Hashable:
    deployment = question.deployment
    parts = deployment.parallel, deployment.precision, deployment.workload, deployment.nodes
    flags = tuple(deployment.backend.flags.items())
    return (id(question.gpu), id(question.backend), repr(parts), flags)


def _reason(error: PlannerError) -> str:
    if isinstance(error, SpecError) and error.faults:
        return error.faults[0].message
    return str(error)
