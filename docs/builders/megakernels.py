"""Megakernels that others have published, beside the limit that a plan gives for their step.

The rows of docs/measured/megakernels.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from builders.markup import table
from builders.planned import planned
from planner.plan.types import RuleSetTime

CASES = Path(__file__).resolve().parents[1] / "measured" / "megakernels.csv"


@dataclass(frozen=True)
class Case:
    """One published step and its plan."""

    cells: dict[str, str]
    rows: dict[str, RuleSetTime]

    @property
    def measured_s(self) -> float:
        """Wall time of the step, in seconds."""
        return float(self.cells["measured_ms"]) / 1e3

    @property
    def limit_s(self) -> float:
        """What one persistent kernel for it takes at the least."""
        return self.rows["megakernel"].time_s


@cache
def cases() -> tuple[Case, ...]:
    """Every published step, planned."""
    with CASES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(Case(row, dict(planned(row["deployment"]).step.rule_sets)) for row in rows)


def listed() -> str:
    """Every published step beside what the plan says of it."""
    header = ("megakernel", "measured", "limit", "measured / limit", "ideal", "engine", "note")
    return table(header, _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    for case in cases():
        cells = case.cells
        how = "" if cells["seen"] == "read" else f" ({cells['seen']})"
        yield (
            f"[{cells['what']}]({cells['source']})",
            f"{cells['measured_ms']} ms{how}",
            f"{1e3 * case.limit_s:.2f} ms",
            f"{case.measured_s / case.limit_s:.2f}",
            *(f"{1e3 * case.rows[name].time_s:.2f} ms" for name in ("ideal", "engine")),
            cells["note"],
        )


PARTS = {"listed": listed}
