"""Tables of whole runs to the spread of plans, as ``planner calibrate spread`` makes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planner.calibrate.spread import Deviation
    from planner.desk.cases import Answered
    from planner.spec.types import SpreadSpec

_TRAP = "trap"
"""Value of a column ``basis``: what ran is known to be something else."""


def gathered(
    files: Sequence[Path], catalogs: Sequence[Path]
) -> tuple[list[Deviation], list[dict[str, str]]]:
    """Deviations of all tables, of plans without a spread; and the rows that tell none, with why.

    Raises UsageError and SpecError as `open_cases`.
    """
    from planner.cli.common.planning import catalog_of
    from planner.desk.cases import Planner
    from planner.spec.cases import open_cases

    planner = Planner(catalog_of(catalogs), spread=False)
    found: list[Deviation] = []
    skipped: list[dict[str, str]] = []
    for file in files:
        with open_cases(file) as table:
            _gather((planner.answered(case) for case in table.cases), found, skipped)
    return found, skipped


def _gather(
    rows: Iterable[Answered], found: list[Deviation], skipped: list[dict[str, str]]
) -> None:
    from planner.calibrate.spread import deviations

    for row in rows:
        cells = row.case.cells
        report = cells.get("report") or cells.get("source") or row.case.id
        reason = row.error or _left_out(cells)
        basis = cells.get("basis") or ""
        told = list(deviations(report, row.answer, basis)) if row.answer and not reason else []
        if not told:
            why = reason or "no measured figure has a predicted interval"
            skipped.append({"id": row.case.id, "reason": why})
        found += told


def _left_out(cells: Mapping[str, str]) -> str:
    if cells.get("learn") == "no":
        return "the table says that it is not to be learnt from"
    if cells.get("basis") == _TRAP:
        return f"basis {_TRAP}: what ran is something else"
    return ""


def spread_spec(found: Sequence[Deviation], files: Sequence[Path], day: str) -> SpreadSpec:
    """The spread as a catalogue file. Raises UsageError for too few reports."""
    from planner.calibrate.widths import estimate
    from planner.spec.question import SPREAD
    from planner.spec.types import SpreadSpec

    names = " ".join(map(str, files))
    return SpreadSpec(
        name=SPREAD,
        title="Whole runs that others measured",
        about="What they scatter about their plans beyond kernels and host times.",
        date=day,
        script=f"planner calibrate spread {names} --date {day}",
        figures=estimate(found),
    )


def spread_document(
    spec: SpreadSpec, found: Sequence[Deviation], skipped: list[dict[str, str]], file: Path | None
) -> dict[str, Any]:
    """What is printed, as ``--json`` has it."""
    from planner.calibrate.widths import reports, traits
    from planner.plan.values import plain

    return {
        "figures": {name: each.model_dump() for name, each in spec.figures.items()},
        "traits": [plain(each) for each in traits(found)],
        "reports": [plain(each) for each in reports(found)],
        "skipped": skipped,
        "file": str(file) if file else None,
    }
