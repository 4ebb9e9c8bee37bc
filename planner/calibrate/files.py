"""Writes fits to ``catalog/calibrations/<gpu>-<engine>.yaml``, one file per GPU and engine.

The text is made here, line by line, since a person reads it: quantities with units, four digits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from planner.calibrate.fit import Fit
from planner.calibrate.measured import measured_lines
from planner.calibrate.residuals import Residuals
from planner.calibrate.scalars import flow, number, quantity, quoted
from planner.calibrate.types import Rows
from planner.spec.load import load_file
from planner.spec.types import (
    CalibrationSpec,
    KernelCalibration,
    KernelErrors,
    KernelResiduals,
    KernelRows,
    RejectedTable,
    ResidualBand,
)

Units = Callable[[str], Mapping[str, str]]
"""By kernel, as in ``gemm.bf16``: the unit of each constant."""


@dataclass(frozen=True)
class Provenance:
    """Where the constants of a file are from."""

    package: str
    date: str
    script: str
    seed: int


def path(folder: Path, gpu: str, engine: str) -> Path:
    """The file of a GPU and engine."""
    return folder / f"{gpu}-{engine}.yaml"


def load(folder: Path, gpu: str, engine: str) -> CalibrationSpec | None:
    """The calibration already there, if any. Raises SpecError when it is wrong."""
    file = path(folder, gpu, engine)
    return cast("CalibrationSpec", load_file(file, "calibration")) if file.exists() else None


def write(
    folder: Path,
    gpu: str,
    engine: str,
    *,
    fits: Sequence[Fit],
    rejected: Sequence[Rows],
    provenance: Provenance,
    units: Units,
) -> Path:
    """Merge fits into a cell's file: entries of the fitted families are replaced, others stay."""
    known = load(folder, gpu, engine)
    families = {rows.family for rows in (*(fit.rows for fit in fits), *rejected)}
    kernels = dict(known.kernels) if known else {}
    kernels = {name: entry for name, entry in kernels.items() if _family(name) not in families}
    kernels |= {kernel(fit.rows): entry(fit) for fit in fits}
    tables = [
        table
        for table in (known.rejected if known else ())
        if _family(table.kernel) not in families
    ]
    tables += [rejected_table(rows) for rows in rejected]
    spec = CalibrationSpec(
        name=f"{gpu}-{engine}",
        title=f"{gpu} under {engine}",
        gpu=gpu,
        backend=engine,
        **dataclasses.asdict(provenance),
        kernels=dict(sorted(kernels.items())),
        rejected=tuple(sorted(tables, key=lambda table: (table.kernel, table.source))),
        **_kept(known),
    )
    file = path(folder, gpu, engine)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text(spec, units), encoding="utf-8")
    return file


def _kept(known: CalibrationSpec | None) -> dict[str, Any]:
    """What a fit of kernels does not touch."""
    names = ("evidence", "host", "efficiency", "runs")
    return {name: getattr(known, name) for name in names} if known else {}


def kernel(rows: Rows) -> str:
    """What a calibration file keys a variant by: ``gemm.bf16``."""
    return f"{rows.family}.{rows.variant}"


def _family(name: str) -> str:
    return name.partition(".")[0]


def entry(fit: Fit) -> KernelCalibration:
    """A fit as a file holds it."""
    rows = fit.rows
    return KernelCalibration(
        source=rows.source,
        version=rows.version,
        rows=KernelRows(
            read=len(rows.time_s) + rows.merged,
            kept=int(rows.kept.sum()),
            fitted=fit.fitted,
            held=fit.errors.rows,
            flags=rows.flags,
        ),
        constants=fit.constants,
        effective=fit.effective,
        at_bound=fit.at_bound,
        residuals=_residuals(fit.residuals),
        errors=KernelErrors(**dataclasses.asdict(fit.errors)),
    )


def _residuals(known: Residuals) -> KernelResiduals:
    bands = tuple(
        ResidualBand.model_construct(
            above=band.low_s,
            below=None if math.isinf(band.high_s) else band.high_s,
            rows=band.rows,
            q10=band.q10,
            q50=band.q50,
            q90=band.q90,
        )
        for band in known.bands
    )
    return KernelResiduals.model_construct(
        rows=known.rows, q10=known.q10, q50=known.q50, q90=known.q90, bands=bands
    )


def rejected_table(rows: Rows) -> RejectedTable:
    """A table that was not used, as a file holds it."""
    count = len(rows.time_s) + rows.merged
    return RejectedTable(kernel=kernel(rows), source=rows.source, rows=count, reason=rows.rejected)


def residuals(known: KernelResiduals) -> Residuals:
    """A file's residuals as calibration computes with them."""
    from planner.calibrate.residuals import Band

    bands = tuple(
        Band(
            band.above,
            math.inf if band.below is None else band.below,
            band.rows,
            band.q10,
            band.q50,
            band.q90,
        )
        for band in known.bands
    )
    return Residuals(known.rows, known.q10, known.q50, known.q90, bands)


# --- text --------------------------------------------------------------------------------------


def text(spec: CalibrationSpec, units: Units) -> str:
    """The YAML of a calibration. Constants of unknown unit are written as bare SI numbers."""
    parts = [*_head(spec), *measured_lines(spec), *_kernels(spec, units), *_tables(spec)]
    return "\n".join(parts) + "\n"


def _head(spec: CalibrationSpec) -> Iterator[str]:
    yield "kind: calibration"
    for name in ("name", "title", "gpu", "backend", "package", "date", "script"):
        yield f"{name}: {quoted(getattr(spec, name))}"
    yield f"seed: {spec.seed}"


def _kernels(spec: CalibrationSpec, units: Units) -> Iterator[str]:
    if spec.kernels:
        yield "kernels:"
    for name, found in spec.kernels.items():
        rows, errors = found.rows, found.errors
        yield f"  {name}:"
        yield f"    source: {quoted(found.source)}"
        yield f"    version: {quoted(found.version)}"
        flags = flow(rows.flags.items())
        yield (
            f"    rows: {{read: {rows.read}, kept: {rows.kept}, fitted: {rows.fitted}, "
            f"held: {rows.held}, flags: {flags}}}"
        )
        yield "    constants:"
        of = units(name)
        for word, value in found.constants.items():
            yield f"      {word}: {quantity(value, of.get(word, '1'))}"
        yield f"    effective: [{', '.join(found.effective)}]"
        yield f"    at_bound: [{', '.join(found.at_bound)}]"
        yield from _residual_lines(found.residuals)
        figures = {key: getattr(errors, key) for key in ("median", "mean", "bias", "coverage")}
        yield f"    errors: {flow([('rows', errors.rows), *figures.items()])}"


def _residual_lines(known: KernelResiduals) -> Iterator[str]:
    yield "    residuals:"
    yield f"      rows: {known.rows}"
    for name in ("q10", "q50", "q90"):
        yield f"      {name}: {number(getattr(known, name))}"
    yield "      bands:" if known.bands else "      bands: []"
    for band in known.bands:
        ends = [("above", quantity(band.above, "s"))]
        ends += [("below", quantity(band.below, "s"))] if band.below is not None else []
        quantiles = [(name, number(getattr(band, name))) for name in ("q10", "q50", "q90")]
        yield f"        - {flow([*ends, ('rows', band.rows), *quantiles])}"


def _tables(spec: CalibrationSpec) -> Iterator[str]:
    if spec.rejected:
        yield "rejected:"
    for table in spec.rejected:
        yield f"  - kernel: {quoted(table.kernel)}"
        yield f"    source: {quoted(table.source)}"
        yield f"    rows: {table.rows}"
        yield f"    reason: {quoted(table.reason)}"
