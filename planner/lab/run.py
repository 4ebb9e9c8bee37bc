"""The whole lab: every section within its share of the time, lap after lap, kept as it goes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from planner.lab import attention, collective, gemm, laps, launch, stream
from planner.lab.bench import DTYPES, Bench, Progress, Section
from planner.lab.cold import Pool
from planner.lab.job import Job
from planner.lab.journal import SAMPLES, Journal, Point
from planner.lab.machine import disturbance, machine, require_torch, slug, unsteady
from planner.lab.refusal import LabRefused
from planner.lab.step import TRACE, Steps
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
    pool = Pool(torch, getattr(torch, DTYPES[job.dtype]), job.device)
    bench = Bench(torch, job, found, stopwatch(torch, job.device), journal, progress, pool)
    steps = Steps(folder / TRACE)
    began = time.perf_counter()
    with torch.inference_mode():
        for lap in range(laps.MOST):
            journal.lap = lap
            _lap(bench, steps)
            if len(laps.steady(journal.points.values())) >= laps.WANTED:
                break
        steps.trace(bench)
    notes += _pace(journal, force=force)
    write_run(bench, folder, notes)
    progress(f"measured in {time.perf_counter() - began:.0f} s")
    return notes


def _lap(bench: Bench, steps: Steps) -> None:
    for name, section, share in _sections(steps):
        said = f"lap {bench.journal.lap + 1}, {name}"
        _measured(bench, said, section, share * bench.job.budget_s / laps.WANTED)


def _sections(steps: Steps) -> Iterator[tuple[str, Section, float]]:
    """Each section with its share of the time."""
    yield "pace", partial(gemm.sentinels, moment="start"), 0.02
    yield "launch cost", launch.measure, 0.02
    yield "copy and triad", stream.measure, 0.12
    yield "GEMM", gemm.measure, 0.37
    yield "pace", partial(gemm.sentinels, moment="before the step"), 0.02
    yield "decode step", steps.measure, 0.2
    yield "pace", partial(gemm.sentinels, moment="after the step"), 0.02
    yield "FP32 product", gemm.vector, 0.01
    yield "decode attention", attention.measure, 0.2
    yield "all-reduce", collective.measure, 0.05
    yield "pace", partial(gemm.sentinels, moment="end"), 0.02


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


def _pace(journal: Journal, *, force: bool) -> tuple[str, ...]:
    """What disturbed the lab. Raises LabRefused where too much did and ``force`` is not set."""
    points = journal.points.values()
    good, count = laps.steady(points), 1 + max(point.lap for point in points)
    few = len(good) < laps.LEAST
    lost = (_disturbed(count, len(good), laps.drift(points)),) if len(good) < count else ()
    jumped = (unsteady(point.values) for point in laps.pooled(points) if point.kind == "step")
    jumps = tuple(reason for reason in jumped if reason)
    if (few or jumps) and not force:
        hint = "let it cool down or wait, then --fresh; or keep it with --force"
        raise LabRefused("; ".join((*lost, *jumps)), hint)
    return lost + jumps


def _disturbed(count: int, good: int, slower: float) -> str:
    return (
        f"the machine kept one pace in {good} of {count} laps: the same products took up to "
        f"{slower:.0%} longer at other times, as with throttling or other work"
    )


def write_run(bench: Bench, folder: Path, notes: tuple[str, ...]) -> None:
    """The step as a file of measurements; none where the job has no step."""
    pooled = laps.pooled(bench.journal.points.values())
    steps = {point.sizes["mode"]: point for point in pooled if point.kind == "step"}
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
        "step_s": steps["eager"].values[SAMPLES],
    }
    (folder / RUN).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
