"""The 80 % interval of a step, from those of its kernels.

A kernel's error has a part of its own (the residual of its shape, the same in every layer that
runs it) and a part it shares with its family on this machine: another engine build, another clock.
Own parts are independent between shapes and add as squares; shared parts add up within a family
and as squares between families. Where constants are borrowed the whole error is shared, since what
is wrong with them is wrong for every shape.

Errors on whole runs of the same machine say it better than kernels can, once there are enough runs
of such steps; with fewer the wider of the two intervals holds.

Whole runs scatter more than their kernels do: another engine build, flags and clocks that nobody
states, prompts that load experts unevenly. What public reports of whole runs need beyond the
kernels' interval (a spread of the catalogue) is added to it as squares of logarithms.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.capture.solve import Kernel, Solution
from planner.num import Number, as_float, exp, expm1, log, maximum, minimum, square_root, where
from planner.spec.question import Question
from planner.spec.types import MeasuredRuns, SpreadName

SHARED = 0.05
"""Half of the 80 % interval of what kernels of one family share on a calibrated GPU.

Consecutive engine releases differ by 3 % in the median on the same GPU and shapes (public operator
tables, ratio of consecutive files), which is about ±5 % at 80 %.
"""


ENOUGH_RUNS = 5
"""From so many runs on their errors alone make the interval."""
REACH = 2.0
"""How many times shorter or longer than the measured steps one may be and still be like them."""


LEAST_SHARE = 1e-6
"""Of a time: no end of an interval is taken to be nearer to nought, whose logarithm is none."""


def spread_width(question: Question, figure: SpreadName) -> float:
    """Half of the 80 % interval of log(measured / predicted) that whole runs add; 0 of none."""
    if question.spread is None:
        return 0.0
    known = question.spread.of(question.gpu.vendor)
    found = known.get(figure) or known.get("pace")
    return found.width if found else 0.0


def widened(value: Number, low: Number, high: Number, width: float) -> tuple[Number, Number]:
    """Ends of an interval with a log width added as squares; as they are without one."""
    if not width:
        return low, high
    down = log(value / maximum(low, value * LEAST_SHARE))
    up = log(high / value)
    low, high = (
        value * exp(-square_root(down**2 + width**2)),
        value * exp(square_root(up**2 + width**2)),
    )
    return low, high


def interval(
    solution: Solution, kind: str = "", runs: MeasuredRuns | None = None, width: float = 0.0
) -> tuple[Number, Number] | None:
    """Low and high of the step's wall time; None where a kernel has no known residuals.

    ``kind`` is that of the step, ``runs`` the whole runs its prediction was corrected by, ``width``
    what other whole runs scatter.
    """
    time_s = solution.timeline.time_s
    modelled = _of_kernels(solution)
    if modelled is not None:
        modelled = widened(time_s, *modelled, width)
    if runs is None:
        return modelled
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
