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

    catalog = catalog_of(catalogs)
    planner = Planner(catalog, spread=False)
    makers = {name: catalog.find("gpu", name).vendor for name in catalog.names("gpu")}
    found: list[Deviation] = []
    skipped: list[dict[str, str]] = []
    for file in files:
        with open_cases(file) as table:
            answered = (planner.answered(case) for case in table.cases)
            _gather(answered, makers, found, skipped)
    return found, skipped


def measured_vendors(catalogs: Sequence[Path]) -> list[str]:
    """Makers of cards any of whose kernels are measured."""
    from planner.cli.common.planning import catalog_of

    catalog = catalog_of(catalogs)
    measured = [catalog.find("calibration", name).gpu for name in catalog.names("calibration")]
    known = set(catalog.names("gpu"))
    return sorted({catalog.find("gpu", name).vendor for name in measured if name in known})


def _gather(
    rows: Iterable[Answered],
    makers: Mapping[str, str],
    found: list[Deviation],
    skipped: list[dict[str, str]],
) -> None:
    from planner.calibrate.spread import deviations

    for row in rows:
        cells = row.case.cells
        report = cells.get("report") or cells.get("source") or row.case.id
        reason = row.error or _left_out(cells)
        basis = cells.get("basis") or ""
        told: list[Deviation] = []
        if row.answer and not reason:
            vendor = makers.get(row.answer.plan.gpu, "")
            told = list(deviations(report, row.answer, basis, vendor))
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


def spread_spec(
    found: Sequence[Deviation], files: Sequence[Path], day: str, vendors: Sequence[str]
) -> SpreadSpec:
    """The spread as a catalogue file, of cards of some makers and of all others.

    Raises UsageError for too few reports of the former.
    """
    from planner.calibrate.widths import estimate, estimate_known
    from planner.spec.question import SPREAD
    from planner.spec.types import SpreadSpec

    names = " ".join(map(str, files))
    return SpreadSpec(
        name=SPREAD,
        title="Whole runs that others measured",
        about="What they scatter about their plans beyond kernels and host times.",
        date=day,
        script=f"planner calibrate spread {names} --date {day}",
        figures=estimate(_of(found, vendors)),
        vendors=tuple(vendors),
        others=estimate_known(_of(found, vendors, other=True)),
    )


def _of(
    found: Sequence[Deviation], vendors: Sequence[str], *, other: bool = False
) -> list[Deviation]:
    return [each for each in found if (each.vendor in vendors) != other]


def spread_document(
    spec: SpreadSpec, found: Sequence[Deviation], skipped: list[dict[str, str]], file: Path | None
) -> dict[str, Any]:
    """What is printed, as ``--json`` has it."""
    from planner.calibrate.widths import reports, traits
    from planner.plan.values import plain

    return {
        "figures": {name: each.model_dump() for name, each in spec.figures.items()},
        "traits": [plain(each) for each in traits(_of(found, spec.vendors))],
        "reports": [plain(each) for each in reports(_of(found, spec.vendors))],
        "vendors": spec.vendors,
        "others": {name: each.model_dump() for name, each in spec.others.items()},
        "other_reports": [
            plain(each) for each in reports(_of(found, spec.vendors, other=True), spec.others)
        ],
        "skipped": skipped,
        "file": str(file) if file else None,
    }
