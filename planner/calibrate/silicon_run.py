"""Predicts rows of public serving measurements, in processes beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from planner.calibrate.silicon_cases import deployment
from planner.calibrate.silicon_lint import Flagged
from planner.errors import PlannerError, SpecError
from planner.plan.cases import predictions
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.question import ask

_TOGETHER = 16
"""Rows that a process takes at once: alike, so that what one asked for is remembered."""


@dataclass(frozen=True)
class Figure:
    """A measured time beside the predicted one, seconds."""

    measured_s: float
    predicted_s: float
    inside: bool | None
    """The 80 % interval; None where the plan has none."""

    @property
    def off(self) -> float:
        """Predicted over measured, less one: above nought is predicted too slow."""
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True)
class Predicted:
    """A row and what a plan says of it, or why there is none."""

    flagged: Flagged
    tpot: Figure | None = None
    ttft: Figure | None = None
    limit: str = ""
    """What keeps a replica from more, by the plan."""
    refused: str | None = None


def predict(
    rows: Sequence[Flagged], catalogs: tuple[Path, ...], processes: int
) -> Iterator[Predicted]:
    """Every row in turn. Rows alike should stand together."""
    parts = [rows[start : start + _TOGETHER] for start in range(0, len(rows), _TOGETHER)]
    if min(processes, len(parts)) <= 1:
        for part in parts:
            yield from _part(part, catalogs)
        return
    with ProcessPoolExecutor(processes) as pool:
        for done in pool.map(_part, parts, [catalogs] * len(parts)):
            yield from done


def alike(rows: Sequence[Flagged]) -> list[Flagged]:
    """The rows, those of one model on one system together."""
    return sorted(
        rows,
        key=lambda each: (
            each.row.model,
            each.row.system,
            each.row.engine,
            each.row.version,
            each.row.gemm,
            each.split.gpus,
        ),
    )


def _part(rows: Sequence[Flagged], catalogs: tuple[Path, ...]) -> list[Predicted]:
    catalog = _catalog(catalogs)
    return [one(each, catalog) for each in rows]


@cache
def _catalog(folders: tuple[Path, ...]) -> Catalog:
    return Catalog.standard(folders)


def one(flagged: Flagged, catalog: Catalog) -> Predicted:
    """The prediction of a row; whatever is wrong with it becomes its refusal."""
    try:
        plan = plan_question(ask(deployment(flagged), catalog))
    except SpecError as error:
        reason = "; ".join(fault.message for fault in error.faults)
        return Predicted(flagged, refused=reason)
    except PlannerError as error:
        return Predicted(flagged, refused=str(error))
    found = predictions(plan)
    row = flagged.row
    tpot, ttft = (
        _figure(measured, found[name].value, found[name].low, found[name].high)
        for name, measured in (("tpot_ms", row.tpot_ms), ("ttft_ms", row.ttft_ms))
    )
    bare = found["tpot_ms"].bare
    if bare is not None and row.tpot_ms < bare and "impossible" not in flagged.flags:
        flagged = replace(flagged, flags=(*flagged.flags, "impossible"))
    return Predicted(flagged, tpot, ttft, plan.serving.limit if plan.serving else "")


def _figure(measured: float, predicted: float, low: float | None, high: float | None) -> Figure:
    inside = None if low is None or high is None else low <= measured <= high
    return Figure(measured * 1e-3, predicted * 1e-3, inside)
