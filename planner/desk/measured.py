"""Runs and baselines from the store, as commands use them and as ``--json`` prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.desk import archive
from planner.errors import UsageError

if TYPE_CHECKING:
    from planner.plan.matched import KernelMatch
    from planner.plan.runs import Metric, Run
    from planner.plan.types import Plan
    from planner.plan.verdict import Reference, Verdict
    from planner.store.repository import Store
    from planner.store.types import BaselineRow, StoredRun


def settings(sets: Sequence[str]) -> dict[str, Any]:
    """``PATH=VALUE`` of circumstances, by path. Raises UsageError for text that is none."""
    found = {}
    for text in sets:
        path, equals, value = text.partition("=")
        if not (path.strip() and equals and value.strip()):
            raise UsageError(f"{text!r} is no PATH=VALUE", "as in --set parallel.tensor=2")
        found[path.strip()] = _scalar(value.strip())
    return found


def _scalar(text: str) -> Any:
    """A number or true and false as themselves; a version such as 0.26 stays as it was written."""
    if text in {"true", "false"} or text.lstrip("-").isdecimal():
        return json.loads(text) if not text.startswith("0") or text == "0" else text
    return text


def keep_runs(
    store: Store, plan: Plan, raw: bytes, runs: Sequence[Run]
) -> list[tuple[StoredRun, bool]]:
    """Record the runs of a file beside their plan: each as it is kept, and whether it is new.

    Raises UsageError where a run contradicts the plan.
    """
    from datetime import UTC, datetime

    from planner.plan.circumstances import completed
    from planner.store.runs import recorded

    now = datetime.now(UTC)
    whole = [completed(run, plan) for run in runs]
    found = [
        recorded(run, raw, plan_id=plan.plan_id, position=position, at=now)
        for position, run in enumerate(whole)
    ]
    # One that is there already keeps the moment of its first recording.
    return [
        (stored, True) if store.save_run(stored) else (store.run(stored.run_id), False)
        for stored in found
    ]


def record(
    store: Store, plan_id: str, raw: bytes, runs: Sequence[Run]
) -> tuple[Plan, list[tuple[StoredRun, bool]]]:
    """Record the runs of a file beside the stored plan whose id begins so, as `keep_runs`.

    Raises UsageError for an unknown plan too.
    """
    row = store.plan(plan_id)
    plan, _ = archive.restored(row)
    kept = keep_runs(store, plan, raw, runs)
    # From here on a run holds its plan; until here it might have been pruned.
    store.save_plan(row)
    return plan, kept


def plan_of_run(store: Store, plan_id: str | None) -> Plan | None:
    """The plan a run was recorded against; None for a run of no plan."""
    if plan_id is None:
        return None
    plan, _ = archive.restored(store.plan(plan_id))
    return plan


def matched(store: Store, run_id: str) -> tuple[StoredRun, Plan, KernelMatch]:
    """A run, its plan, and the kernels of both held against each other.

    Raises UsageError for a run without kernels or without a plan.
    """
    from planner.plan.kernel_match import match

    stored = store.run(run_id)
    plan = plan_of_run(store, stored.plan_id)
    if plan is None:
        hint = "`planner record PLAN FILE` keeps it for one"
        raise UsageError(f"run {stored.run_id} belongs to no plan", hint)
    return stored, plan, match(stored.run, plan)


def match_document(stored: StoredRun, found: KernelMatch, *, steps: bool) -> dict[str, Any]:
    """A match as plain data; the launches of a step only where ``steps`` asks for them."""
    from planner.plan.values import plain

    document: dict[str, Any] = plain(found)
    if not steps:
        del document["sequence"]
    return {"run_id": stored.run_id, "plan_id": stored.plan_id, **document}


def reference(store: Store, row: BaselineRow) -> Reference:
    """The accepted run behind a baseline."""
    from planner.plan.verdict import Reference

    accepted = store.run(row.run_id)
    parts = store.plan(accepted.plan_id).parts if accepted.plan_id else None
    return Reference(row.name, accepted.run, parts)


def run_document(stored: StoredRun) -> dict[str, Any]:
    """A recorded run, without its file and its single measurements."""
    source = stored.run.source
    return {
        "run_id": stored.run_id,
        "plan_id": stored.plan_id,
        "recorded_at": stored.recorded_at,
        "source": {
            "format": source.format,
            "tool": source.tool,
            "sha256": source.sha256,
            "size_bytes": source.size_bytes,
            "position": stored.position,
        },
        "metrics": [metric_document(metric) for metric in stored.run.metrics],
        "samples": {name: len(values) for name, values in stored.run.samples.items()},
        "context": dict(stored.run.context),
        "notes": list(stored.run.notes),
    }


def metric_document(metric: Metric) -> dict[str, Any]:
    """One figure with its unit."""
    return {
        "name": metric.name,
        "statistic": metric.statistic,
        "value": metric.value,
        "unit": metric.unit,
    }


def verdict_document(verdict: Verdict) -> Mapping[str, Any]:
    """A verdict as plain data."""
    from planner.plan.values import plain

    found: Mapping[str, Any] = plain(verdict)
    return found
