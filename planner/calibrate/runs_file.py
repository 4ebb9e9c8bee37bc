"""The calibration that runs teach, and the file it stands in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, cast

import numpy as np

from planner.calibrate import files
from planner.calibrate.choice import Choice
from planner.calibrate.overheads import ALL, RATIOS, SIGMA, Figures, Solved, is_overhead
from planner.calibrate.types import Floats
from planner.calibrate.whole_runs import Measured
from planner.cost.adjust import FAMILIES, Adjustments
from planner.errors import UsageError
from planner.spec.load import load_file, load_text
from planner.spec.types import CalibrationSpec, EfficiencyFamily, HostTimes, MeasuredRuns

SUFFIX = "-runs"
PRIOR_RUNS = 2
"""How many runs the assumed spread counts as: a spread that three runs show says little."""
TENTH = NormalDist().inv_cdf(0.9)
"""Standard deviations to either end of an 80 % interval."""


def calibration(
    gpu: str,
    backend: str,
    measured: Sequence[Measured],
    data: Figures,
    choice: Choice,
    *,
    date: str,
    script: str,
) -> CalibrationSpec:
    """What is learnt, as the file of its GPU and engine says it: with four digits."""
    solved, base = choice.solved, measured[0].prepared.adjusted
    spec = CalibrationSpec(
        name=f"{gpu}-{backend}{SUFFIX}",
        title=f"{gpu} under {backend}, our own runs",
        gpu=gpu,
        backend=backend,
        date=date,
        script=script,
        evidence="measured-here",
        host=_host(solved, base),
        efficiency=_efficiency(solved, base),
        runs=_measured_runs(measured, data, choice),
    )
    return cast("CalibrationSpec", load_text(text(spec), spec.name, "calibration"))


def _host(solved: Solved, base: Adjustments) -> HostTimes | None:
    """Overheads on top of those that were in force when the plans were made."""
    found = {}
    for name in filter(is_overhead, solved.terms):
        field = name.partition(".")[2]
        if solved.value(name) > 0:
            found[field] = base.host_s.get(field, 0.0) + solved.value(name)
    return HostTimes.model_construct(None, **found) if found else None


def _efficiency(solved: Solved, base: Adjustments) -> dict[EfficiencyFamily, float]:
    """Ratios of the modelled work, those in force before taken in."""
    if ALL in solved.terms and not base.efficiency:
        return {"all": solved.value(ALL)}
    found: dict[EfficiencyFamily, float] = {}
    for family, ratio in zip(FAMILIES, RATIOS, strict=True):
        name = ratio if ratio in solved.terms else ALL
        if name in solved.terms:
            found[family] = solved.value(name) * base.efficiency.get(family, 1.0)
    return found


def _measured_runs(measured: Sequence[Measured], data: Figures, choice: Choice) -> MeasuredRuns:
    low, middle, high = _quantiles(choice.left_out)
    times, _ = data.times(choice.solved.terms, choice.solved.z)
    recorded = [run for each in measured for run in each.recorded]
    versions = {str(v) for run in recorded if (v := run.run.context.get("backend.version"))}
    return MeasuredRuns.model_construct(
        None,
        count=len(measured),
        ids=tuple(run.run_id for run in recorded),
        dates=tuple(sorted({run.day for run in recorded})),
        versions=tuple(sorted(versions)),
        kinds=cast("Any", tuple(dict.fromkeys(step.kind for step in data.steps))),
        shortest=float(times.min()),
        longest=float(times.max()),
        q10=low,
        q50=middle,
        q90=high,
    )


def _quantiles(logs: Floats) -> tuple[float, float, float]:
    """80 % prediction interval of a further run: Student's about the median.

    The spread is that of the logs, from their median absolute deviation, taken together with the
    assumed one, which counts as `PRIOR_RUNS` runs.
    """
    count, middle = len(logs), float(np.median(logs))
    seen = 1.4826 * float(np.median(np.abs(logs - middle)))
    spread = math.sqrt((PRIOR_RUNS * SIGMA**2 + count * seen**2) / (PRIOR_RUNS + count))
    half = _student_tenth(count + PRIOR_RUNS - 1) * spread * math.sqrt(1 + 1 / count)
    return middle - half, middle, middle + half


def _student_tenth(freedom: int) -> float:
    """The 90 % quantile of Student's t, by Cornish and Fisher's expansion; within 1 % from 4 on."""
    z = TENTH
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def text(spec: CalibrationSpec) -> str:
    """The file of a calibration from runs."""
    return files.text(spec, lambda _kernel: {})


def write(folder: Path, spec: CalibrationSpec) -> Path:
    """Write what was learnt, over what earlier runs taught.

    Raises UsageError where a file of that name is not from runs, or cannot be written.
    """
    file = folder / f"{spec.name}.yaml"
    if file.exists():
        known = cast("CalibrationSpec", load_file(file, "calibration"))
        if known.runs is None:
            raise UsageError(f"{file} was not made from runs", "name another folder with --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(text(spec), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}", "--out FOLDER") from error
    return file
