"""One row of a match: kernels of a plan beside what was measured of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from planner.plan.matched import MatchedRow
from planner.plan.types import KernelRow, Plan


def matched_row(
    plan: Plan,
    kernels: tuple[int, ...],
    names: tuple[str, ...],
    *,
    found: float | None = 0.0,
    launches: float = 0.0,
    measured_s: float = 0.0,
) -> MatchedRow:
    """The row of some of a plan's kernels, which ran ``found`` times in ``measured_s`` a step."""
    rows = [plan.kernels[kernel] for kernel in kernels]
    alone = rows[0] if len(rows) == 1 else None
    predicted_s = sum(row.repeat * row.time_s for row in rows)
    low_s = _sum(rows, [row.low_s for row in rows])
    high_s = _sum(rows, [row.high_s for row in rows])
    each_s = measured_s / found if alone and found else None
    ratio, inside = _held(measured_s, predicted_s, low_s, high_s)
    if alone and each_s is not None:
        ratio, inside = _held(each_s, alone.time_s, alone.low_s, alone.high_s)
    return MatchedRow(
        kernels,
        tuple(node for row in rows for node in row.nodes),
        tuple(dict.fromkeys(row.block for row in rows)),
        tuple(dict.fromkeys(row.engine_name for row in rows)),
        names,
        sum(row.repeat for row in rows),
        found,
        launches,
        each_s,
        alone.time_s if alone else None,
        alone.low_s if alone else None,
        alone.high_s if alone else None,
        measured_s,
        predicted_s,
        low_s,
        high_s,
        measured_s - predicted_s,
        ratio,
        inside,
    )


def _held(
    measured_s: float, predicted_s: float, low_s: float | None, high_s: float | None
) -> tuple[float, bool | None]:
    """Measured over predicted, and whether it lies in the interval."""
    ratio = measured_s / predicted_s if predicted_s else math.inf
    return ratio, None if low_s is None or high_s is None else low_s <= measured_s <= high_s


def _sum(rows: Sequence[KernelRow], ends: Sequence[float | None]) -> float | None:
    """Ends of all occurrences added up; None where one is not known."""
    known = [end for end in ends if end is not None]
    if len(known) < len(rows):
        return None
    return sum(row.repeat * end for row, end in zip(rows, known, strict=True))
