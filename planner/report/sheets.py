"""Whole reports of a plan, a comparison and a choice: which pieces and pictures in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from planner.plan.advice import Advice
from planner.plan.diff import GpuColumn, PlanDiff
from planner.plan.types import Plan
from planner.plan.verdict import Verdict
from planner.report.cells import bullets, heading
from planner.report.diff import diff_view, gpus_view
from planner.report.headline import headline, nearest_fit, question
from planner.report.kernels import kernel_table, node_table
from planner.report.ledgers import fusion_ledger, launch_ledger, memory_ledger, rule_sets
from planner.report.pieces import Heading, Picture, Piece, pieces
from planner.report.plan import advice_view, explanation
from planner.report.serving import serving_view
from planner.report.sweep import sweep_view
from planner.report.verdicts import history_view, verdict_view

Pictures = Mapping[str, str]
"""SVG by kind of chart; a kind that is missing is left out."""
Rows = Sequence[Mapping[str, Any]]
"""Of a history, as ``planner history --json`` prints them, moments as datetimes."""


def plan_title(plan: Plan) -> str:
    """What a plan's report is called."""
    return f"{plan.name}: {plan.described['model']} on {plan.described['device']}"


def plan_sheet(
    plan: Plan,
    advice: Sequence[Advice] | None = None,
    pictures: Pictures | None = None,
    runs: Rows = (),
) -> tuple[Piece, ...]:
    """Everything a plan says, a picture beside the table it belongs to; then its recorded runs."""
    found = pictures or {}
    told = tuple(_plan(plan, advice, found))
    if not runs:
        return told
    return (*told, Heading("Recorded runs"), *history_sheet(runs, found))


def _plan(plan: Plan, advice: Sequence[Advice] | None, pictures: Pictures) -> Iterator[Piece]:
    yield from pieces(headline(plan))
    if not plan.memory.fits:
        yield from pieces(nearest_fit(plan.memory))
    yield from pieces(question(plan))
    if plan.serving:
        yield from pieces(serving_view(plan.serving))
    yield from _shown(pictures, "modes", "memory")
    if advice is not None:
        yield from pieces(advice_view(advice))
    sections: tuple[tuple[RenderableType, tuple[str, ...]], ...] = (
        (kernel_table(plan, explain=True), ("roofline",)),
        (node_table(plan, explain=True), ("batch", "context")),
        (fusion_ledger(plan), ("block",)),
        (launch_ledger(plan), ("timeline",)),
        (rule_sets(plan), ()),
        (memory_ledger(plan), ()),
    )
    for view, kinds in sections:
        first, *rest = pieces(view)
        yield first
        yield from _shown(pictures, *kinds)
        yield from rest
    if plan.notes:
        yield from pieces(heading("Notes"))
        yield from pieces(bullets(plan.notes))
    yield from pieces(explanation(plan))


def sweep_title(document: Mapping[str, Any]) -> str:
    """What a sweep's report is called."""
    return f"Sweep of {document['count']:,} deployments"


def sweep_sheet(document: Mapping[str, Any]) -> tuple[Piece, ...]:
    """The rows that ``planner sweep --json`` printed, told apart by all that they name."""
    rows = document["rows"]
    return tuple(pieces(sweep_view(document, tuple(rows[0]["cells"]) if rows else ())))


def _shown(pictures: Pictures, *kinds: str) -> Iterator[Piece]:
    yield from (Picture(pictures[kind]) for kind in kinds if kind in pictures)


def plan_summary(plan: Plan) -> tuple[Piece, ...]:
    """A plan in a notebook's cell: the headline, the question, the costliest kernels."""
    views = (headline(plan), question(plan), kernel_table(plan, explain=False))
    return tuple(piece for view in views for piece in pieces(view))


def diff_sheet(change: PlanDiff, pictures: Pictures | None = None) -> tuple[Piece, ...]:
    """Two plans."""
    first, *rest = pieces(diff_view(change))
    return (first, *_shown(pictures or {}, "diff"), *rest)


def gpus_sheet(columns: Sequence[GpuColumn], pictures: Pictures | None = None) -> tuple[Piece, ...]:
    """One deployment on several GPUs."""
    first, *rest = pieces(gpus_view(columns))
    return (first, *_shown(pictures or {}, "gpus"), *rest)


def history_sheet(rows: Rows, pictures: Pictures | None = None) -> tuple[Piece, ...]:
    """Recorded runs beside what their plans predict, the newest first."""
    return (*_shown(pictures or {}, "history"), *pieces(history_view(rows)))


def verdict_sheet(verdict: Verdict) -> tuple[Piece, ...]:
    """What was found of a run."""
    return tuple(pieces(verdict_view(None, verdict)))
