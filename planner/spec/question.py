"""A deployment with everything it names: the whole input of a plan, nothing left to look up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.spec.catalog import Catalog
from planner.spec.types import (
    BackendSpec,
    BlockCycle,
    BlockSpec,
    BlockUse,
    CalibrationSpec,
    DeploymentSpec,
    GpuSpec,
    ModelSpec,
)


@dataclass(frozen=True, eq=False)
class Question:
    """A deployment, its model with blocks, its GPU, its engine and its calibration."""

    deployment: DeploymentSpec
    model: ModelSpec
    blocks: Mapping[str, BlockSpec]
    gpu: GpuSpec
    backend: BackendSpec
    calibration: CalibrationSpec | None = None


def ask(deployment: DeploymentSpec, catalog: Catalog) -> Question:
    """Look up all that a deployment names. Raises SpecError where a name is unknown."""
    origin = deployment.origin
    model = catalog.find("model", deployment.model, origin.at("model"))
    gpu = catalog.find("gpu", deployment.gpu, origin.at("gpu"))
    backend = catalog.find("backend", deployment.backend.name, origin.at("backend", "name"))
    calibration = None
    if deployment.calibration is not None:
        found = catalog.find("calibration", deployment.calibration, origin.at("calibration"))
        assert isinstance(found, CalibrationSpec)
        calibration = found
    assert isinstance(model, ModelSpec)
    assert isinstance(gpu, GpuSpec)
    assert isinstance(backend, BackendSpec)
    return Question(deployment, model, blocks_of(model, catalog), gpu, backend, calibration)


def blocks_of(model: ModelSpec, catalog: Catalog) -> dict[str, BlockSpec]:
    """The blocks a model's sequence names: its own first, else the catalogue's."""
    found = dict(model.blocks)
    for position, item in enumerate(model.sequence):
        origin = model.origin.at("sequence", position)
        uses: tuple[BlockUse, ...] = (item,) if isinstance(item, BlockUse) else item.blocks
        for inner, use in enumerate(uses):
            if use.block in found:
                continue
            place = origin.at("blocks", inner) if isinstance(item, BlockCycle) else origin
            block = catalog.find("block", use.block, place.at("block"))
            assert isinstance(block, BlockSpec)
            found[use.block] = block
    return found
