"""Tables of kernels of whole models beside the measured rows of their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from planner.report.cells import heading, small, table, words

_ABOUT = (
    "asked: distinct kernels that plans ask for. exact: their shape was measured; between: two "
    "neighbours in tokens were; borrowed: of another GPU or engine. Errors are of the benchmark's "
    "kernel, caches warm. held back: median error of the same variants on all rows that no fit "
    "has seen. as planned: median of planned / measured - 1, caches cold."
)
_ERRORS = ("median", "mean", "bias", "in 80 %")


def whole_models_view(body: Mapping[str, Any]) -> RenderableType:
    """What `planner validate --whole-models` prints."""
    if not body["families"]:
        return small("no kernel of a whole model was measured; see --family, --gpu and --engine")
    beyond = [row for row in body["cells"] if row["beyond"]]
    return Group(
        kernel_table(body["families"]),
        small(_ABOUT),
        heading("Clearly worse than held-back rows, or biased"),
        kernel_table(beyond) if beyond else small("none"),
        heading("Sums over the matched kernels of a step"),
        case_table(body["cases"]),
        heading("Measured under another kernel than the plan's"),
        _others(body["other_kernels"]) if body["other_kernels"] else small("none"),
    )


def kernel_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Errors of kernels, by family or by cell."""
    counts = ("asked", "exact", "between", "borrowed")
    names = ("kernel", "GPU", "engine")
    found = table((*names, *counts, *_ERRORS, "held back", "as planned"), left=(0, 1, 2))
    for row in rows:
        whole = row["variant"] == "all"
        kernel = row["family"] if whole else f"{row['family']}.{row['variant']}"
        found.add_row(
            *map(words, (kernel, row["gpu"], row["engine"])),
            *(f"{row[name]:,}" for name in ("kernels", "exact", "between", "borrowed")),
            *_errors(row["errors"]),
            f"{row['held_back']:.1%}",
            f"{row['cold']:+.1%}",
        )
    return found


def case_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Errors of sums, by model and split."""
    found = table(("model", "case", "steps", "of its time", *_ERRORS), left=(0, 1))
    for row in rows:
        found.add_row(
            *map(words, (row["model"], row["case"])),
            f"{row['steps']:,}",
            f"{row['covered']:.0%}",
            *_errors(row["errors"]),
        )
    return found


def _others(rows: Sequence[Mapping[str, Any]]) -> Table:
    found = table(("plan takes", "GPU", "engine", "kernels", "measured as"), left=(0, 1, 2, 4))
    for row in rows:
        names = (f"{row['family']}.{row['variant']}", row["gpu"], row["engine"])
        found.add_row(*map(words, names), f"{row['kernels']:,}", words(", ".join(row["others"])))
    return found


def _errors(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['median']:.1%}",
        f"{row['mean']:.1%}",
        f"{row['bias']:+.1%}",
        f"{row['coverage']:.0%}",
    )
