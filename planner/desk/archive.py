"""Plans to and from the store: the one place that knows both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from planner.errors import StoreError
from planner.plan.types import FORMAT, Plan
from planner.plan.values import restore

if TYPE_CHECKING:
    from planner.plan.advice import Advice
    from planner.store.types import StoredPlan


def stored(plan: Plan, advice: Sequence[Advice] | None) -> StoredPlan:
    """The row that keeps a plan, dated now; its document is what ``--json`` prints."""
    from planner.report.document import plan_document
    from planner.store.types import StoredPlan

    return StoredPlan(
        plan_id=plan.plan_id,
        result_hash=plan.result_hash,
        name=plan.name,
        created_at=datetime.now(UTC),
        model=plan.model.name,
        gpu=plan.gpu,
        backend=plan.backend,
        step_time_s=plan.step.time_s,
        fits=plan.memory.fits,
        parts=dict(plan.parts),
        document=plan_document(plan, advice),
    )


def restored(row: StoredPlan) -> tuple[Plan, tuple[Advice, ...] | None]:
    """The plan a row keeps, with its advice. Raises StoreError for one of another format."""
    from planner.plan.advice import Advice

    document = row.document
    if document.get("format") != FORMAT:
        raise StoreError(
            f"plan {row.plan_id} was stored in format {document.get('format')}, this program reads "
            f"format {FORMAT} (plan the deployment again, or install the program that stored it)"
        )
    advice = document.get("advice")
    listed = None if advice is None else tuple(restore(Advice, item) for item in advice)
    return restore(Plan, document), listed
