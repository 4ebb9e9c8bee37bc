"""Fitted constants of one kernel variant, and how wide they make an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from planner.cost.kernels.types import KernelModel
from planner.cost.types import Evidence
from planner.num import Number, is_array, maximum, minimum, where
from planner.spec.types import KernelCalibration

BORROWED_WIDTH: Mapping[Evidence, float] = {
    "measured-here": 1.0,
    "calibrated": 1.0,
    "class": 2.0,
    "datasheet": 4.0,
}
"""How much wider the 80 % interval is than the residuals of the constants in use.

From leaving GPUs out of the GEMM fits (``planner validate --transfer``): pooled 80 % intervals of
log(measured / predicted) are -0.09 to +0.11 with a GPU's own constants, -0.11 to +0.13 with those
of its architecture, and -0.37 to +0.22 with those of others, which covers only 53 to 63 % of the
rows of the worst GPUs. Architectures with one measured GPU (Ada, Ampere) could not be tested and
get twice the width.
"""
LEAST_LOG_WIDTH: Mapping[Evidence, float] = {
    "measured-here": 0.0,
    "calibrated": 0.0,
    "class": 0.12,
    "datasheet": 0.45,
}
"""Half the 80 % interval, in logs, that borrowed constants have at least: a donor's small residuals
say nothing of how alike two GPUs are."""
UNKNOWN_LOG_WIDTH = 0.5
"""Half the 80 % interval, in logs, of a kernel nobody measured anywhere."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """Constants of one variant, and what is known of their errors."""

    variant: str
    values: Mapping[str, float]
    evidence: Evidence
    source: str
    """File and kernel, or why there is none."""
    gpu: str = ""
    """The GPU that was measured."""
    measured: KernelCalibration | None = None
    backend: str = ""
    """The engine that was measured."""

    @cached_property
    def floor_s(self) -> float:
        """What the kernel takes to start and drain."""
        return next(self.values[name] for name in _FLOORS if name in self.values)

    @property
    def borrowed(self) -> bool:
        """Whether they are another GPU's or engine's, or nobody's."""
        return self.evidence in {"class", "datasheet"}

    def interval(self, time_s: Number) -> tuple[Number, Number]:
        """80 % interval of log(real / estimate) for a kernel estimated to take ``time_s``."""
        if self.measured is None:
            return -UNKNOWN_LOG_WIDTH, UNKNOWN_LOG_WIDTH
        residuals = self.measured.residuals
        low: Number = residuals.q10
        high: Number = residuals.q90
        several = is_array(time_s)
        for band in residuals.bands:
            end = math.inf if band.below is None else band.below
            inside = (band.above <= time_s) & (time_s < end)
            if several:
                low, high = where(inside, band.q10, low), where(inside, band.q90, high)
            elif inside:
                low, high = band.q10, band.q90
        width, least = BORROWED_WIDTH[self.evidence], LEAST_LOG_WIDTH[self.evidence]
        return minimum(low * width, -least), maximum(high * width, least)


_FLOORS = ("floor_s", "t0_s", "a1_s")


@dataclass(frozen=True, eq=False)
class Asked:
    """One question that an estimate put to a kernel model."""

    model: KernelModel[Any]
    fitted: Fitted
    shape: Any
    time_s: float
    """With weights and caches cold."""
    taken_off: bool = False
    """Whether it is less, not more: what the model holds that is a kernel of its own here."""
