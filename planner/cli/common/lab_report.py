"""What follows the lab's measuring: the plan of its step, the run beside it, verdict and report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner import importers
from planner.cli.common.lab import CATALOG, Measured, taken
from planner.cli.common.planning import catalog_of, keep, plan_of
from planner.desk.measured import keep_runs, verdict_document
from planner.errors import UsageError
from planner.lab.run import RUN
from planner.lab.step import TRACE
from planner.plan.acceptance import accept
from planner.plan.circumstances import deployed, differences
from planner.plan.kernel_match import match
from planner.plan.types import Plan
from planner.plan.verdict import Verdict
from planner.report.lab import LabReport, fit_rows, gemm_rows, lab_view
from planner.spec.load import load_deployment
from planner.store.database import open_store

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.store.types import StoredRun


@dataclass(frozen=True)
class Followed:
    """The lab's answer."""

    verdict: Verdict
    document: dict[str, Any]
    view: RenderableType


def follow(
    spec: Path,
    sets: Sequence[str],
    out: Path,
    catalogs: Sequence[Path],
    db: str | None,
    *,
    day: str,
    progress: Callable[[str], None],
    notes: Sequence[str] = (),
) -> Followed:
    """Calibrate, plan, record and judge what a lab folder holds.

    Raises UsageError where the folder holds no step, or one of another deployment.
    """
    _check(spec, sets, _files(out)[0])
    measured = taken(out, catalog_of(catalogs), day, progress)
    plan = plan_of(
        spec,
        [*sets, f"gpu={measured.gpu.name}", "price=null"],
        catalog_of([out / CATALOG, *catalogs]),
    )
    keep(plan, None, db)
    runs = _recorded(plan, out, db)
    verdict = accept(runs[0].run, plan)
    report = _report(measured, plan, runs, verdict, [*notes, *_drawn(measured)])
    return Followed(verdict, _document(report), lab_view(report))


def _recorded(plan: Plan, out: Path, db: str | None) -> list[StoredRun]:
    """The step's run, then its trace, as the store keeps them."""
    found = []
    with open_store(db) as store:
        for path in _files(out):
            raw = path.read_bytes()
            kept = keep_runs(store, plan, raw, importers.read(raw, str(path)))
            found += [stored for stored, _ in kept]
    return found


def _check(spec: Path, sets: Sequence[str], step: Path) -> None:
    """Before anything is fitted: the folder's step is the deployment's."""
    deployment = load_deployment(spec, sets).model_dump(mode="json", exclude_none=True)
    asked = deployed(deployment)
    asked.pop("gpu", None)  # the machine's own takes its place
    for run in importers.read(step.read_bytes(), str(step)):
        against = differences(run.context, asked)
        if against:
            said = "; ".join(map(str, against))
            raise UsageError(f"{step} is of another deployment: {said}", "name the job's own")


def _files(out: Path) -> list[Path]:
    """The step's times, and its trace where there is one."""
    step, trace = out / RUN, out / TRACE
    if not step.exists():
        hint = "`planner lab run` measures one"
        raise UsageError(f"{step} is missing: the folder holds no step", hint)
    return [step, *([trace] if trace.exists() else [])]


def _drawn(measured: Measured) -> list[str]:
    """The roofline as a page and a picture; a note where what draws them is missing."""
    from planner.calibrate.from_lab import ceilings
    from planner.charts.files import save_chart
    from planner.report.roofline_chart import roofline_chart

    try:
        chart = roofline_chart(
            measured.points,
            measured.gpu,
            ceilings(measured.points),
            described=measured.described,
        )
        files = [measured.folder / f"roofline{ending}" for ending in (".html", ".png")]
        for file in files:
            save_chart(chart, file)
    except UsageError as error:
        return [f"no roofline was drawn: {error}"]
    return [f"roofline: {files[0]}"]


def _report(
    measured: Measured,
    plan: Plan,
    runs: Sequence[StoredRun],
    verdict: Verdict,
    notes: Sequence[str],
) -> LabReport:
    from planner.calibrate.from_lab import ceilings

    return LabReport(
        machine=measured.machine,
        gpu=measured.gpu,
        described=measured.described,
        ceilings=ceilings(measured.points),
        host_s=measured.host_s,
        gemms=gemm_rows(measured.points, measured.gpu),
        fits=fit_rows(measured.fits),
        plan=plan,
        run_ids=tuple(stored.run_id for stored in runs),
        verdict=verdict,
        kernels=next((match(each.run, plan) for each in runs if each.run.kernels), None),
        notes=tuple(notes),
        calibration=str(measured.calibration),
        folder=str(measured.folder),
    )


def _document(report: LabReport) -> dict[str, Any]:
    return {
        "machine": dict(report.machine),
        "gpu": report.gpu.name,
        "ceilings": dict(report.ceilings),
        "host_s": dict(report.host_s),
        "gemms": list(report.gemms),
        "fits": list(report.fits),
        "plan_id": report.plan.plan_id,
        "run_ids": list(report.run_ids),
        "step": {
            "predicted_s": report.plan.step.time_s,
            "low_s": report.plan.step.low_s,
            "high_s": report.plan.step.high_s,
        },
        "verdict": verdict_document(report.verdict),
        "notes": list(report.notes),
        "calibration": report.calibration,
    }
