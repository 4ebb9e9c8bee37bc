"""Kernels without their order: which names and which kernels of a plan belong together.

A name may be of every kernel whose patterns find it, unless its calls a step rule that out: a GEMM
that ran 32 times a step is no LM head. What remains tied together by names is one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.plan.kernel_names import FittingNames
from planner.plan.runs import KernelTime, Run
from planner.plan.types import KernelRow


@dataclass(frozen=True)
class Group:
    """Kernels of a plan that names and counts cannot tell apart, with what was measured of them."""

    kernels: tuple[int, ...]
    names: tuple[KernelTime, ...]


def groups(
    measured: Sequence[KernelTime],
    kernels: Sequence[KernelRow],
    fitting: FittingNames,
    steps: int,
) -> tuple[list[Group], list[KernelTime]]:
    """The groups, and what belongs to no kernel."""
    group_of: dict[int, set[int]] = {}
    names: list[tuple[int, KernelTime]] = []
    left = []
    for at, one in enumerate(measured):
        fits = fitting.kernels(at)
        if not fits:
            left.append(one)
            continue
        own = possible(one.calls, steps, fits, kernels) or fits
        joined = set(own).union(*(group_of[kernel] for kernel in own if kernel in group_of))
        group_of |= dict.fromkeys(joined, joined)
        names.append((own[0], one))
    found = {id(joined): tuple(sorted(joined)) for joined in group_of.values()}
    return [
        Group(joined, tuple(one for first, one in names if first in joined))
        for joined in found.values()
    ], left


def possible(
    calls: int, steps: int, fits: Sequence[int], kernels: Sequence[KernelRow]
) -> tuple[int, ...]:
    """Those kernels that can be part of a name's calls a step, alone or with others.

    A kernel takes ``repeat`` calls for each launch of it that has the name. None when the calls are
    no multiple of the steps, or no choice of kernels adds up to them.
    """
    each, rest = divmod(calls, steps)
    if rest or not each:
        return ()
    found = []
    for kernel in fits:
        others = 1
        for other in fits:
            if other != kernel:
                others = _sums(others, kernels[other], each, least=0)
        if _sums(others, kernels[kernel], each, least=1) >> each & 1:
            found.append(kernel)
    return tuple(found)


def _sums(sums: int, kernel: KernelRow, most: int, least: int) -> int:
    """Sums (bits of a number) that can be reached with so many launches of a kernel and more."""
    found = 0
    for launches in range(least, max(1, kernel.launches) + 1):
        found |= sums << (kernel.repeat * launches)
    return found & ((1 << (most + 1)) - 1)


def steps_by_plan(
    run: Run, kernels: Sequence[KernelRow], fitting: FittingNames
) -> tuple[int, str] | None:
    """How many steps a run holds, and how that is known; None where no kernel fits.

    Each kernel's calls over its repeats are a candidate: 3,200 calls of what runs 32 times a step
    are 100 steps. The one under which most measured time adds up wins; of equals the one that needs
    the most kernels of the plan, then what the file itself says, then the greatest.
    """
    fits = [fitting.kernels(at) for at in range(len(run.kernels))]
    candidates = {
        max(1, one.calls // kernels[kernel].repeat)
        for one, own in zip(run.kernels, fits, strict=True)
        for kernel in own
    }
    said = run.traced.count if run.traced else None
    candidates |= {said} if said else set()
    if not any(fits):
        return None

    def explained(steps: int) -> tuple[float, int, bool, int]:
        own = [
            possible(one.calls, steps, fit, kernels)
            for one, fit in zip(run.kernels, fits, strict=True)
        ]
        fitting_s = sum(one.total_s for one, some in zip(run.kernels, own, strict=True) if some)
        return round(fitting_s, 12), len(set().union(*own)), steps == said, steps

    return max(candidates, key=explained), "the calls of the plan's kernels"
