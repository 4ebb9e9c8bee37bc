"""Kernels that a user timed himself, as a CSV file.

Columns: ``family, variant, gpu, engine, version``, the fields of the family's shape, and the time
as ``time_us`` or ``time_s``. Further columns are left aside. GPUs and engines by catalogue name.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibrate import lint
from planner.calibrate.families import FAMILIES
from planner.calibrate.types import Family, Pick, Rows
from planner.cost.kernels.attention import AttentionShape
from planner.cost.kernels.collective import CollectiveShape
from planner.cost.kernels.elementwise import ElementwiseShape
from planner.cost.kernels.gemm import GemmShape
from planner.cost.kernels.recurrent import RecurrentShape
from planner.errors import Fault, SpecError, Where
from planner.registry import nearest

SHAPES: dict[str, type[Any]] = {
    "gemm": GemmShape,
    "attention_prefill": AttentionShape,
    "attention_decode": AttentionShape,
    "collective": CollectiveShape,
    "elementwise": ElementwiseShape,
    "recurrent": RecurrentShape,
}
"""Families whose shapes a plain row of numbers can say."""
CELL = ("family", "variant", "gpu", "engine")
_TIMES = {"time_us": 1e-6, "time_s": 1.0}
_Lines = list[tuple[int, dict[str, str]]]


def tables(file: Path, family: Family, pick: Pick) -> Iterator[Rows]:
    """The file's rows of one family, by cell and variant. Raises SpecError with every fault."""
    lines = [line for line in _lines(file) if line[1]["family"] == family.name]
    cells = dict.fromkeys(tuple(row[name] for name in CELL) for _, row in lines)
    for cell in cells:
        _, variant, gpu, engine = cell
        if pick.wants(gpu, engine):
            mine = [line for line in lines if tuple(line[1][name] for name in CELL) == cell]
            yield _rows(file, family, variant, mine)


def _lines(file: Path) -> _Lines:
    """Rows with their line numbers, after the header was checked."""
    with file.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        header = list(reader.fieldnames or ())
        faults = [
            Fault(Where(str(file), 1, 1), f"column '{name}' is missing", _offer(name, header))
            for name in CELL
            if name not in header
        ]
        if not set(_TIMES) & set(header):
            faults.append(Fault(Where(str(file), 1, 1), "column 'time_us' or 'time_s' is missing"))
        if faults:
            raise SpecError(faults)
        lines = [(number, row) for number, row in enumerate(reader, start=2)]
    unknown = [
        Fault(
            Where(str(file), number, 1),
            f"no kernel family '{row['family']}' can be read from a CSV file",
            f"one of {', '.join(SHAPES)}",
        )
        for number, row in lines
        if row["family"] not in SHAPES or FAMILIES.get(row["family"]) is None
    ]
    if unknown:
        raise SpecError(unknown)
    return lines


def _offer(name: str, header: Sequence[str]) -> str | None:
    guess = nearest(name, list(header))
    return f"did you mean '{guess}'?" if guess else None


def _rows(file: Path, family: Family, variant: str, lines: _Lines) -> Rows:
    _, first = lines[0]
    try:
        family.model.variants[variant]
    except KeyError:
        place = Where(str(file), lines[0][0], 1)
        message = f"family '{family.name}' has no variant '{variant}'"
        raise SpecError([Fault(place, message)]) from None
    kind = SHAPES[family.name]
    columns = {
        field.name: _numbers(file, lines, field.name, field.default)
        for field in dataclasses.fields(kind)
    }
    unit = next(name for name in _TIMES if name in first)
    time_s = _numbers(file, lines, unit, dataclasses.MISSING) * _TIMES[unit]
    flags = {"non-positive": lint.non_positive(time_s)}
    return Rows(
        family.name,
        first["gpu"],
        first["engine"],
        first.get("version") or "",
        variant,
        file.name,
        kind(**columns),
        time_s,
        flags,
        lint.kept(flags, len(time_s)),
    )


def _numbers(file: Path, lines: _Lines, name: str, default: Any) -> Any:
    """A column as numbers; its default where the file has no such column."""
    if name not in lines[0][1] and default is not dataclasses.MISSING:
        return np.full(len(lines), float(default))
    faults, values = [], []
    for number, row in lines:
        try:
            values.append(float(row.get(name) or "missing"))
        except ValueError:
            said = row.get(name) or "nothing"
            message = f"column '{name}' needs a number, got {said}"
            faults.append(Fault(Where(str(file), number, 1), message))
    if faults:
        raise SpecError(faults)
    return np.array(values)
