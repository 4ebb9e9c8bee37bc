"""From what a command line names to plans, and from plans to the store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planner.desk import archive
from planner.errors import UsageError
from planner.plan.types import Plan
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog, is_path
from planner.spec.load import load_deployment
from planner.spec.question import CostModel, ask

if TYPE_CHECKING:
    from planner.plan.advice import Advice
    from planner.plan.splits import Split


def catalog_of(folders: Sequence[Path]) -> Catalog:
    """The catalogue that ships, after the user's folders."""
    return Catalog.standard(folders)


def plan_of(
    file: Path, sets: Sequence[str], catalog: Catalog, cost_model: CostModel = "calibrated"
) -> Plan:
    """The plan of a deployment file."""
    return plan_question(ask(load_deployment(file, sets), catalog, cost_model))


def split_sets(
    file: Path, sets: Sequence[str], catalog: Catalog, cost_model: CostModel, asked: str | None
) -> tuple[tuple[Split, ...], tuple[str, ...]]:
    """``sets`` with the split that ``--tp`` asks for, and the splits that were tried for it.

    Raises UsageError where ``asked`` is neither a number nor ``auto``, or nothing fits in a node.
    """
    from planner.plan.splits import MOST, best, splits

    if asked is None:
        return (), tuple(sets)
    if asked.isascii() and asked.isdigit():
        return (), (*sets, f"parallel.tensor={asked}")
    if asked != "auto":
        raise UsageError(f"--tp takes a number or auto, not {asked!r}", "as in --tp 2")
    found = splits(ask(load_deployment(file, sets), catalog, cost_model))
    chosen = best(found)
    if chosen is None:
        hint = (
            "a smaller load, narrower weights, a GPU with more memory, or several nodes: "
            "planner choose FILE --max-gpus 16"
        )
        raise UsageError(f"no split over up to {MOST} GPUs fits", hint)
    return found, (*sets, *chosen.sets)


def named_plan(
    name: str,
    sets: Sequence[str],
    catalog: Catalog,
    db: str | None,
    cost_model: CostModel = "calibrated",
) -> Plan:
    """The plan of a file, or the stored plan whose id begins so.

    Raises UsageError for an unknown id, SpecError for a file that is wrong.
    """
    if is_path(name) or Path(name).is_file():
        return plan_of(Path(name), sets, catalog, cost_model)
    from planner.store.database import open_store

    with open_store(db) as store:
        plan, _ = archive.restored(store.plan(name))
    return plan


def keep(plan: Plan, advice: Sequence[Advice] | None, db: str | None) -> str:
    """Save a plan; the store's answer in words. Raises StoreError."""
    from planner.store.database import open_store

    with open_store(db) as store:
        fresh = store.save_plan(archive.stored(plan, advice))
        return f"saved in {store.place}" if fresh else f"already known in {store.place}"
