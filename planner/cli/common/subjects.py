"""What a chart or a report is about: a plan, two, several GPUs, a choice, or a sweep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.cli.common.planning import named_plan
from planner.desk import archive
from planner.desk.comparing import plans_on
from planner.desk.history import MOST_RUNS, history_rows, recorded
from planner.errors import UsageError
from planner.plan.advice import Advice, advise
from planner.plan.diff import GpuColumn, PlanDiff, diff, side_by_side
from planner.plan.types import Plan
from planner.plan.values import restore
from planner.serving.plan import plan_question
from planner.spec.again import deployment_again
from planner.spec.catalog import is_path
from planner.spec.load import deployments_in, load_deployment
from planner.spec.question import CostModel, Question, ask

if TYPE_CHECKING:
    from planner.spec.catalog import Catalog

KINDS = ("plan", "diff", "gpus", "choose", "history", "sweep")
"""Of documents that commands print with ``--json``, those that can be read back."""

CHOICE = ("model", "workload", "targets", "max_gpus", "choices", "front", "nearest", "given")
SWEEP = ("count", "errors", "fitting", "rows", "reasons", "sort", "out")
"""What a document of the kind has at the least."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What a command line says beside names."""

    sets: tuple[str, ...]
    catalog: Catalog
    db: str | None
    cost_model: CostModel


@dataclass(frozen=True, eq=False)
class PlanSubject:
    """One plan, with its question and what could be changed."""

    plan: Plan
    question: Question
    advice: tuple[Advice, ...] | None
    runs: tuple[Mapping[str, Any], ...] = ()
    """Rows of the history of a stored plan."""


@dataclass(frozen=True, eq=False)
class ChoiceSubject:
    """What ``planner choose --json`` printed."""

    document: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class SweepSubject:
    """What ``planner sweep --json`` printed."""

    document: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class HistorySubject:
    """What ``planner history --json`` printed, moments as datetimes."""

    rows: tuple[Mapping[str, Any], ...]


Subject = (
    PlanSubject | PlanDiff | tuple[GpuColumn, ...] | ChoiceSubject | SweepSubject | HistorySubject
)


def subject(names: Sequence[str], gpus: str | None, asked: Asked) -> Subject:
    """What one or two names are about; with ``gpus``, one deployment on each.

    Raises UsageError for names that go together with nothing.
    """
    if gpus is not None:
        if len(names) != 1:
            raise UsageError("--gpu compares one deployment on several GPUs", "name one file")
        return gpu_columns(Path(names[0]), gpus, asked)
    if len(names) == 2:  # noqa: PLR2004 - a diff has two sides
        first, second = (_plan(name, asked) for name in names)
        return diff(first, second)
    if len(names) != 1:
        raise UsageError("one plan, or two to compare", "`planner list` shows stored plans")
    document = _document(names[0])
    return named(names[0], asked) if document is None else _restored(document, asked)


def gpu_columns(file: Path, gpus: str, asked: Asked) -> tuple[GpuColumn, ...]:
    """One deployment on several GPUs."""
    plans = plans_on(
        deployments_in(file), gpus.split(","), asked.sets, asked.catalog, asked.cost_model
    )
    return side_by_side(plans, {name: asked.catalog.find("gpu", name) for name in plans})


def named(name: str, asked: Asked) -> PlanSubject:
    """A deployment file as it is planned now, or a stored plan."""
    if is_path(name) or Path(name).is_file():
        question = ask(load_deployment(Path(name), asked.sets), asked.catalog, asked.cost_model)
        return PlanSubject(plan_question(question), question, advise(question))
    from planner.store.database import open_store

    with open_store(asked.db) as store:
        plan, advice = archive.restored(store.plan(name))
        runs = history_rows(store, MOST_RUNS, plan_id=plan.plan_id)
    return PlanSubject(plan, _question(plan, asked), advice, tuple(runs))


def runs_of(
    names: Sequence[str], baseline: str | None, asked: Asked
) -> Sequence[Mapping[str, Any]]:
    """Recorded runs: of a stored plan, of a baseline, of what a command printed, or the newest.

    Raises UsageError for more than one of these.
    """
    if len(names) > 1 or (names and baseline):
        raise UsageError("a history is of one plan, or of one baseline", "leave the others out")
    document = _document(names[0]) if names else None
    if document is None:
        return recorded(asked.db, plan=names[0] if names else None, baseline=baseline)
    found = _restored(document, asked)
    if not isinstance(found, HistorySubject):
        raise UsageError(f"{names[0]} is no history", "`planner history --json` prints one")
    return found.rows


def _plan(name: str, asked: Asked) -> Plan:
    document = _document(name)
    if document is None:
        return named_plan(name, asked.sets, asked.catalog, asked.db, asked.cost_model)
    if document["kind"] != "plan":
        raise UsageError(f"{name} is no plan", "two plans make a comparison")
    return restore(Plan, document)


def _document(name: str) -> dict[str, Any] | None:
    """The JSON that a command printed into a file; None for anything else."""
    if not name.endswith(".json") or not Path(name).is_file():
        return None
    try:
        found = json.loads(Path(name).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("kind") not in KINDS or "format" not in found:
        return None
    if found["format"] != 1:
        hint = "use the program that printed it"
        raise UsageError(f"{name} is of format {found['format']}, not 1", hint)
    return found


def _restored(document: Mapping[str, Any], asked: Asked) -> Subject:
    kind = document["kind"]
    try:
        if kind == "choose":
            return ChoiceSubject(_whole(document, CHOICE))
        if kind == "sweep":
            return SweepSubject(_whole(document, SWEEP))
        if kind == "history":
            return HistorySubject(tuple(map(_dated, document["rows"])))
        if kind == "diff":
            return restore(PlanDiff, document)
        if kind == "gpus":
            return tuple(restore(GpuColumn, row) for row in document["gpus"])
        plan, listed = restore(Plan, document), document.get("advice")
    except (KeyError, TypeError, ValueError) as error:
        hint = f"print it again with `planner {kind} --json`"
        raise UsageError(f"the file is no whole {kind}: {error}", hint) from error
    advice = None if listed is None else tuple(restore(Advice, row) for row in listed)
    return PlanSubject(plan, _question(plan, asked), advice)


def _whole(document: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Raises KeyError where it lacks one of what it is made of."""
    for name in names:
        document[name]
    return document


def _dated(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of a history as it was before it was printed."""
    return {**row, "recorded_at": datetime.fromisoformat(row["recorded_at"])}


def _question(plan: Plan, asked: Asked) -> Question:
    """The question that a stored plan answered, with the catalogue as it is now."""
    again = deployment_again(plan.deployment, f"plan {plan.plan_id}")
    return ask(again, asked.catalog, asked.cost_model)
