"""Is the catalogue sound: files load, figures have sources, models have the published size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from pydantic import BaseModel

from planner.desk.catalogue import faults_of
from planner.errors import SpecError
from planner.graph.build import model_graph, tower_of
from planner.graph.totals import parameters
from planner.ops.types import Formats
from planner.spec.catalog import FOLDERS, Catalog
from planner.spec.conditions import VERSION
from planner.spec.quantity import Figure
from planner.spec.question import COLLECTIVES, blocks_of, named_after
from planner.spec.types import (
    BackendSpec,
    BlockSpec,
    BlockUse,
    BytesChoice,
    CalibrationSpec,
    CatalogSpec,
    Choice,
    FusionRule,
    Limit,
    ModelSpec,
    Spec,
    TimeChoice,
)

LARGEST_ERROR = 0.001
"""A graph whose parameters miss the published total by more lacks or repeats something."""

_SOURCED = (Choice, TimeChoice, BytesChoice, FusionRule, Limit)
_SAID_SO = ("recalled", "derived", "https://", "http://")
"""How a source opens that is no key of ``sources``."""


@dataclass(frozen=True)
class Audit:
    """What was looked at, and what is wrong."""

    counts: Mapping[str, int]
    worst: tuple[str, float] | None
    """The model whose parameters are furthest from the published, and how far, as a ratio."""
    faults: tuple[str, ...]


def audit(catalog: Catalog) -> Audit:
    """Check every file of a catalogue."""
    counts = {folder: len(catalog.names(kind)) for kind, folder in FOLDERS.items()}
    broken = tuple(chain.from_iterable(faults_of(catalog, folder) for folder in FOLDERS.values()))
    if broken:  # the rest reads files by the names in others, and would only repeat these
        return Audit(counts, None, broken)
    faults: list[str] = []
    errors = dict(_parameter_errors(catalog, faults))
    worst = max(errors.items(), key=lambda item: item[1], default=None)
    faults += [
        f"{name}: parameters are {100 * error:.3f} % from the published total"
        for name, error in errors.items()
        if error > LARGEST_ERROR
    ]
    faults += _unsourced(catalog)
    faults += _displaced(catalog)
    if not faults:  # a model that does not build uses blocks that nobody can tell
        faults += _idle_blocks(catalog)
    return Audit(counts, worst, tuple(faults))


def _formats(model: ModelSpec) -> Formats:
    wide = model.weights
    return Formats(wide, wide, wide, wide)


def _parameter_errors(catalog: Catalog, faults: list[str]) -> Iterator[tuple[str, float]]:
    """How far each model's graph is from its published size; what does not build is a fault."""
    for model in catalog.entries("model"):
        assert isinstance(model, ModelSpec)
        try:
            graph = model_graph(model, blocks_of(model, catalog), _formats(model))
        except SpecError as error:
            faults += map(str, error.faults)
            continue
        if model.published:
            published = model.published.parameters
            yield model.name, abs(parameters(graph) - published) / published


def _unsourced(catalog: Catalog) -> Iterator[str]:
    """Figures of GPUs and engines without a source that the file lists."""
    for kind in ("gpu", "backend"):
        for spec in catalog.entries(kind):
            for place, part in _parts(spec, ()):
                yield from _faults(spec, ".".join(map(str, place)), part)


def _faults(spec: CatalogSpec, place: str, part: BaseModel) -> Iterator[str]:
    if isinstance(part, Figure):
        if part.source not in spec.sources:
            yield f"{spec.name}: {place} has no source of the file's `sources`"
    elif isinstance(part, _SOURCED) and isinstance(spec, BackendSpec):
        source, note = part.source, getattr(part, "note", None)
        if source is None and note is None:
            yield f"{spec.name}: {place} has neither source nor note"
        elif source is not None and not _is_known(source, spec):
            yield f"{spec.name}: {place} names a source that `sources` lacks: {source[:60]}"
    version = getattr(part, "when", {}).get(VERSION)
    listed = version if isinstance(version, tuple) else (version,)
    if any(item is not None and not isinstance(item, str) for item in listed):
        yield f"{spec.name}: {place}.when.version must be text in quotes, got {version}"


def _is_known(source: str, spec: CatalogSpec) -> bool:
    return source.startswith(_SAID_SO) or source.split(maxsplit=1)[0].rstrip(",;:") in spec.sources


def _parts(
    value: object, place: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], BaseModel]]:
    """Every spec and figure inside a value, with its path."""
    if isinstance(value, Spec | Figure):
        yield place, value
        fields = ((name, getattr(value, name)) for name in type(value).model_fields)
    elif isinstance(value, dict):
        fields = ((str(key), inner) for key, inner in value.items())
    elif isinstance(value, tuple):
        fields = ((str(position), inner) for position, inner in enumerate(value))
    else:
        return
    for name, inner in fields:
        yield from _parts(inner, (*place, name))


def _displaced(catalog: Catalog) -> Iterator[str]:
    """Calibrations whose name is another's, and measured ones that no deployment can use."""
    gpus, engines = catalog.names("gpu"), (*catalog.names("backend"), COLLECTIVES)
    for spec in catalog.entries("calibration"):
        assert isinstance(spec, CalibrationSpec)
        place = named_after(spec.name, catalog)
        if place not in {None, (spec.gpu, spec.backend)}:
            yield f"{spec.name}: measures {spec.gpu} under {spec.backend}, which its name belies"
        if spec.evidence == "measured-here" and spec.gpu not in gpus:
            yield f"{spec.name}: gpu {spec.gpu} is not in the catalogue"
        if spec.evidence == "measured-here" and spec.backend not in engines:
            yield f"{spec.name}: backend {spec.backend} is not in the catalogue"


def _idle_blocks(catalog: Catalog) -> Iterator[str]:
    """Blocks that no model uses and that no model's dims can build."""
    models = [model for model in catalog.entries("model") if isinstance(model, ModelSpec)]
    used = {name for model in models for name in blocks_of(model, catalog)}
    for block in catalog.entries("block"):
        assert isinstance(block, BlockSpec)
        if block.name not in used and not any(
            _builds(block, each) for each in _with_towers(models)
        ):
            yield f"{block.name}: no model uses this block, and with no model's dims does it build"


def _with_towers(models: Iterable[ModelSpec]) -> Iterator[ModelSpec]:
    """Towers as models of their own, which most idle blocks are of, and models."""
    yield from (tower_of(model, model.encoder) for model in models if model.encoder)
    yield from models


def _builds(block: BlockSpec, model: ModelSpec) -> bool:
    sequence, options = (BlockUse(block=block.name),), {**block.options, **model.options}
    alone = {"inputs": block.inputs, "sequence": sequence, "options": options}
    try:
        model_graph(model.model_copy(update=alone), {block.name: block}, _formats(model))
    except SpecError:
        return False
    return True
