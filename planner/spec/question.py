"""A deployment with everything it names: the whole input of a plan, nothing left to look up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from planner.errors import Fault, SpecError
from planner.spec.catalog import Catalog
from planner.spec.conditions import holds
from planner.spec.types import (
    BackendSpec,
    BlockCycle,
    BlockSpec,
    BlockUse,
    CalibrationSpec,
    DeploymentSpec,
    GpuSpec,
    ModelSpec,
    Pool,
    Precision,
    SpreadSpec,
)

CostModel = Literal["calibrated", "roofline"]


@dataclass(frozen=True, eq=False)
class Measured:
    """A calibration, with what tells how near its GPU is to another."""

    calibration: CalibrationSpec
    architecture: str
    capability: float | None


@dataclass(frozen=True, eq=False)
class Question:
    """A deployment, its model with blocks, its GPU, its engine and its calibrations."""

    deployment: DeploymentSpec
    model: ModelSpec
    blocks: Mapping[str, BlockSpec]
    gpu: GpuSpec
    backend: BackendSpec
    calibrations: tuple[Measured, ...] = ()
    """Those that may lend constants: the one the deployment names, overlays, the nearest ones."""
    cost_model: CostModel = "calibrated"
    named: str | None = None
    """The name of the calibration that the deployment names."""
    draft: Question | None = None
    """The model that drafts tokens for this one's, on the same GPUs and engine."""
    drafting: int = 0
    """Tokens that this model drafts for a step of another; 0 where it serves by itself."""
    pools: tuple[Question, Question] | None = None
    """Of disaggregated serving, the questions of its prefill and of its decode servers."""
    spread: SpreadSpec | None = None
    """What whole runs scatter beyond kernels; None where nothing tells it."""

    @cached_property
    def operators(self) -> frozenset[str]:
        """Names of all operators of the model."""
        blocks = (*self.blocks.values(), *self.model.blocks.values())
        return frozenset(node.op for block in blocks for node in block.nodes.values())


def ask(
    deployment: DeploymentSpec, catalog: Catalog, cost_model: CostModel = "calibrated"
) -> Question:
    """Look up all that a deployment names. Raises SpecError with every name that is unknown."""
    origin = deployment.origin
    faults: list[Fault] = []
    named: CalibrationSpec | None = None
    with _kept(faults):
        model = catalog.find("model", deployment.model, origin.at("model"))
    with _kept(faults):
        gpu = catalog.find("gpu", deployment.gpu, origin.at("gpu"))
    with _kept(faults):
        backend = catalog.find("backend", deployment.backend.name, origin.at("backend", "name"))
    with _kept(faults):
        if deployment.calibration is not None and cost_model == "calibrated":
            place = origin.at("calibration")
            named = catalog.find("calibration", deployment.calibration, place)
    if faults:
        raise SpecError(faults)
    calibrations: tuple[Measured, ...] = ()
    spread = None
    if cost_model == "calibrated":
        calibrations = _calibrations(named, gpu, backend, catalog)
        spread = catalog.find("spread", SPREAD) if SPREAD in catalog.names("spread") else None
    blocks = blocks_of(model, catalog)
    name = named.name if named else None
    found = Question(deployment, model, blocks, gpu, backend, calibrations, cost_model, name)
    return replace(found, draft=_draft(found, catalog), pools=_pools(found, catalog), spread=spread)


def _draft(question: Question, catalog: Catalog) -> Question | None:
    """The question of the model that drafts, in its own precision; None where there is none."""
    deployment = question.deployment
    asked = deployment.speculation
    if asked is None or asked.draft is None:
        return None
    model = catalog.find("model", asked.draft, asked.origin.at("draft"))
    update = {"model": asked.draft, "speculation": None, "precision": Precision()}
    alone = deployment.model_copy(update=update)
    return replace(
        question,
        deployment=alone,
        model=model,
        blocks=blocks_of(model, catalog),
        draft=None,
        drafting=asked.tokens,
    )


def _pools(question: Question, catalog: Catalog) -> tuple[Question, Question] | None:
    pools = question.deployment.pools
    if pools is None:
        return None
    prefill, decode = (_pool(question, each, catalog) for each in (pools.prefill, pools.decode))
    return prefill, decode


def _pool(question: Question, pool: Pool, catalog: Catalog) -> Question:
    """The question of a deployment that is one pool and nothing else."""
    deployment = question.deployment
    gpu = pool.gpu or deployment.gpu
    if pool.gpu:
        catalog.find("gpu", gpu, pool.origin.at("gpu"))
    backend = deployment.backend
    flags = {"flags": {**backend.flags, **pool.flags}}
    update = {
        "gpu": gpu,
        "parallel": pool.parallel or deployment.parallel,
        "backend": backend.model_copy(update=flags),
        "pools": None,
    }
    return ask(deployment.model_copy(update=update), catalog, question.cost_model)


@contextmanager
def _kept(faults: list[Fault]) -> Iterator[None]:
    """Keeps the faults of one look-up, so that the next one is made all the same."""
    try:
        yield
    except SpecError as error:
        faults += error.faults


SPREAD = "whole-runs"
"""The name of the spread that plans take; a catalogue of the user's own may hold another."""
COLLECTIVES = "nccl"
"""Whom measurements of the collective library stand under: every engine calls it."""
NEAREST = 3
"""Calibrations that are read: the next would lend nothing that these lack, and reading costs."""


def _lenders(backend: BackendSpec, gpu: GpuSpec) -> frozenset[str]:
    """Engines whose all-reduce a fused kernel of this one holds on such a GPU."""
    asked = {"capability": gpu.capability}
    return frozenset(
        rule.kernel
        for rule in backend.fusions
        if rule.kernel and any(slot.op == "all_reduce" for slot in rule.pattern)
        if holds({name: rule.when[name] for name in asked if name in rule.when}, asked)
    )


def _calibrations(
    named: CalibrationSpec | None, gpu: GpuSpec, backend: BackendSpec, catalog: Catalog
) -> tuple[Measured, ...]:
    """The named calibration first, then overlays, then those of the nearest GPUs, and last those of
    this one under engines whose kernels this engine runs.

    A file called GPU-ENGINE stands for what its name says. Any other is an overlay: it is read for
    its fields, and is used where GPU and engine are the deployment's own.
    """
    found = [Measured(named, gpu.architecture, gpu.capability)] if named else []
    overlays = []
    ranked = []
    for name in catalog.names("calibration"):
        place = named_after(name, catalog)
        if place is None:
            overlay = catalog.find("calibration", name)
            if _is_own(overlay, gpu, backend) and not (named and named.name == name):
                overlays.append(overlay)
            continue
        other, engine = catalog.find("gpu", place[0]), place[1]
        nearness = (
            other.name != gpu.name,
            other.architecture != gpu.architecture,
            _generations(other, gpu),
            abs(math.log(other.memory.bandwidth.value / gpu.memory.bandwidth.value)),
            engine != backend.name,
            name,
        )
        ranked.append((nearness, name, other))
    # whole runs first: they were fitted on top of everything else
    overlays.sort(key=lambda each: (each.runs is None, each.name))
    found += [Measured(overlay, gpu.architecture, gpu.capability) for overlay in overlays]
    ranked.sort(key=lambda each: each[0])
    lenders = {f"{gpu.name}-{engine}" for engine in _lenders(backend, gpu)}
    lent = [each for each in ranked[NEAREST:] if each[1] in lenders]
    for _, name, other in (*ranked[:NEAREST], *lent):
        calibration = catalog.find("calibration", name)
        found.append(Measured(calibration, other.architecture, other.capability))
    return tuple(found)


def named_after(name: str, catalog: Catalog) -> tuple[str, str] | None:
    """The GPU and engine of a calibration called GPU-ENGINE; None for any other name."""
    for engine in (*catalog.names("backend"), COLLECTIVES):
        gpu = name.removesuffix(f"-{engine}")
        if gpu != name and gpu in catalog.names("gpu"):
            return gpu, engine
    return None


def _is_own(calibration: CalibrationSpec, gpu: GpuSpec, backend: BackendSpec) -> bool:
    return calibration.gpu == gpu.name and calibration.backend in {backend.name, COLLECTIVES}


def _generations(one: GpuSpec, other: GpuSpec) -> float:
    """How far apart two GPUs' capabilities are; unknown is further than any two known ones."""
    if one.capability is None or other.capability is None:
        return math.inf
    return abs(one.capability - other.capability)


def blocks_of(model: ModelSpec, catalog: Catalog) -> dict[str, BlockSpec]:
    """The blocks that a model and its encoder name: its own first, else the catalogue's.

    Raises SpecError with every block that is neither.
    """
    found = dict(model.blocks)
    faults: list[Fault] = []
    parts = [(model.origin, model.sequence)]
    if model.encoder:
        parts.append((model.origin.at("encoder"), model.encoder.sequence))
    placed = (
        (origin.at("sequence", position), item)
        for origin, sequence in parts
        for position, item in enumerate(sequence)
    )
    for origin, item in placed:
        uses: tuple[BlockUse, ...] = (item,) if isinstance(item, BlockUse) else item.blocks
        for inner, use in enumerate(uses):
            if use.block in found:
                continue
            place = origin.at("blocks", inner) if isinstance(item, BlockCycle) else origin
            with _kept(faults):
                found[use.block] = catalog.find("block", use.block, place.at("block"))
    if faults:
        raise SpecError(faults)
    return found
