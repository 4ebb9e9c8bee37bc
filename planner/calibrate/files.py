"""Writes fits to ``catalog/calibrations/<gpu>-<engine>.yaml``, one file per GPU and engine.

The text is made here, line by line, since a person reads it: quantities with units, four digits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from planner.calibrate.fit import Fit
from planner.calibrate.residuals import Residuals
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

DIGITS = 4
Units = Callable[[str], Mapping[str, str]]
"""By kernel, as in ``gemm.bf16``: the unit of each constant."""
_UNITS = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns")),
    "bytes/s": ((1e12, "TB/s"), (1e9, "GB/s"), (0.0, "MB/s")),
}
_FACTORS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6}


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
    tables += [_rejected(rows) for rows in rejected]
    spec = CalibrationSpec(
        name=f"{gpu}-{engine}",
        title=f"{gpu} under {engine}",
        gpu=gpu,
        backend=engine,
        **dataclasses.asdict(provenance),
        kernels=dict(sorted(kernels.items())),
        rejected=tuple(sorted(tables, key=lambda table: (table.kernel, table.source))),
    )
    file = path(folder, gpu, engine)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text(spec, units), encoding="utf-8")
    return file


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


def _rejected(rows: Rows) -> RejectedTable:
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
    return "\n".join([*_head(spec), *_kernels(spec, units), *_tables(spec)]) + "\n"


def _head(spec: CalibrationSpec) -> Iterator[str]:
    yield "kind: calibration"
    for name in ("name", "title", "gpu", "backend", "package", "date", "script"):
        yield f"{name}: {_quoted(getattr(spec, name))}"
    yield f"seed: {spec.seed}"


def _kernels(spec: CalibrationSpec, units: Units) -> Iterator[str]:
    if spec.kernels:
        yield "kernels:"
    for name, found in spec.kernels.items():
        rows, errors = found.rows, found.errors
        yield f"  {name}:"
        yield f"    source: {_quoted(found.source)}"
        yield f"    version: {_quoted(found.version)}"
        flags = _flow(rows.flags.items())
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
        yield f"    errors: {_flow([('rows', errors.rows), *figures.items()])}"


def _residual_lines(known: KernelResiduals) -> Iterator[str]:
    yield "    residuals:"
    yield f"      rows: {known.rows}"
    for name in ("q10", "q50", "q90"):
        yield f"      {name}: {_number(getattr(known, name))}"
    yield "      bands:" if known.bands else "      bands: []"
    for band in known.bands:
        ends = [("above", quantity(band.above, "s"))]
        ends += [("below", quantity(band.below, "s"))] if band.below is not None else []
        quantiles = [(name, _number(getattr(band, name))) for name in ("q10", "q50", "q90")]
        yield f"        - {_flow([*ends, ('rows', band.rows), *quantiles])}"


def _tables(spec: CalibrationSpec) -> Iterator[str]:
    if spec.rejected:
        yield "rejected:"
    for table in spec.rejected:
        yield f"  - kernel: {_quoted(table.kernel)}"
        yield f"    source: {_quoted(table.source)}"
        yield f"    rows: {table.rows}"
        yield f"    reason: {_quoted(table.reason)}"


def _flow(items: Iterable[tuple[str, object]]) -> str:
    return "{" + ", ".join(f"{name}: {_shown(value)}" for name, value in items) + "}"


def _shown(value: object) -> str:
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """A YAML float of four digits; never ``1e-05``, which YAML 1.2 readers disagree about."""
    shown = f"{value:.{DIGITS}g}"
    if "e" in shown:
        mantissa, _, exponent = shown.partition("e")
        shown = f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+d}"
    return shown


def quantity(value: float, unit: str) -> str:
    """A constant with its unit, as a spec reads it back: ``2.31 us``, ``0.87``."""
    if unit not in _UNITS:
        return _number(value)
    name = next(name for least, name in _UNITS[unit] if abs(value) >= least)
    return f"{_number(value / _FACTORS[name])} {name}"


def _quoted(value: object) -> str:
    """A YAML scalar that no reader takes for a number."""
    if value is None:
        return "null"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
