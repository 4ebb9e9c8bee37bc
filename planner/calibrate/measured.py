"""The sections of a calibration file that whole runs and hosts are written to."""

from __future__ import annotations

from collections.abc import Iterator

from planner.calibrate.scalars import flow, number, quantity, quoted
from planner.spec.types import CalibrationSpec, HostTimes, MeasuredRuns


def measured_lines(spec: CalibrationSpec) -> Iterator[str]:
    """Evidence, fixed costs, efficiencies and runs; nothing of what the calibration lacks."""
    if spec.evidence != "calibrated":
        yield f"evidence: {spec.evidence}"
    if spec.host:
        times = ((name, getattr(spec.host, name)) for name in HostTimes.model_fields)
        known = [(name, quantity(value, "s")) for name, value in times if value is not None]
        yield f"host: {flow(known)}"
    if spec.efficiency:
        yield f"efficiency: {flow(spec.efficiency.items())}"
    if spec.runs:
        yield from _runs(spec.runs)


def _runs(runs: MeasuredRuns) -> Iterator[str]:
    yield "runs:"
    yield f"  count: {runs.count}"
    yield f"  ids: [{', '.join(map(quoted, runs.ids))}]"
    yield f"  dates: [{', '.join(map(quoted, runs.dates))}]"
    yield f"  versions: [{', '.join(map(quoted, runs.versions))}]"
    yield f"  kinds: [{', '.join(runs.kinds)}]"
    yield f"  shortest: {quantity(runs.shortest, 's')}"
    yield f"  longest: {quantity(runs.longest, 's')}"
    for name in ("q10", "q50", "q90"):
        yield f"  {name}: {number(getattr(runs, name))}"
