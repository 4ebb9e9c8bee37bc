"""What is said of steps: arrays of answers, filled in a solution at a time."""

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
class StepRows:
    """What plans say of steps, one element a row."""

    step_s: Array
    low_s: Array
    high_s: Array
    """80 % interval of the step; NaN where no residuals are known."""
    bound: Array
    """What takes most of the step, as a number of `BOUNDS`."""
    mode: Array
    """The capture mode, as a number of `MODES`."""
    starved_s: Array
    """Of the step the GPU has nothing to run, since launches come late."""

    @classmethod
    def unknown(cls, rows: int) -> StepRows:
        """So many rows of which nothing is known yet."""
        import numpy as np

        return cls(*(np.full(rows, np.nan) for _ in fields(cls)))

    def __len__(self) -> int:
        """Rows."""
        return len(self.step_s)

    def at(self, places: Any) -> StepRows:
        """Some of the rows."""
        return StepRows(*(getattr(self, item.name)[places] for item in fields(self)))

    def put(self, places: Any, found: StepRows) -> None:
        """Write rows into others."""
        for item in fields(self):
            getattr(self, item.name)[places] = getattr(found, item.name)


@dataclass(frozen=True, eq=False)
class StepLine:
    """What a solution says, for one load or many."""

    step_s: Number
    low_s: Number
    high_s: Number
    bound: Number
    starved_s: Number


def step_line(solution: Solution, kind: str, prepared: Prepared) -> StepLine:
    """The line of a solution of steps of a kind."""
    width = spread_width(prepared.question, "pace")
    known = interval(solution, kind, prepared.adjusted.runs, width)
    low_s, high_s = known or (float("nan"),) * 2
    line = solution.timeline
    return StepLine(line.time_s, low_s, high_s, _bound(solution), line.starved_s)


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


def fill(found: StepRows, places: Any, line: StepLine, won: Any) -> None:
    """Write a line into rows; of arrays those elements that ``won`` picks."""
    for item in fields(StepLine):
        value = getattr(line, item.name)
        getattr(found, item.name)[places] = value[won] if is_array(value) else as_float(value)
