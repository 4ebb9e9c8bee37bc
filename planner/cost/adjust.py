"""What whole runs on the user's own machine say of a deployment: fixed costs, efficiencies, errors.

A calibration adjusts a deployment that names it, or whose GPU and engine are its own. Of several
the first that says something of a figure counts. The others are asked in the order in which they
lend constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from planner.cost.estimator import Estimate, Estimator, Kernel, roofline_s
from planner.cost.types import Evidence
from planner.num import maximum, minimum
from planner.spec.question import Measured
from planner.spec.types import CalibrationSpec, EfficiencyFamily, HostTimes, MeasuredRuns

FAMILIES: tuple[EfficiencyFamily, ...] = tuple(
    family for family in get_args(EfficiencyFamily) if family != "all"
)
"""Families of kernels, as estimates name them."""


@dataclass(frozen=True)
class Adjustments:
    """All that applies to a deployment; empty where nobody measured one like it."""

    host_s: Mapping[str, float] = field(default_factory=dict)
    """Fixed costs by the names of `HostTimes`, in seconds."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each of them is from."""
    efficiency: Mapping[str, float] = field(default_factory=dict)
    """By kernel family: what the modelled work is multiplied by."""
    runs: MeasuredRuns | None = None
    """Errors on whole runs."""
    names: Mapping[str, Evidence] = field(default_factory=dict)
    """The calibrations that say any of it, and what they are evidence of."""


def adjustments(
    measured: Iterable[Measured], named: str | None, gpu: str, engine: str
) -> Adjustments:
    """What calibrations say of a deployment on a GPU under an engine, ``named`` among them."""
    own = [
        each.calibration
        for each in measured
        if each.calibration.name == named
        or (each.calibration.gpu, each.calibration.backend) == (gpu, engine)
    ]
    host_s: dict[str, float] = {}
    sources: dict[str, str] = {}
    for spec in reversed(own):
        for name, value in _host(spec).items():
            host_s[name] = value
            sources[name] = f"{spec.name} ({spec.evidence}), {spec.date}"
    efficiency: dict[str, float] = {
        family: ratio
        for family in FAMILIES
        if (ratio := next(filter(None, (_ratio(spec, family) for spec in own)), None)) is not None
    }
    runs = next((spec.runs for spec in own if spec.runs), None)
    names = {spec.name: spec.evidence for spec in own if spec.host or spec.efficiency or spec.runs}
    return Adjustments(host_s, sources, efficiency, runs, dict(names))


def _host(spec: CalibrationSpec) -> dict[str, float]:
    if spec.host is None:
        return {}
    times = ((name, getattr(spec.host, name)) for name in HostTimes.model_fields)
    return {name: value for name, value in times if value is not None}


def _ratio(spec: CalibrationSpec, family: EfficiencyFamily) -> float | None:
    return spec.efficiency.get(family, spec.efficiency.get("all"))


@dataclass(frozen=True, eq=False)
class MeasuredEstimator:
    """Another estimator's work, by how much longer each family takes on the user's machine.

    No kernel gets below its bare roofline. Floors stay as they are.
    """

    modelled: Estimator
    efficiency: Mapping[str, float]
    """By family."""

    def estimate(self, kernel: Kernel) -> Estimate:
        """The modelled time, its work multiplied."""
        found = self.modelled.estimate(kernel)
        ratio = self.efficiency.get(found.family)
        if ratio is None:
            return found
        core_s = maximum(found.core_s * ratio, minimum(found.core_s, roofline_s(kernel.work)))
        return replace(found, core_s=core_s, evidence="measured-here")
