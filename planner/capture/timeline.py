"""The launch timeline: a host that issues, a device that runs, each kernel after both.

Kernel i starts at max(end of kernel i−1, end of the host's i-th launch). The seeds' closed forms
are its limits: a slow host gives T_loop ≈ T + N·t_launch, one replay gives T_graph ≈ T + t_once.
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.capture.types import Timeline
from planner.num import Number, maximum
from planner.records import dataclass


@dataclass(frozen=True)
class Issue:
    """One kernel as the timeline sees it."""

    launch_s: float
    device_s: Number
    work_s: Number
    launches: int = 1


def timeline(
    issues: Iterable[tuple[tuple[Issue, ...], int]], start_s: float = 0.0, beyond_s: Number = 0.0
) -> Timeline:
    """Run blocks of kernels, each ``times`` over, from a host clock of ``start_s``.

    Both clocks start after ``beyond_s``, so that it changes no schedule.

    A block's effect on the clocks is (H, A, B): h -> h + H, d -> max(d + A, h + B); repeating it
    n times gives H·n, A·n and B + (n−1)·max(A, H): the last (or the first) repetition decides.
    """
    host, launches = start_s, 0
    device: Number = 0.0
    busy: Number = 0.0
    work: Number = 0.0
    for kernels, times in issues:
        effect = _effect(kernels)
        slower = maximum(effect.alone, effect.host)
        ahead = host + effect.behind + (times - 1) * slower
        device = maximum(device + times * effect.alone, ahead)
        host += times * effect.host
        busy = busy + times * effect.alone
        work = work + times * sum(kernel.work_s for kernel in kernels)
        launches += times * sum(kernel.launches for kernel in kernels)
    return Timeline(host, device, busy, work, launches, beyond_s)


@dataclass(frozen=True)
class _Effect:
    host: float
    alone: Number
    behind: Number


def _effect(kernels: tuple[Issue, ...]) -> _Effect:
    host = 0.0
    alone: Number = 0.0
    behind: Number = float("-inf")
    for kernel in kernels:
        host += kernel.launch_s
        alone = alone + kernel.device_s
        behind = maximum(behind, host) + kernel.device_s
    return _Effect(host, alone, behind)
