"""Runs from the store to learn from, and what was learnt as ``--json`` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.desk import archive
from planner.errors import Fault, PlannerError, SpecError, UsageError

if TYPE_CHECKING:
    from planner.calibrate.learnt import Lacking, Learning, Learnt
    from planner.calibrate.whole_runs import Recorded
    from planner.plan.types import Plan
    from planner.spec.catalog import Catalog
    from planner.store.repository import Store
    from planner.store.types import RunRow

MOST = 10_000
"""The newest runs that are looked at."""


@dataclass(frozen=True)
class Wanted:
    """Which runs to learn from, and the day to print."""

    plans: Sequence[str]
    """Beginnings of plans' ids; none for all."""
    source: Path | None
    """A table of cases, in place of the store."""
    gpus: Sequence[str]
    engines: Sequence[str]
    day: str

    def __contains__(self, plan: Plan) -> bool:
        """Whether a plan's GPU and engine are asked for."""
        return (not self.gpus or plan.gpu in self.gpus) and (
            not self.engines or plan.backend in self.engines
        )

    @property
    def script(self) -> str:
        """The command that makes a file again, with places for its GPU and engine."""
        asked = "".join(f" --plan {plan}" for plan in self.plans)
        asked += f" --source {self.source}" if self.source else ""
        asked = asked.replace("{", "{{").replace("}", "}}")
        place = "--gpu {gpu} --engine {engine}"
        return f"planner calibrate from-runs {place}{asked} --date {self.day}"


def learned(wanted: Wanted, catalogs: Sequence[Path], db: str | None) -> Learning:
    """What the runs teach. Raises UsageError where they are too few, or a plan's id is unknown."""
    from planner.calibrate.from_runs import learn
    from planner.cli.common.planning import catalog_of
    from planner.store.database import open_store

    catalog = catalog_of(catalogs)
    if wanted.source:
        runs = list(_table_runs(wanted.source, wanted, catalog))
    else:
        with open_store(db) as store:
            runs = list(_recorded_runs(store, wanted))
    found = learn(runs, catalog, date=wanted.day, script=wanted.script)
    if not found.learnt:
        raise _too_few(found)
    return found


def written(found: Learning, folder: Path) -> dict[str, str]:
    """Write what was learnt; the files by the names of calibrations."""
    from planner.calibrate.runs_file import write

    return {each.calibration.name: str(write(folder, each.calibration)) for each in found.learnt}


def _recorded_runs(store: Store, wanted: Wanted) -> Iterator[Recorded]:
    """Runs of stored plans, the oldest first."""
    from planner.calibrate.whole_runs import Recorded

    known: dict[str, Plan | None] = {}
    for row in _rows(store, wanted.plans):
        if row.plan_id is None:
            continue
        if row.plan_id not in known:
            known[row.plan_id] = _plan(store, row.plan_id)
        plan = known[row.plan_id]
        if plan is not None and plan in wanted:
            run = store.run(row.run_id).run
            yield Recorded(row.run_id, plan, run, row.recorded_at.date().isoformat())


def _table_runs(path: Path, wanted: Wanted, catalog: Catalog) -> Iterator[Recorded]:
    """Measured rows of a table of cases, as runs of their deployments.

    Raises SpecError with the faults of all rows that are wrong.
    """
    from planner.calibrate.whole_runs import Recorded
    from planner.desk.cases import Planner
    from planner.plan.cases import run_of
    from planner.spec.cases import open_cases

    planner = Planner(catalog)
    faults: list[Fault] = []
    with open_cases(path) as table:
        for case in table.cases:
            faults += case.faults
            if case.deployment is None or not case.measured or faults:
                continue
            try:
                plan = planner.plan(case)
            except SpecError as error:
                faults += error.faults
                continue
            if plan in wanted:
                yield Recorded(case.id, plan, run_of(case.measured, plan), wanted.day)
    if faults:
        raise SpecError(faults)


def _rows(store: Store, plans: Sequence[str]) -> list[RunRow]:
    if not plans:
        return store.runs(MOST)[::-1]
    ids = dict.fromkeys(store.plan(prefix).plan_id for prefix in plans)
    return [row for plan_id in ids for row in store.runs(MOST, plan_id)[::-1]]


def _plan(store: Store, plan_id: str) -> Plan | None:
    """The plan, or None for one that another program stored: it cannot be made again."""
    try:
        plan, _ = archive.restored(store.plan(plan_id))
    except PlannerError:
        return None
    return plan


def _too_few(found: Learning) -> UsageError:
    """Why nothing was learnt, and which runs would help."""
    from planner.calibrate.choice import LEAST

    if not found.lacking:
        hint = "`planner record PLAN FILE` keeps one"
        message = "no recorded run to learn from"
        if found.skipped:
            first = found.skipped[0]
            message = f"none of {len(found.skipped)} recorded runs can be learnt from; run "
            message += f"{first.run_id}: {first.reason}"
        return UsageError(message, hint)
    cells = "; ".join(
        f"{each.gpu} under {each.backend} has {_plans(each)}: {each.hint}" for each in found.lacking
    )
    return UsageError(f"too few runs to learn from, {LEAST} plans with runs are needed", cells)


def _plans(each: Lacking) -> str:
    return f"runs of {each.plans} plan{'s' if each.plans > 1 else ''}"


def learning_document(found: Learning, files: Mapping[str, str]) -> dict[str, Any]:
    """What was learnt; ``files`` by the names of calibrations, empty on a dry run."""
    from planner.plan.values import plain

    return {
        "learnt": [_learnt(each, files) for each in found.learnt],
        "lacking": [plain(each) for each in found.lacking],
        "skipped": [plain(each) for each in found.skipped],
    }


def _learnt(each: Learnt, files: Mapping[str, str]) -> dict[str, Any]:
    from planner.plan.runs import UNITS
    from planner.plan.values import plain

    name = each.calibration.name
    runs = [{**plain(run), "unit": UNITS[run.metric]} for run in each.runs]
    interval = each.calibration.runs
    assert interval is not None
    return {
        "gpu": each.gpu,
        "backend": each.backend,
        "calibration": name,
        "file": files.get(name),
        "terms": list(each.terms),
        "reason": each.reason,
        "parameters": [plain(parameter) for parameter in each.parameters],
        "errors": plain(each.errors),
        "interval": {"q10": interval.q10, "q50": interval.q50, "q90": interval.q90},
        "runs": runs,
        "tried": [plain(tried) for tried in each.tried],
    }
