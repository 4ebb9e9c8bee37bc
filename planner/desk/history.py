"""Recorded runs beside what their plans predict, over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.desk.measured import plan_of_run
from planner.errors import UsageError
from planner.plan.history import history_figures
from planner.plan.values import plain

if TYPE_CHECKING:
    from planner.plan.types import Plan
    from planner.store.repository import Store
    from planner.store.types import RunRow


MOST_RUNS = 200
"""The newest that a picture of a plan's history holds."""


def recorded(
    db: str | None = None,
    *,
    plan: str | None = None,
    baseline: str | None = None,
    limit: int = MOST_RUNS,
) -> list[dict[str, Any]]:
    """Recorded runs of a store beside what their plans predict, as ``history_chart`` draws them.

    ``db`` as ``--db`` takes it; ``plan`` is the beginning of an id. Figures in SI, moments as
    datetimes, the newest first. Raises UsageError as `history_rows`, and StoreError.
    """
    from planner.store.database import open_store

    with open_store(db) as store:
        return history_rows(store, limit, plan_id=plan, baseline=baseline)


def history_rows(
    store: Store, limit: int, *, plan_id: str | None = None, baseline: str | None = None
) -> list[dict[str, Any]]:
    """The newest runs first, a line for each figure beside its prediction.

    Only those of a plan, or of the plan of a baseline, where one is given. Raises UsageError for
    both, and for an unknown one.
    """
    if plan_id is not None and baseline is not None:
        raise UsageError("history takes a plan or a baseline, not both", "leave one out")
    return _rows(store, _plan(store, plan_id, baseline), limit)


def _plan(store: Store, plan_id: str | None, baseline: str | None) -> str | None:
    """The whole id of the plan that is asked for."""
    if plan_id is not None:
        return store.plan(plan_id).plan_id
    if baseline is None:
        return None
    found = store.run(store.baseline(baseline).run_id).plan_id
    if found is None:
        raise UsageError(f"the run of baseline {baseline!r} belongs to no plan")
    return found


def _rows(store: Store, plan_id: str | None, limit: int) -> list[dict[str, Any]]:
    plans: dict[str | None, Plan | None] = {}
    names = {row.run_id: row.name for row in store.baselines()}
    rows = []
    for row in store.runs(limit, plan_id):
        if row.plan_id not in plans:
            plans[row.plan_id] = _kept_plan(store, row.plan_id)
        rows += _figures(row, plans[row.plan_id], names.get(row.run_id))
    return rows


def _kept_plan(store: Store, plan_id: str | None) -> Plan | None:
    """The plan of a run; None where it isn't in this store: a run is a fact without it too."""
    try:
        return plan_of_run(store, plan_id)
    except UsageError:
        return None


def _figures(row: RunRow, plan: Plan | None, baseline: str | None) -> list[dict[str, Any]]:
    """A line for each figure that the plan predicts; one without prediction where there is none."""
    head = {"run_id": row.run_id, "plan_id": row.plan_id, "recorded_at": row.recorded_at}
    head |= {"plan": plan.name if plan else None, "baseline": baseline}
    figures = history_figures(row.metrics, plan)
    return [head | {"tool": row.tool} | plain(each) for each in figures]
