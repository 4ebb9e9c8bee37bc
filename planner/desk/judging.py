"""A recorded run judged: by a baseline where there is one, else by its plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.desk.measured import plan_of_run, reference
from planner.plan.acceptance import accept

if TYPE_CHECKING:
    from planner.plan.verdict import Reference, Verdict
    from planner.store.repository import Store
    from planner.store.types import StoredRun


def judged(store: Store, run_id: str, baseline: str | None) -> tuple[StoredRun, Verdict]:
    """A run with its verdict: by the baseline of a name, else by the newest of its plan, else by
    the plan.

    Raises UsageError for an unknown run or baseline.
    """
    stored = store.run(run_id)
    plan = plan_of_run(store, stored.plan_id)
    verdict = accept(stored.run, plan, _baseline(store, stored, baseline))
    if baseline is None and verdict.verdict == "incomparable" and not verdict.impossible:
        # Nobody asked for this baseline: where it has nothing to say, the plan decides.
        verdict = _by_the_other(verdict)
    return stored, verdict


def _by_the_other(verdict: Verdict) -> Verdict:
    if not verdict.others:
        return verdict
    return replace(verdict.others[0], others=(replace(verdict, others=()),))


def _baseline(store: Store, stored: StoredRun, name: str | None) -> Reference | None:
    if name is not None:
        return reference(store, store.baseline(name))
    if stored.plan_id is None:
        return None
    of_plan = store.baselines(stored.plan_id)
    return reference(store, max(of_plan, key=lambda row: row.set_at)) if of_plan else None
