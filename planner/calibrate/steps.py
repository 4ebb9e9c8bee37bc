"""The steps behind a measured figure, taken apart so that other overheads can be tried on them.

The schedule stays the plan's: an efficiency stretches the work of its kernels, each above its bare
roofline. How much of a stretch the wall sees is the step's own slope: 1 where the GPU is never
waiting, less where the host is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from planner.calibrate.types import Floats
from planner.capture.solve import Kernel, Solution
from planner.capture.timeline import Issue, timeline
from planner.cost.adjust import FAMILIES
from planner.cost.estimator import roofline_s
from planner.plan.load import StepLoad, share, step_load
from planner.plan.prepare import Prepared
from planner.plan.runs import MetricName
from planner.plan.solve import solve_step
from planner.plan.wall import Wall, batch_step_s, wall_of
from planner.plan.workload import decode_steps, prefill_steps

Indices: TypeAlias = npt.NDArray[np.int64]

_STRETCH = 1.05
"""By how much all work is stretched to see what of it the wall sees."""


@dataclass(frozen=True, eq=False)
class StepParts:
    """One solved step. Arrays are by kernel, all repeats together."""

    kind: str
    time_s: float
    sequences: int
    collectives: int
    """Launches of collective kernels."""
    slope: float
    """How much longer the step is for each second that its kernels take longer."""
    work_s: Floats
    bare_s: Floats
    """What no efficiency takes the work below."""
    family: Indices
    """Index into `FAMILIES`."""


def step_parts(prepared: Prepared, step: StepLoad, wall: Wall | None = None) -> StepParts:
    """A step of a deployment in the mode its flags select, with the engine's loop around it."""
    solution = solve_step(prepared, step, modes=()).chosen
    kernels = list(_kernels(solution))

    def wall_s(device_s: float) -> float:
        return float(batch_step_s(wall, step, device_s))

    return StepParts(
        step.kind,
        wall_s(float(solution.timeline.time_s)),
        step.sequences or 0,
        sum(times * k.group.launches for k, times in kernels if k.work.link_bytes),
        _slope(solution, wall_s),
        np.array([times * _work_s(k) for k, times in kernels]),
        np.array([times * min(_work_s(k), roofline_s(k.work)) for k, times in kernels]),
        np.array([FAMILIES.index(k.time.family) for k, _ in kernels], dtype=np.int64),
    )


def _kernels(solution: Solution) -> Iterator[tuple[Kernel, int]]:
    for run in solution.runs:
        for kernel in run.kernels:
            yield kernel, run.times


def _work_s(kernel: Kernel) -> float:
    return float(kernel.time.time_s - kernel.time.fixed_s)


def _slope(solution: Solution, wall_s: Callable[[float], float]) -> float:
    more = (_STRETCH - 1) * solution.timeline.work_s
    longer = wall_s(_stretched_s(solution, _STRETCH)) - wall_s(_stretched_s(solution, 1.0))
    return longer / more if more else 0.0


def _stretched_s(solution: Solution, ratio: float) -> float:
    """Wall time, beside what nothing hides, if all kernels' work took ``ratio`` times as long."""
    runs = [
        (
            tuple(
                Issue(k.launch_s, float(k.time.time_s) + (ratio - 1) * _work_s(k), _work_s(k))
                for k in run.kernels
            ),
            run.times,
        )
        for run in solution.runs
    ]
    issued_s = sum(times * k.launch_s for k, times in _kernels(solution))
    return float(timeline(runs, solution.timeline.host_s - issued_s).time_s)


def figure_wall(prepared: Prepared, metric: MetricName) -> Wall | None:
    """The engine's loop where a figure holds it: in those of a static batch, not in a lone step."""
    deployment = prepared.question.deployment
    alone = deployment.workload is None or metric in {"step", "itl"}
    return None if alone else wall_of(prepared)


def figure_steps(prepared: Prepared, metric: MetricName) -> list[tuple[StepLoad, float]]:
    """The steps that make up a figure in seconds, and how often each counts.

    A throughput is that of its latency.
    """
    deployment = prepared.question.deployment
    workload = deployment.workload
    if workload is None or metric in {"step", "itl"}:
        return [(step_load(deployment), 1.0)]
    batch = share(workload, deployment.parallel.data)
    decoding = decode_steps(batch, workload)
    if metric == "tpot":
        return [(step, count / (workload.output - 1)) for step, count in decoding]
    filling = prefill_steps(prepared, batch, workload.input)
    return [*((step, float(times)) for step, times in filling), *decoding]
