"""A named kernel of a file's plan or of a stored one, explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from planner.desk import archive
from planner.errors import UsageError
from planner.plan.explain import explain, label, named
from planner.plan.explained import Explained
from planner.plan.prepare import prepare
from planner.plan.rows import kernel_rows
from planner.plan.solve import solve_step
from planner.plan.types import Plan
from planner.serving.plan import plan_question, planned_step
from planner.spec.again import deployment_again
from planner.spec.catalog import Catalog, is_path
from planner.spec.load import load_deployment
from planner.spec.question import CostModel, Question, ask

_CHANGED = "catalogue or program have changed since it was stored: these figures are today's"


@dataclass(frozen=True)
class Found:
    """What `planner explain` answers."""

    plan_id: str
    explained: Explained
    others: tuple[str, ...]
    """Further kernels that the word names, as ``BLOCK/NODE+NODE``."""
    notes: tuple[str, ...]


def explained(
    word: str,
    name: str | None,
    sets: Sequence[str],
    catalog: Catalog,
    *,
    db: str | None,
    cost_model: CostModel,
) -> Found:
    """The costliest kernel that ``word`` names, of a plan: a file, an id, or the newest stored.

    Raises UsageError for a kernel or an id that is not there, SpecError for a file that is wrong.
    """
    if name is not None and (is_path(name) or Path(name).is_file()):
        question = ask(load_deployment(Path(name), sets), catalog, cost_model)
        return _found(word, question, plan_question(question), ())
    if sets:
        raise UsageError("--set changes a file, and this is a stored plan", "name the file")
    question, plan, same = _again(_stored(name, db), catalog)
    return _found(word, question, plan, () if same else (_CHANGED,))


def _found(word: str, question: Question, plan: Plan, notes: tuple[str, ...]) -> Found:
    first, *rest = named(plan.kernels, word)
    solved = solve_step(prepare(question), planned_step(question, plan), modes=())
    row = next(
        row
        for row in kernel_rows(solved)
        if (row.block, row.name, row.nodes) == (first.block, first.name, first.nodes)
    )
    others = tuple(label(each) for each in rest)
    return Found(plan.plan_id, explain(solved, row), others, notes)


def _stored(name: str | None, db: str | None) -> Plan:
    from planner.store.database import open_store

    with open_store(db) as store:
        if name is None:
            newest = store.plans(1)
            if not newest:
                raise UsageError("no plan is stored", "name a deployment's file")
            name = newest[0].plan_id
        return archive.restored(store.plan(name))[0]


def _again(stored: Plan, catalog: Catalog) -> tuple[Question, Plan, bool]:
    """A stored plan made again by its own cost model, and whether the answer is the same."""
    deployment = deployment_again(stored.deployment, f"plan {stored.plan_id}")
    made = []
    for cost_model in get_args(CostModel):
        question = ask(deployment, catalog, cost_model)
        plan = plan_question(question)
        if plan.plan_id == stored.plan_id:
            return question, plan, plan.result_hash == stored.result_hash
        made.append((question, plan))
    return *made[0], False
