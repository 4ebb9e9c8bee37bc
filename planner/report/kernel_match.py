"""Measured kernels against a plan's, as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from planner.plan.matched import KernelMatch, MatchedRow
from planner.plan.types import Plan
from planner.report.cells import (
    DASH,
    bullets,
    clean,
    facts,
    heading,
    node_names,
    share,
    small,
    table,
    words,
)
from planner.units import show_seconds

_MOST_ROWS = 12
_WORST = 3
_NAME = 56
"""Characters of a kernel's name: templates go on for hundreds."""
_READING = (
    "off: measured less planned, a step. ratio: measured over planned, of one occurrence. in: "
    "whether one occurrence lies in its 80 % interval."
)
_JOINT = "Rows without 'each' are kernels that names and counts cannot tell apart: judged as a sum."


def match_view(run_id: str, plan: Plan, found: KernelMatch, *, whole: bool) -> RenderableType:
    """What `planner kernels` prints; ``whole`` lists every row and whole names."""
    most = len(found.rows) + len(found.unmatched) if whole else _MOST_ROWS
    return Group(
        words(f"run {run_id} against plan {plan.plan_id} ({plan.name})", "bold"),
        facts(_facts(found)),
        *map(words, found.notes),
        *_rows(found.rows, most),
        *_unmatched(found, most, whole=whole),
        *_missing(found.missing),
    )


def sequence_view(plan: Plan, found: KernelMatch) -> RenderableType:
    """The representative step, launch by launch, each with the kernel it was matched to."""
    if not found.sequence:
        return small("the file keeps no order of launches")
    rows = table(("#", "measured kernel", "time", "kernel of the plan", "occurrence"), left=(1, 3))
    for at, one in enumerate(found.sequence):
        kernel = None if one.kernel is None else plan.kernels[one.kernel]
        rows.add_row(
            f"{at + 1}",
            words(_short(one.name)),
            show_seconds(one.time_s),
            words(node_names(kernel.nodes) if kernel else DASH),
            DASH if one.occurrence is None else f"{one.occurrence + 1}",
        )
    return Group(heading("One step in order"), rows)


def summary_lines(found: KernelMatch, run_id: str) -> Iterator[str]:
    """The match in a few sentences, for `planner record`."""
    yield (
        f"{share(found.matched_share)} of kernel time belongs to kernels of the plan; "
        f"{_count(found.launches)} launches a step, {found.planned_launches:,} planned"
    )
    worst = found.rows[:_WORST]
    if worst:
        yield "furthest off, a step: " + "; ".join(
            f"{node_names(row.nodes)} {_off(row.difference_s)} (×{row.ratio:.2f})" for row in worst
        )
    yield f"`planner kernels {run_id}` shows all of them"


def _facts(found: KernelMatch) -> Iterator[tuple[str, str]]:
    order = "in order" if found.ordered else "without their order"
    yield "steps", f"{found.steps:,}, by {_short(found.steps_by)}; kernels {order}"
    yield "launches", f"{_count(found.launches)} a step, {found.planned_launches:,} planned"
    measured = DASH if found.step_s is None else show_seconds(found.step_s)
    yield "step", f"{measured} measured, {show_seconds(found.predicted_step_s)} planned"
    busy = f"{show_seconds(found.busy_s)} measured, {show_seconds(found.predicted_busy_s)} planned"
    yield "kernels", busy if found.gap_s is None else f"{busy}, {_idle(found.gap_s)}"
    yield "matched", f"{share(found.matched_share)} of {show_seconds(found.kernels_s)} kernel time"


def _idle(gap_s: float) -> str:
    return f"nothing running for {show_seconds(gap_s)}" if gap_s > 0 else "never idle"


def _rows(rows: Sequence[MatchedRow], most: int) -> Iterator[RenderableType]:
    if not rows:
        yield small("no kernel of the plan was found")
        return
    yield heading("Kernels, the furthest off first")
    yield _table(rows[:most])
    rest = rows[most:]
    if rest:
        off_s = sum(row.difference_s for row in rest)
        yield small(f"and {len(rest)} more, together {_off(off_s)} (--all lists them)")
    yield small(_READING)
    if any(row.found is None for row in rows):
        yield small(_JOINT)


def _table(rows: Sequence[MatchedRow]) -> Table:
    headers = ("nodes", "runs", "each", "planned", "80 %", "a step", "off", "ratio", "in")
    found = table(headers, left=(0, 8))
    for row in rows:
        found.add_row(
            words(node_names(row.nodes)),
            _runs(row),
            DASH if row.each_s is None else show_seconds(row.each_s),
            DASH if row.predicted_each_s is None else show_seconds(row.predicted_each_s),
            _interval(row.low_each_s, row.high_each_s),
            show_seconds(row.measured_s),
            _off(row.difference_s),
            f"{row.ratio:.2f}",
            words(_inside(row)),
        )
    return found


def _runs(row: MatchedRow) -> str:
    if row.found is None:
        return f"{DASH}/{row.planned:,}"
    return (
        f"{row.planned:,}" if row.found == row.planned else f"{_count(row.found)}/{row.planned:,}"
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _interval(low_s: float | None, high_s: float | None) -> str:
    if low_s is None or high_s is None:
        return DASH
    low, high = show_seconds(low_s), show_seconds(high_s)
    number, _, unit = low.partition(" ")
    return f"{number}–{high}" if high.endswith(f" {unit}") else f"{low}–{high}"


def _off(value_s: float) -> str:
    return f"{'+' if value_s > 0 else ''}{show_seconds(value_s)}"


def _inside(row: MatchedRow) -> str:
    return DASH if row.inside is None else "yes" if row.inside else "no"


def _unmatched(found: KernelMatch, most: int, *, whole: bool) -> Iterator[RenderableType]:
    if not found.unmatched:
        return
    rest_s = sum(row.time_s for row in found.unmatched)
    part = share(rest_s / found.kernels_s) if found.kernels_s else DASH
    yield heading(f"Measured, but no kernel of the plan: {show_seconds(rest_s)} a step, {part}")
    rows = table(("measured kernel", "launches", "a step", "share"))
    for row in found.unmatched[:most]:
        name = row.name if whole else _short(row.name)
        rows.add_row(words(name), _count(row.launches), show_seconds(row.time_s), share(row.share))
    yield rows
    if len(found.unmatched) > most:
        yield small(f"and {len(found.unmatched) - most} more (--all lists them)")


def _missing(rows: Sequence[MatchedRow]) -> Iterator[RenderableType]:
    if not rows:
        return
    yield heading("Planned, but not found")
    yield bullets(
        f"{node_names(row.nodes)} ({row.engine_names[0]}), {row.planned:,} a step, "
        f"{show_seconds(row.predicted_s)}"
        for row in rows
    )


def _short(name: str) -> str:
    text = clean(name)
    return text if len(text) <= _NAME else f"{text[:_NAME]}…"
