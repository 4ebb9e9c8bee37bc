"""Entries of the catalogue as rows, fields named with their units; operators are a kind too."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.cost.types import device
from planner.errors import SpecError, UsageError
from planner.ops import OPERATORS
from planner.ops.types import Operator
from planner.registry import nearest
from planner.spec.catalog import FOLDERS, Catalog
from planner.spec.types import (
    BackendSpec,
    BlockSpec,
    CalibrationSpec,
    GpuSpec,
    ModelSpec,
    PricesSpec,
    SpreadSpec,
)

OPS = "ops"
_KIND = {folder: kind for kind, folder in FOLDERS.items()}
_WIDE, _NARROW = ("bf16", "fp16"), ("fp8", "int8")

Row = dict[str, Any]


def folder_of(word: str) -> str:
    """The folder a kind's entries lie in, for its singular too; ``ops`` for operators.

    Raises UsageError for an unknown kind.
    """
    folders = (*FOLDERS.values(), OPS)
    found = FOLDERS.get(word, OPS if word == "op" else word)
    if found not in folders:
        near = nearest(word, folders)
        hint = f"did you mean {near!r}?" if near else f"one of {', '.join(folders)}"
        raise UsageError(f"the catalogue has no kind {word!r}", hint)
    return found


def kinds(catalog: Catalog) -> list[Row]:
    """Every kind and how many entries it has."""
    found: list[Row] = [
        {"kind": folder, "entries": len(catalog.names(kind))} for folder, kind in _KIND.items()
    ]
    return [*found, {"kind": OPS, "entries": len(OPERATORS.names())}]


def rows(catalog: Catalog, folder: str) -> list[Row]:
    """The entries of a folder, sorted by name. Raises SpecError with the faults of all files."""
    if folder == OPS:
        return [_operator_row(name, operator) for name, operator in sorted(OPERATORS)]
    describe = _ROWS[folder]
    return [
        {"name": spec.name, "title": spec.title, **describe(spec)}
        for spec in catalog.entries(_KIND[folder])
    ]


def _rate(gpu: GpuSpec, formats: Sequence[str]) -> float | None:
    rates = {str(name): figure.value for name, figure in gpu.matrix.items()}
    return next((rates[name] for name in formats if name in rates), None)


def _gpu_row(gpu: GpuSpec) -> Row:
    return {
        "memory_bytes": gpu.memory.capacity.value,
        "bandwidth_bytes_per_s": gpu.memory.bandwidth.value,
        "16_bit_flops_per_s": _rate(gpu, _WIDE),
        "8_bit_flops_per_s": _rate(gpu, _NARROW),
        "power_w": gpu.power.value if gpu.power else None,
    }


def _model_row(model: ModelSpec) -> Row:
    return {
        "parameters": model.published.parameters if model.published else None,
        "weights": model.weights,
        "max_context": model.max_context,
    }


def _block_row(block: BlockSpec) -> Row:
    return {"nodes": len(block.nodes), "options": list(block.options)}


def _backend_row(backend: BackendSpec) -> Row:
    return {
        "versions": list(backend.versions),
        "flags": len(backend.flags),
        "fusions": len(backend.fusions),
    }


def _calibration_row(found: CalibrationSpec) -> Row:
    return {
        "gpu": found.gpu,
        "backend": found.backend,
        "package": found.package,
        "date": found.date,
        "evidence": found.evidence,
    }


def _prices_row(prices: PricesSpec) -> Row:
    return {"date": prices.date, "gpus": len(prices.gpus)}


def _spread_row(spread: SpreadSpec) -> Row:
    widths = {f"{name}_width": each.width for name, each in spread.figures.items()}
    return {"date": spread.date, **widths}


_ROWS: Mapping[str, Callable[[Any], Row]] = {
    "gpus": _gpu_row,
    "models": _model_row,
    "blocks": _block_row,
    "backends": _backend_row,
    "calibrations": _calibration_row,
    "prices": _prices_row,
    "spreads": _spread_row,
}


def _operator_row(name: str, operator: type[Operator]) -> Row:
    fewest, most = operator.arity
    return {
        "name": name,
        "about": operator.about,
        "class": str(operator.op_class).replace("_", " "),
        "inputs": str(fewest) if fewest == most else f"{fewest} to {most}",
        "attributes": [field.name for field in dataclasses.fields(operator)],
    }


@dataclass(frozen=True)
class Entry:
    """One entry, for people and for programs."""

    title: str
    about: str | None
    figures: Row
    """What follows from it, in SI."""
    content: Row
    """The entry itself."""
    text: tuple[str, ...]
    """The lines of its file; empty for an operator."""


def entry(catalog: Catalog, folder: str, name: str) -> Entry:
    """The entry of a name. Raises UsageError for an unknown one, SpecError for a faulty file."""
    if folder == OPS:
        return _operator_entry(name)
    spec = catalog.find(_KIND[folder], name)
    figures = {"name": spec.name, "file": spec.origin.document.file, **_ROWS[folder](spec)}
    if isinstance(spec, GpuSpec):
        figures |= _ridges(spec)
    content = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return Entry(spec.title, spec.about, figures, content, spec.origin.document.lines)


def _ridges(gpu: GpuSpec) -> Row:
    target = device(gpu)
    found = {
        f"ridge_{name}_flops_per_byte": target.ridge(name) for name in target.matrix_flops_per_s
    }
    return {**found, "ridge_vector_flops_per_byte": target.vector_ridge}


def _operator_entry(name: str) -> Entry:
    operator = OPERATORS.get(name)
    if operator is None:
        near = OPERATORS.nearest(name)
        hint = f"did you mean {near!r}?" if near else "`planner catalog list ops`"
        raise UsageError(f"unknown operator {name!r}", hint)
    row = _operator_row(name, operator)
    fields = {
        field.name: {"type": str(field.type), "required": field.default is dataclasses.MISSING}
        for field in dataclasses.fields(operator)
    }
    formula = inspect.getdoc(operator)
    return Entry(name, formula, row, {**row, "attributes": fields}, ())


def faults_of(catalog: Catalog, folder: str) -> list[str]:
    """What is wrong with the files of a folder, file by file."""
    found = []
    for name in catalog.names(_KIND[folder]):
        try:
            catalog.find(_KIND[folder], name)
        except SpecError as error:
            found += [str(fault) for fault in error.faults]
    return found
