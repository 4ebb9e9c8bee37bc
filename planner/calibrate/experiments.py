"""Harder questions than a random fifth of a grid: other GPUs, and shapes beyond those fitted.

Random rows of one grid are interpolation. What users live on is a GPU or a model that nobody
measured, so these experiments leave out whole GPUs and whole shapes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.calibrate import aiconfigurator, files
from planner.calibrate.devices import gpu_device
from planner.calibrate.families import family as named
from planner.calibrate.fit import Split, score, split
from planner.calibrate.residuals import Errors, errors
from planner.calibrate.solver import predict, solve
from planner.calibrate.types import Family, Floats, Mask, Pick, Rows
from planner.cost.kernels.types import Constants

LARGEST = 0.1
"""Share of rows that count as the largest."""
UNSEEN = 0.2
"""Share of model shapes that are left out."""
SAMPLE = 1000
"""Residuals kept of each transfer."""
MEAN = "mean of other architectures"


@dataclass(frozen=True)
class Transfer:
    """One GPU's measurements predicted with another's constants and its own datasheet."""

    family: str
    variant: str
    engine: str
    gpu: str
    donor: str
    same_architecture: bool
    errors: Errors
    logs: Floats
    """log(measured / predicted) of a seeded sample of rows."""


@dataclass(frozen=True)
class ShapesOut:
    """Rows of shapes that no fitted row is like, predicted with constants fitted on the others."""

    family: str
    variant: str
    engine: str
    gpu: str
    rule: str
    """``largest by bytes``, ``largest by flops``, ``unseen by shape`` …"""
    errors: Errors
    within: Errors
    """Of held-back rows that are like fitted ones: what interpolation gives."""


def leave_gpu_out(
    folder: Path, family: str, pick: Pick | None = None, *, data: Path | None = None
) -> tuple[Transfer, ...]:
    """Every GPU priced with the committed constants of every other, and with their mean.

    The mean is over GPUs of other architectures, as for a class that nobody measured.
    """
    chosen = named(family)
    tables = list(_usable(chosen, pick or Pick(), data))
    fitted = _committed(folder, tables)
    return tuple(transfer for rows in tables for transfer in _transfers(chosen, rows, fitted))


_Cells = Mapping[tuple[str, str], Mapping[str, Constants]]
"""Constants by (engine, variant), then by GPU."""


def _committed(folder: Path, tables: Iterable[Rows]) -> _Cells:
    found: dict[tuple[str, str], dict[str, Constants]] = {}
    for rows in tables:
        spec = files.load(folder, rows.gpu, rows.engine)
        if spec and (entry := spec.kernels.get(files.kernel(rows))):
            found.setdefault((rows.engine, rows.variant), {})[rows.gpu] = entry.constants
    return found


def _transfers(family: Family, rows: Rows, fitted: _Cells) -> Iterator[Transfer]:
    donors = dict(fitted.get((rows.engine, rows.variant), {}))
    donors.pop(rows.gpu, None)
    here = gpu_device(rows.gpu)
    kept = rows.take(rows.kept)
    others = [
        values
        for gpu, values in donors.items()
        if gpu_device(gpu).architecture != here.architecture
    ]
    same = {gpu: gpu_device(gpu).architecture == here.architecture for gpu in donors}
    if others:
        donors[MEAN] = mean(family, rows.variant, others)
    for donor, values in donors.items():
        predicted_s = predict(family.model, kept, here, values)
        yield Transfer(
            rows.family,
            rows.variant,
            rows.engine,
            rows.gpu,
            donor,
            same.get(donor, False),
            errors(kept.time_s, predicted_s),
            _sample(np.log(kept.time_s / predicted_s)),
        )


def _sample(logs: Floats) -> Floats:
    return np.random.default_rng(0).permutation(logs)[:SAMPLE]


def interval(
    transfers: Iterable[Transfer], *, without: str = "", same_architecture: bool = False
) -> tuple[float, float]:
    """The 80 % interval of log(measured / predicted) under borrowed constants.

    Of GPUs priced with a GPU of their architecture, or with the mean of other architectures.
    ``without`` leaves one GPU out, so that its own rows can judge the interval.
    """
    logs = [
        each.logs
        for each in transfers
        if without not in {each.gpu, each.donor} and _borrowed(each, same_architecture)
    ]
    low, high = np.quantile(np.concatenate(logs), (0.1, 0.9))
    return float(low), float(high)


def _borrowed(transfer: Transfer, same_architecture: bool) -> bool:
    return transfer.same_architecture if same_architecture else transfer.donor == MEAN


def covered(transfers: Sequence[Transfer], *, same_architecture: bool = False) -> dict[str, float]:
    """By GPU, the share of its rows inside the interval that all other GPUs give."""
    found: dict[str, float] = {}
    for gpu in sorted({each.gpu for each in transfers}):
        mine = [
            each.logs
            for each in transfers
            if each.gpu == gpu and _borrowed(each, same_architecture)
        ]
        if mine:
            low, high = interval(transfers, without=gpu, same_architecture=same_architecture)
            logs = np.concatenate(mine)
            found[gpu] = float(np.mean((logs >= low) & (logs <= high)))
    return found


def mean(family: Family, variant: str, all_values: Sequence[Constants]) -> dict[str, float]:
    """Constants of a class: geometric means of the positive ones, plain means of the others."""
    found: dict[str, float] = {}
    for word in family.model.variants[variant].constants:
        values = np.array([each[word.name] for each in all_values])
        geometric = word.low > 0
        found[word.name] = float(np.exp(np.log(values).mean()) if geometric else values.mean())
    return found


def bare_roofline(
    families: Iterable[str], pick: Pick | None = None, *, data: Path | None = None
) -> tuple[ShapesOut, ...]:
    """Errors of the bare roofline, max(FLOPs / peak, bytes / bandwidth), on all rows.

    What planners without kernel models do. Only families whose `axes` say bytes and FLOPs.
    """
    found = []
    for family in map(named, families):
        for rows in _usable(family, pick or Pick(), data):
            kept, axes = rows.take(rows.kept), family.axes(rows.take(rows.kept))
            if {"bytes", "flops"} <= axes.sizes.keys():
                gpu = gpu_device(rows.gpu)
                rates = gpu.matrix_flops_per_s
                peak = rates.get(axes.operand) or gpu.peak("bf16")
                compute_s = axes.sizes["flops"] / peak
                least_s = np.maximum(compute_s, axes.sizes["bytes"] / gpu.bandwidth_bytes_per_s)
                off = errors(kept.time_s, least_s)
                cell = (rows.family, rows.variant, rows.engine, rows.gpu)
                found.append(ShapesOut(*cell, "nothing: bare roofline", off, off))
    return tuple(found)


def leave_shapes_out(
    family: str, pick: Pick | None = None, *, seed: int = 0, data: Path | None = None
) -> tuple[ShapesOut, ...]:
    """Fits without the largest tenth by each size, and without a fifth of the model shapes.

    The family's `axes` say what sizes and shapes its rows have.
    """
    chosen = named(family)
    return tuple(
        _shapes_out(chosen, rows, rule, out, seed)
        for rows in _usable(chosen, pick or Pick(), data)
        for rule, out in left_out(chosen, rows, seed)
    )


def left_out(family: Family, rows: Rows, seed: int) -> Iterator[tuple[str, Mask]]:
    """By rule, the rows that a fit must not see."""
    axes = family.axes(rows)
    for name, size in axes.sizes.items():
        yield f"largest by {name}", size > np.quantile(size[rows.kept], 1 - LARGEST)
    for name, code in axes.groups.items():
        distinct = np.unique(code)
        count = max(1, round(UNSEEN * len(distinct)))
        unseen = np.random.default_rng(seed).permutation(distinct)[:count]
        yield f"unseen by {name}", np.isin(code, unseen)


def _shapes_out(family: Family, rows: Rows, rule: str, out: Mask, seed: int) -> ShapesOut:
    device = gpu_device(rows.gpu)
    inside = dataclasses.replace(rows, kept=rows.kept & ~out)
    parts = split(inside, seed=seed)
    values = solve(
        family.model,
        rows.take(parts.fitted),
        device,
        starts=family.starts(rows.take(parts.fitted), device),
        seed=seed,
    )
    outside = np.flatnonzero(rows.kept & out)
    beyond = score(family.model, rows, device, values, Split(parts.fitted, parts.drawn, outside))
    within = score(family.model, rows, device, values, parts)
    return ShapesOut(
        rows.family, rows.variant, rows.engine, rows.gpu, rule, beyond.errors, within.errors
    )


def _usable(family: Family, pick: Pick, data: Path | None) -> Iterator[Rows]:
    for rows in family.tables(data or aiconfigurator.root(), pick):
        if not rows.rejected and rows.kept.any():
            yield rows
