"""The 80 % interval of a step, from those of its kernels.

A kernel's error has a part of its own (the residual of its shape, the same in every layer that
runs it) and a part it shares with its family on this machine: another engine build, another clock.
Own parts are independent between shapes and add as squares; shared parts add up within a family
and as squares between families. Where constants are borrowed the whole error is shared, since what
is wrong with them is wrong for every shape.

Errors on whole runs of the same machine say it better than kernels can, once there are enough runs
of such steps; with fewer the wider of the two intervals holds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.capture.solve import Kernel, Solution
from planner.num import Number, as_float, expm1, maximum, minimum, square_root, where
from planner.spec.types import MeasuredRuns

SHARED = 0.05
"""Half of the 80 % interval of what kernels of one family share on a calibrated GPU.

Consecutive engine releases differ by 3 % in the median on the same GPU and shapes (public operator
tables, ratio of consecutive files), which is about ±5 % at 80 %.
"""


ENOUGH_RUNS = 5
"""From so many runs on their errors alone make the interval."""
REACH = 2.0
"""How many times shorter or longer than the measured steps one may be and still be like them."""


def interval(
    solution: Solution, kind: str = "", runs: MeasuredRuns | None = None
) -> tuple[Number, Number] | None:
    """Low and high of the step's wall time; None where a kernel has no known residuals.

    ``kind`` is that of the step, ``runs`` the whole runs its prediction was corrected by.
    """
    modelled = _of_kernels(solution)
    if runs is None:
        return modelled
    time_s = solution.timeline.time_s
    low_s, high_s = time_s * math.exp(runs.q10), time_s * math.exp(runs.q90)
    if modelled is None:
        return low_s, high_s
    wide_s = minimum(low_s, modelled[0]), maximum(high_s, modelled[1])
    if kind not in runs.kinds or runs.count < ENOUGH_RUNS:
        return wide_s
    alike = (runs.shortest / REACH <= time_s) & (time_s <= runs.longest * REACH)
    return where(alike, low_s, wide_s[0]), where(alike, high_s, wide_s[1])


@dataclass(frozen=True)
class Uncertain:
    """What all repeats of a kernel take, and how sure that is."""

    family: str
    time_s: Number
    log_low: Number
    log_high: Number
    """80 % interval of log(real / predicted)."""
    borrowed: bool = False


def width(kernels: Sequence[Uncertain], *, upward: bool) -> Number:
    """Seconds from the sum of kernels to an end of its 80 % interval."""
    own: Number = 0.0
    shared: defaultdict[str, Number] = defaultdict(float)
    for kernel in kernels:
        log = kernel.log_high if upward else kernel.log_low
        part = kernel.time_s * abs(expm1(log))
        if not kernel.borrowed:
            own = own + part**2
            part = kernel.time_s * SHARED
        shared[kernel.family] = shared[kernel.family] + part
    return square_root(own + sum(each**2 for each in shared.values()))


def _of_kernels(solution: Solution) -> tuple[Number, Number] | None:
    totals = []
    for kernel, time_s in kernel_totals(solution):
        time = kernel.time
        if time.log_low is None or time.log_high is None:
            return None
        totals.append(
            Uncertain(time.family, time_s, time.log_low, time.log_high, borrowed=time.borrowed)
        )
    time_s = solution.timeline.time_s
    down, up = (width(totals, upward=upward) for upward in (False, True))
    return maximum(0.0, time_s - down), time_s + up


def kernel_totals(solution: Solution) -> Iterator[tuple[Kernel, Number]]:
    """Each distinct kernel, with the time all its repeats take."""
    found: dict[int, tuple[Kernel, Number]] = {}
    for run in solution.runs:
        for kernel in run.kernels:
            _, before = found.get(id(kernel), (kernel, 0.0))
            found[id(kernel)] = (kernel, before + run.times * as_float(kernel.time.time_s))
    yield from found.values()
