"""Errors of kernels inside whole models: by family, by cell, by step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planner.calibrate.residuals import Errors
from planner.calibrate.whole_models import Compared, ComparedStep
from planner.plan.interval import Uncertain, width

LEAST = 5
"""Fewer kernels of a cell are told in its family alone."""
WORSE = 1.5
"""How many times the held-back error is clearly worse,"""
BIASED = 0.10
"""and from which bias on a family or cell is off."""


@dataclass(frozen=True)
class KernelErrors:
    """Errors of distinct kernels: one variant and shape on one GPU and engine counts once."""

    family: str
    variant: str
    """``all`` of a whole family."""
    gpu: str
    engine: str
    kernels: int
    """Distinct ones that plans asked for."""
    exact: int
    between: int
    borrowed: int
    """Priced with constants of another GPU or engine: nothing to hold them against."""
    errors: Errors
    held_back: float
    """Median error of the same variants on all rows that no fit has seen, as often as here."""
    cold: float
    """Median of planned / measured − 1: the plan takes caches to be cold."""

    @property
    def beyond(self) -> bool:
        """Whether the error is clearly worse than the held-back one, or biased."""
        return self.errors.median > WORSE * self.held_back or abs(self.errors.bias) > BIASED


@dataclass(frozen=True)
class StepErrors:
    """Errors of sums over the matched kernels of steps."""

    model: str
    """``all`` where all models are taken together."""
    case: str
    steps: int
    covered: float
    """Median share of a step's device time that was matched."""
    errors: Errors


@dataclass(frozen=True)
class OtherKernel:
    """A kernel that plans take, and others that the tables have of the shapes it lacks."""

    gpu: str
    engine: str
    family: str
    variant: str
    others: tuple[str, ...]
    kernels: int


def _distinct(steps: Iterable[ComparedStep]) -> dict[tuple[object, ...], Compared]:
    return {
        (step.gpu, step.engine, kernel.family, kernel.variant, kernel.shape): kernel
        for step in steps
        for kernel in step.kernels
    }


def by_family(steps: Sequence[ComparedStep]) -> Iterator[KernelErrors]:
    """Errors of each family over all GPUs and engines, of families with a match."""
    groups: dict[str, list[Compared]] = defaultdict(list)
    for kernel in _distinct(steps).values():
        groups[kernel.family].append(kernel)
    for family, kernels in groups.items():
        yield from _kernel_errors((family, "all", "all", "all"), kernels, least=1)


def by_cell(steps: Sequence[ComparedStep]) -> Iterator[KernelErrors]:
    """Errors of each variant on each GPU under each engine, of those with `LEAST` matches."""
    groups: dict[tuple[str, str, str, str], list[Compared]] = defaultdict(list)
    for key, kernel in _distinct(steps).items():
        gpu, engine = str(key[0]), str(key[1])
        groups[kernel.family, kernel.variant, gpu, engine].append(kernel)
    for cell in sorted(groups):
        yield from _kernel_errors(cell, groups[cell], least=LEAST)


def _kernel_errors(
    names: tuple[str, str, str, str], kernels: Sequence[Compared], *, least: int
) -> Iterator[KernelErrors]:
    matched = [kernel for kernel in kernels if kernel.matched]
    if len(matched) < least:
        return
    yield KernelErrors(
        *names,
        len(kernels),
        sum(kernel.found == "exact" for kernel in kernels),
        sum(kernel.found == "between" for kernel in kernels),
        sum(kernel.found == "borrowed" for kernel in kernels),
        _errors([(k.predicted_s, k.measured_s, k.inside) for k in matched]),
        float(np.mean([kernel.held_back for kernel in matched])),
        float(np.median([kernel.planned_s / kernel.measured_s - 1 for kernel in matched])),
    )


def by_case(steps: Sequence[ComparedStep]) -> Iterator[StepErrors]:
    """Errors of the sums of each model and split, the last row of all steps."""
    groups: dict[tuple[str, str], list[ComparedStep]] = defaultdict(list)
    for step in steps:
        groups[step.case.model, step.case.words].append(step)
    for names, members in groups.items():
        yield from _step_errors(names, members)
    yield from _step_errors(("all", "all"), steps)


def _step_errors(names: tuple[str, str], steps: Sequence[ComparedStep]) -> Iterator[StepErrors]:
    sums = [
        (step, matched) for step in steps if (matched := [k for k in step.kernels if k.matched])
    ]
    if sums:
        shares = [sum(k.times * k.planned_s for k in ks) / step.device_s for step, ks in sums]
        errors = _errors([_sum(kernels) for _, kernels in sums])
        yield StepErrors(*names, len(sums), float(np.median(shares)), errors)


def _sum(kernels: Sequence[Compared]) -> tuple[float, float, bool]:
    """Predicted and measured seconds, and whether the latter lie in the interval of the sum."""
    predicted_s = sum(k.times * k.predicted_s for k in kernels)
    measured_s = sum(k.times * k.measured_s for k in kernels)
    parts = [Uncertain(k.family, k.times * k.predicted_s, k.log_low, k.log_high) for k in kernels]
    low_s = predicted_s - width(parts, upward=False)
    high_s = predicted_s + width(parts, upward=True)
    return predicted_s, measured_s, low_s <= measured_s <= high_s


def _errors(found: Sequence[tuple[float, float, bool]]) -> Errors:
    off = np.array([predicted_s / measured_s - 1 for predicted_s, measured_s, _ in found])
    return Errors(
        len(off),
        float(np.median(np.abs(off))),
        float(np.mean(np.abs(off))),
        float(np.median(off)),
        math.fsum(inside for *_, inside in found) / len(found),
    )


def other_kernels(steps: Sequence[ComparedStep]) -> Iterator[OtherKernel]:
    """Where tables have shapes under other kernels than the plan's: is the choice right?"""
    groups: dict[tuple[str, str, str, str], list[Compared]] = defaultdict(list)
    for (gpu, engine, *_), kernel in _distinct(steps).items():
        if kernel.others:
            groups[str(gpu), str(engine), kernel.family, kernel.variant].append(kernel)
    for names in sorted(groups):
        others = {name for kernel in groups[names] for name in kernel.others}
        yield OtherKernel(*names, tuple(sorted(others)), len(groups[names]))
