"""The whole lab: every section in turn within its share of the time, kept as it goes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from planner.lab import attention, collective, gemm, launch, step, stream
from planner.lab.bench import Bench, Progress, Section
from planner.lab.job import Job
from planner.lab.journal import Journal, Point
from planner.lab.machine import disturbance, drift, machine, require_torch, slug, unsteady
from planner.lab.refusal import LabRefused
from planner.lab.timing import stopwatch

RUN = "run.json"
"""The step's times in the lab's own format, which `planner record` reads."""
_FORCE = "wait until it is free, or measure all the same with --force"


def run(
    job: Job,
    folder: Path,
    *,
    progress: Progress = lambda _line: None,
    force: bool = False,
    fresh: bool = False,
) -> tuple[str, ...]:
    """Measure a job into a folder; what a reader should know, as where others disturbed it.

    A run that was stopped goes on where it was. Raises LabRefused where torch or the device is
    missing, the folder holds something else, or the machine is busy or throttles and ``force`` is
    not set. What was measured stays in the folder all the same.
    """
    torch = require_torch()
    found = machine(torch, job.device)
    notes = _quiet(job, "before the lab", force=force)
    journal = Journal(folder, job, found, fresh=fresh)
    bench = Bench(torch, job, found, stopwatch(torch, job.device), journal, progress)
    began = time.perf_counter()
    with torch.inference_mode():
        gemm.sentinels(bench, "first")
        for name, section, share in _sections(folder):
            _measured(bench, name, section, share * job.budget_s)
        notes += _pace(bench, force=force)
    write_run(bench, folder, notes)
    progress(f"measured in {time.perf_counter() - began:.0f} s")
    return notes


def _sections(folder: Path) -> Iterator[tuple[str, Section, float]]:
    """Each section with its share of the time."""
    yield "launch cost", launch.measure, 0.02
    yield "copy and triad", stream.measure, 0.12
    yield "GEMM", gemm.measure, 0.4
    yield "FP32 product", gemm.vector, 0.01
    yield "decode attention", attention.measure, 0.2
    yield "all-reduce", collective.measure, 0.06
    yield "decode step", partial(step.measure, folder=folder), 0.2


def _measured(bench: Bench, name: str, section: Section, budget_s: float) -> None:
    count = 0
    for count, point in enumerate(section(bench, budget_s), 1):  # noqa: B007 - the last one counts
        bench.progress(f"{name}: {_said(point)}")
    if not count:
        bench.progress(f"{name}: nothing to measure here")


def _said(point: Point) -> str:
    sizes = " ".join(f"{key}={value}" for key, value in point.sizes.items())
    time_s = point.values.get("median_s", point.values.get("launch_s", 0.0))
    return f"{sizes} {time_s * 1e6:.1f} us".strip()


def _quiet(job: Job, moment: str, *, force: bool) -> tuple[str, ...]:
    reason = disturbance(job.device)
    if reason is None:
        return ()
    if not force:
        raise LabRefused(f"{moment} the machine is not free: {reason}", _FORCE)
    return (f"{moment}: {reason}",)


def _pace(bench: Bench, *, force: bool) -> tuple[str, ...]:
    """Whether the machine kept its pace from the first products to the last, and in the step."""
    first, last = (gemm.sentinels(bench, moment) for moment in ("first", "last"))
    drifts = (drift(bound, first[bound], last[bound]) for bound in first)
    steps = (unsteady(point.values) for point in bench.journal.of("step"))
    reasons = tuple(reason for reason in (*drifts, *steps) if reason)
    if reasons and not force:
        hint = "let it cool down or wait, then --fresh; or keep it with --force"
        raise LabRefused("; ".join(reasons), hint)
    return reasons


def write_run(bench: Bench, folder: Path, notes: tuple[str, ...]) -> None:
    """The step as a file of measurements; none where the job has no step."""
    steps = {point.sizes["mode"]: point for point in bench.journal.of("step")}
    if "eager" not in steps:
        return
    told = list(notes)
    if "graph" in steps:
        graph_s = steps["graph"].values["median_s"]
        told.append(f"replayed from one CUDA Graph the step takes {graph_s * 1e3:.4g} ms")
    written: dict[str, Any] = {
        "planner_lab_run": 1,
        "machine": asdict(bench.machine),
        "context": {**bench.job.context, "gpu": slug(bench.machine)},
        "notes": told,
        "step_s": steps["eager"].values["samples_s"],
    }
    (folder / RUN).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
