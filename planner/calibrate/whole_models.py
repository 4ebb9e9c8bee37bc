"""Kernels of whole models, each held against the measured row of its very shape.

Models of the catalogue are planned on the GPUs and engines that were measured. What a plan asks
its kernel models is looked up among the rows that no fit has seen, of the same kernel on the same
GPU under the same engine. Prediction and row are compared as the benchmark ran, caches warm; what
the plan itself takes, caches cold, stands beside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from planner.calibrate import aiconfigurator, files
from planner.calibrate.counterparts import SIZES, Counterparts
from planner.calibrate.families import family as named
from planner.calibrate.fit import split
from planner.calibrate.types import Pick
from planner.calibrate.whole_model_cases import CASES, LOADS, ROUTING, Case
from planner.cost.estimate import CalibratedEstimator
from planner.cost.fitted import Asked
from planner.cost.kernels import gemm
from planner.cost.types import Device
from planner.errors import SpecError
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.solve import SolvedStep, solve_step
from planner.spec.again import deployment_again
from planner.spec.catalog import Catalog
from planner.spec.question import COLLECTIVES, ask

Found: TypeAlias = Literal["exact", "between", "no row", "borrowed"]


@dataclass(frozen=True)
class Compared:
    """One kernel of a step beside what was measured of its shape."""

    family: str
    variant: str
    shape: Any
    times: int
    """How often the step runs it."""
    planned_s: float
    """What the plan takes it to take, caches cold."""
    found: Found
    measured_s: float = math.nan
    predicted_s: float = math.nan
    """Run as the benchmark ran it."""
    log_low: float = math.nan
    log_high: float = math.nan
    """80 % interval of log(real / predicted)."""
    held_back: float = math.nan
    """Median error of the variant on all rows that no fit has seen."""
    others: tuple[str, ...] = ()
    """Where no row was found: variants of the same format that have one."""

    @property
    def matched(self) -> bool:
        """Whether a row was found."""
        return self.found in {"exact", "between"}

    @property
    def inside(self) -> bool:
        """Whether the measured time lies in the 80 % interval."""
        return self.log_low <= math.log(self.measured_s / self.predicted_s) <= self.log_high


@dataclass(frozen=True)
class ComparedStep:
    """All kernels of one step that models other than the streaming one price."""

    gpu: str
    engine: str
    case: Case
    load: str
    device_s: float
    """Device time of all kernels of the step, as planned."""
    kernels: tuple[Compared, ...]


@dataclass(frozen=True)
class Refused:
    """A case that an engine does not run on a GPU, and why."""

    gpu: str
    engine: str
    case: Case
    reason: str


class Tables:
    """Rows of one GPU under one engine that no fit has seen, found by shape."""

    def __init__(self, folder: Path, data: Path, gpu: str, engine: str) -> None:
        self.version = ""
        self.held_back: dict[tuple[str, str], float] = {}
        self.known: dict[tuple[str, str], Counterparts] = {}
        for family in SIZES:
            libraries = {COLLECTIVES} if family == "collective" else set()
            pick = Pick(frozenset({gpu}), frozenset({engine}) | libraries)
            for rows in named(family).tables(data, pick):
                spec = files.load(folder, rows.gpu, rows.engine)
                entry = spec.kernels.get(files.kernel(rows)) if spec else None
                if spec is None or entry is None or rows.rejected:
                    continue
                if family == "gemm":
                    self.version = rows.version
                held = rows.take(split(rows, seed=spec.seed).held)
                self.known[family, rows.variant] = Counterparts(held)
                self.held_back[family, rows.variant] = entry.errors.median

    def compare(self, asked: Asked, times: int, device: Device) -> Compared:
        """A question to a kernel model beside the row of its shape."""
        fitted, model = asked.fitted, asked.model
        key = model.family, fitted.variant
        named_ = Compared(*key, asked.shape, times, asked.time_s, "borrowed")
        if fitted.borrowed:
            return named_
        met = self.known[key].find(asked.shape) if key in self.known else None
        if met is None:
            others = tuple(self._others(*key, asked.shape))
            return Compared(*key, asked.shape, times, asked.time_s, "no row", others=others)
        predicted_s = model.time_s(fitted.variant, met.shape, device, fitted.values, warm=True)
        return Compared(
            *key,
            asked.shape,
            times,
            asked.time_s,
            "exact" if met.exact else "between",
            met.time_s,
            float(predicted_s),
            *fitted.interval(float(predicted_s)),
            self.held_back[key],
        )

    def _others(self, family: str, variant: str, shape: Any) -> Iterator[str]:
        for (other, name), rows in self.known.items():
            alike = other == family and name != variant
            if alike and _format(family, name) == _format(family, variant) and rows.find(shape):
                yield name


def _format(family: str, variant: str) -> object:
    """What kernels that do the same work have in common."""
    if family == "gemm":
        return gemm.KINDS[variant].operand, gemm.KINDS[variant].weights
    if family == "moe":
        return variant.partition("_")[2]
    return variant if family == "collective" else variant.rpartition(".")[2]


def compare(
    folder: Path,
    catalog: Catalog,
    pick: Pick,
    *,
    cases: Sequence[Case] = CASES,
    loads: Mapping[str, Mapping[str, Any]] = LOADS,
    data: Path | None = None,
) -> Iterator[ComparedStep | Refused]:
    """Every case on every measured GPU and engine, with the constants in ``folder``.

    Raises UsageError where the wheel of tables is missing.
    """
    where = data or aiconfigurator.root()
    for machine in aiconfigurator.MACHINES.values():
        for engine in aiconfigurator.ENGINES.values():
            if not pick.wants(machine.gpu, engine):
                continue
            tables = Tables(folder, where, machine.gpu, engine)
            if tables.version:
                yield from _cell(tables, catalog, (machine.gpu, engine), cases, loads)


def _cell(
    tables: Tables,
    catalog: Catalog,
    cell: tuple[str, str],
    cases: Sequence[Case],
    loads: Mapping[str, Mapping[str, Any]],
) -> Iterator[ComparedStep | Refused]:
    for case in cases:
        for load, step in loads.items():
            try:
                solved = _solved(catalog, _deployment(cell, tables.version, case, step))
            except SpecError as error:
                yield Refused(*cell, case, error.faults[0].message)
                break
            yield _step(tables, cell, case, load, solved)


def _deployment(
    cell: tuple[str, str], version: str, case: Case, step: Mapping[str, Any]
) -> dict[str, Any]:
    gpu, engine = cell
    return {
        "name": "whole-model",
        "model": case.model,
        "gpu": gpu,
        "parallel": {"tensor": case.tensor, "expert": case.expert, "data": case.data},
        "backend": {"name": engine, "version": version},
        "step": _shared(step, case.data),
        "experts": ROUTING,
        **({"precision": dict(case.formats)} if case.formats else {}),
    }


def _shared(step: Mapping[str, Any], replicas: int) -> dict[str, Any]:
    """A step with a batch that every replica has a sequence of."""
    (kind, load), *_ = step.items()
    return {kind: {**load, "batch": max(load["batch"], replicas)}}


def _solved(catalog: Catalog, document: Mapping[str, Any]) -> SolvedStep:
    question = ask(deployment_again(document, "a whole model"), catalog)
    return solve_step(prepare(question), step_load(question.deployment), modes=())


def _step(
    tables: Tables, cell: tuple[str, str], case: Case, load: str, solved: SolvedStep
) -> ComparedStep:
    estimator = solved.solver.estimator
    assert isinstance(estimator, CalibratedEstimator)
    device_s, kernels = 0.0, []
    for run in solved.chosen.runs:
        for kernel in run.kernels:
            device_s += run.times * float(kernel.time.time_s)
            kernels += [
                tables.compare(asked, run.times, estimator.device)
                for asked in estimator.asked(kernel.asked)
                if asked.model.family in SIZES
            ]
    return ComparedStep(*cell, case, load, device_s, tuple(kernels))
