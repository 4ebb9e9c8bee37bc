"""What is said of decode steps: arrays of answers, filled in a solution at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from planner.capture.solve import Solution
from planner.cost.estimator import BOUNDS
from planner.num import Number, as_float, is_array, maximum, where
from planner.plan.cases import LAUNCHES
from planner.plan.interval import interval, kernel_totals, spread_width
from planner.plan.prepare import Prepared

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Decodes:
    """What plans say of decode steps, one element a row."""

    step_s: Array
    low_s: Array
    high_s: Array
    """80 % interval of the step; NaN where no residuals are known."""
    missing_bytes: Array
    """Short on the tightest GPU; nought where it fits."""
    bound: Array
    """What takes most of the step, as a number of `BOUNDS`."""
    mode: Array
    """The capture mode, as a number of `MODES`."""

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        """Whether the engine starts and holds the load."""
        found: npt.NDArray[np.bool_] = self.missing_bytes == 0
        return found


@dataclass(frozen=True, eq=False)
class DecodeLine:
    """What a solution says, for one load or many."""

    step_s: Number
    low_s: Number
    high_s: Number
    bound: Number


def decode_line(solution: Solution, prepared: Prepared) -> DecodeLine:
    """The line of a solution of decode steps."""
    width = spread_width(prepared.question, "pace")
    known = interval(solution, "decode", prepared.adjusted.runs, width)
    low_s, high_s = known or (float("nan"),) * 2
    return DecodeLine(solution.timeline.time_s, low_s, high_s, _bound(solution))


def _bound(solution: Solution) -> Number:
    """As `planner.plan.cases.bound`, as a number of `BOUNDS`."""
    sums: list[Number] = [0.0] * len(BOUNDS)
    for kernel, time_s in kernel_totals(solution):
        bound = kernel.time.bound
        if not is_array(bound):
            sums[BOUNDS.index(bound)] = sums[BOUNDS.index(bound)] + time_s
            continue
        for each in range(len(BOUNDS)):
            sums[each] = sums[each] + (bound == each) * time_s
    found: Number = 0
    for each in range(1, len(BOUNDS)):
        found = where(sums[each] > maximum(*sums[:each]), each, found)
    return where(solution.timeline.launch_share > LAUNCHES, BOUNDS.index("launch"), found)


def fill(found: Decodes, places: Any, line: DecodeLine, won: Any) -> None:
    """Write a line into rows; of arrays those elements that ``won`` picks."""
    for item in fields(DecodeLine):
        value = getattr(line, item.name)
        getattr(found, item.name)[places] = value[won] if is_array(value) else as_float(value)
