"""Kernels of whole models beside the measured rows of their shapes.

From docs/measured/whole-models.json, which `make accuracy` writes: the measured tables are not
installed where documentation is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from builders.accuracy import FAMILIES, GPUS
from builders.markup import code, table

FILE = Path(__file__).resolve().parents[1] / "measured" / "whole-models.json"
_ERRORS = ("median / mean, %", "bias, %", "in 80 %, %")


@cache
def _document() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(FILE.read_text())
    return document


def families() -> str:
    """A row for each family."""
    rows = {row["family"]: row for row in _document()["families"]}
    header = ("family", "asked", "exact", "between", "borrowed", *_ERRORS)
    return table(
        (*header, "held back, %", "as planned, %"),
        [
            (
                code(name),
                *(f"{rows[name][key]:,}" for key in ("kernels", "exact", "between", "borrowed")),
                *_errors(rows[name]["errors"]),
                f"{100 * rows[name]['held_back']:.1f}",
                f"{100 * rows[name]['cold']:+.1f}",
            )
            for name in FAMILIES
            if name in rows
        ],
    )


def beyond() -> str:
    """Cells that are clearly worse inside whole models."""
    rows = [row for row in _document()["cells"] if row["beyond"]]
    header = ("kernel", "GPU", "engine", "kernels", *_ERRORS, "held back, %")
    return table(
        header,
        [
            (
                code(f"{row['family']}.{row['variant']}"),
                GPUS[row["gpu"]],
                row["engine"],
                str(row["errors"]["rows"]),
                *_errors(row["errors"]),
                f"{100 * row['held_back']:.1f}",
            )
            for row in sorted(rows, key=lambda row: FAMILIES.index(row["family"]))
        ],
    )


def cases() -> str:
    """A row for each model and split."""
    header = ("model", "formats and split", "steps", "of their time, %", *_ERRORS)
    return table(
        header,
        [
            (
                code(row["model"]) if row["model"] != "all" else "all",
                row["case"],
                f"{row['steps']:,}",
                f"{100 * row['covered']:.0f}",
                *_errors(row["errors"]),
            )
            for row in _document()["cases"]
        ],
    )


def others() -> str:
    """Kernels that plans take where the tables have another one of that shape."""
    rows: Sequence[Mapping[str, Any]] = _document()["other_kernels"]
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        names = (f"{row['family']}.{row['variant']}", row["engine"], ", ".join(row["others"]))
        found.setdefault(names, []).append(f"{GPUS[row['gpu']]} {row['kernels']}")
    header = ("plans take", "engine", "tables have", "kernels by GPU")
    return table(
        header, [(code(n), e, code(o), ", ".join(gpus)) for (n, e, o), gpus in found.items()]
    )


def _errors(row: Mapping[str, float]) -> tuple[str, ...]:
    return (
        f"{100 * row['median']:.1f} / {100 * row['mean']:.1f}",
        f"{100 * row['bias']:+.1f}",
        f"{100 * row['coverage']:.0f}",
    )


PARTS: Mapping[str, Callable[[], str]] = {
    "families": families,
    "beyond": beyond,
    "cases": cases,
    "others": others,
}
"""By the word after ``whole-``."""
