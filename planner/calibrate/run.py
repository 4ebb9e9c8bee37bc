"""Fits families of kernels to the installed tables and writes the calibration files.

``python -m planner.calibrate.run fit --family gemm --out catalog/calibrations --date 2026-11-30``
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from planner.calibrate import aiconfigurator, files, kernel_csv
from planner.calibrate.devices import gpu_device
from planner.calibrate.families import FAMILIES
from planner.calibrate.families import family as named
from planner.calibrate.fit import LEAST, Fit, fit
from planner.calibrate.types import Family, Pick, Rows
from planner.cost.kernels.types import Constants, Variant
from planner.cost.types import Device
from planner.errors import PlannerError

COMMAND = "planner calibrate fit --gpu {gpu} --engine {engine} --date {date} --seed {seed}"
CSV = ".csv"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """What became of one GPU and engine."""

    gpu: str
    engine: str
    fits: list[Fit] = field(default_factory=list)
    rejected: list[Rows] = field(default_factory=list)


def read(
    families: Sequence[Family], pick: Pick, data: Path | None = None
) -> Iterator[tuple[Family, Rows]]:
    """Every table of the families that was asked for, linted.

    ``data`` is a folder of operator tables or a CSV file of the user's own kernels; by default the
    installed wheel's.
    """
    if data is not None and data.suffix == CSV:
        for each in families:
            yield from ((each, rows) for rows in kernel_csv.tables(data, each, pick))
        return
    where = data or aiconfigurator.root()
    for each in families:
        yield from ((each, rows) for rows in each.tables(where, pick))


def run_fit(
    families: Iterable[str],
    pick: Pick,
    out: Path,
    *,
    date: str,
    seed: int = 0,
    data: Path | None = None,
    progress: Progress = lambda _line: None,
) -> tuple[Cell, ...]:
    """Fit every cell of the named families (none named: all) and write one file per cell.

    ``date`` is the day to print in the files; nothing here asks the clock. Raises UsageError
    for an unknown family, and where the wheel of tables or SciPy is missing.
    """
    chosen = [named(name) for name in (tuple(families) or FAMILIES.names())]
    package = (
        data.name if data else f"{aiconfigurator.PACKAGE}=={aiconfigurator.installed_version()}"
    )
    cells = _fitted(chosen, pick, data, seed, progress)
    for cell in cells:
        script = COMMAND.format(gpu=cell.gpu, engine=cell.engine, date=date, seed=seed)
        files.write(
            out,
            cell.gpu,
            cell.engine,
            fits=cell.fits,
            rejected=cell.rejected,
            provenance=files.Provenance(package, date, script, seed),
            units=constant_units,
        )
    return tuple(cells)


def constant_units(kernel: str) -> dict[str, str]:
    """The unit of each constant of a kernel such as ``gemm.bf16``; none of an unknown family."""
    name, _, variant = kernel.partition(".")
    family = FAMILIES.get(name)
    if family is None:
        return {}
    return {word.name: word.unit for word in family.model.variants[variant].constants}


def _fitted(
    families: Sequence[Family], pick: Pick, data: Path | None, seed: int, progress: Progress
) -> list[Cell]:
    cells: dict[tuple[str, str], Cell] = {}
    for family, rows in read(families, pick, data):
        cell = cells.setdefault((rows.gpu, rows.engine), Cell(rows.gpu, rows.engine))
        if rows.rejected or rows.kept.sum() < 2 * LEAST:
            reason = rows.rejected or f"{int(rows.kept.sum())} sound rows are too few to fit"
            cell.rejected.append(replace(rows, rejected=reason))
            progress(f"{rows.cell}: {reason}")
            continue
        known = lent(family.model.variants[rows.variant], rows, cell.fits)
        cell.fits.append(
            _fit(family, rows, gpu_device(rows.gpu), seed=seed, known=known, progress=progress)
        )
    return list(cells.values())


def lent(variant: Variant, rows: Rows, fits: Iterable[Fit]) -> Constants:
    """What the cell's fit of the variant's lender has of it; a reader yields the lender first."""
    lender = (rows.family, variant.lender)
    for each in fits:
        if (each.rows.family, each.rows.variant) == lender:
            return {name: each.constants[name] for name in variant.lent}
    return {}


def _fit(
    family: Family, rows: Rows, gpu: Device, *, seed: int, known: Constants, progress: Progress
) -> Fit:
    began = time.perf_counter()
    starts = family.starts(rows, gpu)
    found = fit(family.model, rows, gpu, seed=seed, starts=starts, lent=known)
    off = found.errors
    progress(
        f"{rows.cell}: {off.rows} held rows, median {off.median:.1%}, mean {off.mean:.1%}, "
        f"bias {off.bias:+.1%}, covered {off.coverage:.0%}, {time.perf_counter() - began:.1f} s"
    )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The module as a command: exit code 0, or 2 with a sentence on what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m planner.calibrate.run")
    parser.add_argument("action", choices=["fit"])
    parser.add_argument("--family", action="append", default=[], help="by default all")
    parser.add_argument("--gpu", action="append", default=[], help="by default all")
    parser.add_argument("--engine", action="append", default=[], help="by default all")
    parser.add_argument("--out", type=Path, required=True, help="folder of calibration files")
    parser.add_argument("--date", required=True, help="the day to print in the files")
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args(arguments)
    pick = Pick(frozenset(said.gpu), frozenset(said.engine))
    try:
        run_fit(said.family, pick, said.out, date=said.date, seed=said.seed, progress=_to_stderr)
    except PlannerError as error:
        _to_stderr(str(error))
        return error.exit_code
    return 0


def _to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
