"""How well the committed constants do on the rows that no fit has seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.calibrate import aiconfigurator, files
from planner.calibrate.devices import gpu_device
from planner.calibrate.families import FAMILIES
from planner.calibrate.families import family as named
from planner.calibrate.fit import split
from planner.calibrate.residuals import EDGES_S, LEAST_ROWS, Errors
from planner.calibrate.solver import predict
from planner.calibrate.types import Family, Floats, Mask, Pick, Rows
from planner.spec.types import CalibrationSpec, KernelCalibration
from planner.units import show_seconds

KEYS = ("family", "variant", "gpu", "engine", "band")
"""What errors may be grouped by."""


@dataclass(frozen=True)
class Held:
    """Held-back rows of one cell and variant, predicted with the committed constants."""

    family: str
    variant: str
    gpu: str
    engine: str
    measured_s: Floats
    predicted_s: Floats
    inside: Mask
    """Whether the measured time lies in the 80 % interval."""


@dataclass(frozen=True)
class ErrorRow:
    """Errors of a group of held-back rows; a key that was not grouped by says ``all``."""

    family: str
    variant: str
    gpu: str
    engine: str
    band: str
    """Predicted time, as in ``10 us - 30 us``."""
    errors: Errors


def validate_kernels(
    folder: Path,
    families: Iterable[str] = (),
    pick: Pick | None = None,
    *,
    by: Sequence[str] = KEYS,
    data: Path | None = None,
) -> tuple[ErrorRow, ...]:
    """Errors of the constants in ``folder`` on held-back rows, grouped by some of `KEYS`.

    The rows are split with the seed that each file names, so none was fitted. Cells without a
    committed entry are left out. Raises UsageError where the wheel of tables is missing.
    """
    found = list(held_back(folder, families, pick or Pick(), data=data))
    return tuple(tabulate(found, by))


def held_back(
    folder: Path, families: Iterable[str], pick: Pick, *, data: Path | None = None
) -> Iterator[Held]:
    """The held-back rows of every committed variant, predicted."""
    where = data or aiconfigurator.root()
    for name in tuple(families) or FAMILIES.names():
        family = named(name)
        for rows in family.tables(where, pick):
            spec = files.load(folder, rows.gpu, rows.engine)
            entry = spec.kernels.get(files.kernel(rows)) if spec else None
            if spec and entry and not rows.rejected:
                yield _held(family, rows, spec, entry)


def _held(family: Family, rows: Rows, spec: CalibrationSpec, entry: KernelCalibration) -> Held:
    held = rows.take(split(rows, seed=spec.seed).held)
    predicted_s = predict(family.model, held, gpu_device(rows.gpu), entry.constants)
    low, high = files.residuals(entry.residuals).interval(predicted_s)
    logs = np.log(held.time_s / predicted_s)
    inside = (logs >= low) & (logs <= high)
    return Held(rows.family, rows.variant, rows.gpu, rows.engine, held.time_s, predicted_s, inside)


def tabulate(held: Sequence[Held], by: Sequence[str] = KEYS) -> Iterator[ErrorRow]:
    """Errors of groups in order of their keys; groups of few rows are left out."""
    bands = _bands() if "band" in by else [("all", 0.0, float("inf"))]
    words = [key for key in KEYS if key != "band"]

    def key(one: Held) -> tuple[str, ...]:
        return tuple(str(getattr(one, word)) if word in by else "all" for word in words)

    for group, members in itertools.groupby(sorted(held, key=key), key):
        measured_s, predicted_s, inside = _joined(list(members))
        family, variant, gpu, engine = group
        for band, low, high in bands:
            here = (predicted_s >= low) & (predicted_s < high)
            if here.sum() >= LEAST_ROWS:
                off = _errors(measured_s[here], predicted_s[here], inside[here])
                yield ErrorRow(family, variant, gpu, engine, band, off)


def _joined(members: Sequence[Held]) -> tuple[Floats, Floats, Mask]:
    return (
        np.concatenate([one.measured_s for one in members]),
        np.concatenate([one.predicted_s for one in members]),
        np.concatenate([one.inside for one in members]),
    )


def _errors(measured_s: Floats, predicted_s: Floats, inside: Mask) -> Errors:
    off = predicted_s / measured_s - 1
    return Errors(
        len(off),
        float(np.median(np.abs(off))),
        float(np.mean(np.abs(off))),
        float(np.median(off)),
        float(np.mean(inside)),
    )


def _bands() -> list[tuple[str, float, float]]:
    return [
        (
            f"{show_seconds(low)} - {show_seconds(high)}"
            if high < np.inf
            else f"{show_seconds(low)} -",
            low,
            high,
        )
        for low, high in itertools.pairwise(EDGES_S)
    ]
