"""Whole runs that others have published, beside what is predicted for them today.

Nothing was fitted to them. They are the rows of docs/measured/public-runs.csv, planned and judged
as `planner validate docs/measured/public-runs.csv` does.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from builders.markup import table
from planner.cli.common.case_groups import Groups, case_document
from planner.desk.cases import Answered, Planner
from planner.report.cases import FIGURES
from planner.spec.cases import open_cases
from planner.spec.catalog import Catalog

FOLDER = Path(__file__).resolve().parents[1] / "measured"
RUNS, LEFT_OUT = FOLDER / "public-runs.csv", FOLDER / "left-out.csv"
GRID = "qwen3-8b-a100-b"
"""How the ids of one grid of batches and contexts begin."""
_TRAP = "trap"
_BASES = {
    "stated": "as the report says",
    "machine": "form of the card is ours",
    "version": "version of the engine is ours",
    "load": "batch, lengths or engine are ours",
}
_NO_ADDRESS = "public report, no address kept"


@cache
def _answered() -> tuple[Answered, ...]:
    with open_cases(RUNS) as runs:
        planner = Planner(Catalog.standard())
        return tuple(planner.answered(case) for case in runs.cases)


def _rows(basis: str) -> Iterator[dict[str, Any]]:
    for row in _answered():
        document = case_document(row)
        if document["cells"]["basis"] == basis:
            yield document


def grid() -> str:
    """Batches and contexts of one model on one GPU."""
    header = ("batch", "context", "predicted", "80 % interval", "measured", "ratio", "verdict")
    rows = []
    for row in _rows("version"):
        if row["id"].startswith(GRID):
            (figure,) = row["figures"]
            load = (row["cells"]["workload.batch"], f"{int(row['cells']['workload.input']):,}")
            rows.append((*load, *_figure(figure, f" {FIGURES[figure['figure']].split()[-1]}")))
    return table(header, rows)


def others(basis: str) -> str:
    """Every other run of a basis."""
    header = ("model", "GPU", "engine", "load", "figure", "predicted", "80 % interval")
    last = ("measured", "ratio", "verdict", "ours", "source")
    rows = []
    for row in _rows(basis):
        if row["id"].startswith(GRID):
            continue
        cells = row["cells"]
        for figure in row["figures"]:
            names = (cells["model"], _gpu(cells), _engine(cells), _load(cells))
            measured = (FIGURES[figure["figure"]], *_figure(figure, ""))
            ours = [cells["assumed"], "" if row["fits"] else "does not fit by the plan"]
            rows.append((*names, *measured, "; ".join(filter(None, ours)), source(cells)))
    return table((*header, *last), rows)


def refused() -> str:
    """Runs that are none of the deployment they seem to be of, and how that shows."""
    header = ("model", "GPU", "load", "measured", "predicted", "verdict", "reason", "source")
    rows = []
    for row in _rows(_TRAP):
        cells = row["cells"]
        (figure,) = row["figures"]
        what = FIGURES[figure["figure"]]
        amounts = (f"{what} {number(figure['measured'])}", number(figure["predicted"]))
        names = (cells["model"], _gpu(cells), _load(cells))
        rows.append((*names, *amounts, row["verdict"], row["reason"], source(cells)))
    return table(header, rows)


def errors() -> str:
    """Errors by engine and by how much of a row is ours."""
    whole, parts = Groups(("backend.name",)), Groups(("backend.name", "basis"))
    for row in _answered():
        if row.case.cells["basis"] != _TRAP:
            whole.add(row)
            parts.add(row)
    header = ("engine", "what is ours", "rows", "figures", "median ratio", "median error, %")
    last = ("mean error, %", "bias, %", "in 80 %, %")
    rows = []
    for group in whole.documents():
        engine = group["group"]["backend.name"]
        mine = [part for part in parts.documents() if part["group"]["backend.name"] == engine]
        rows.append(_errors(group, engine, "all"))
        rows += [_errors(part, "", _BASES[part["group"]["basis"]]) for part in mine]
    return table((*header, *last), rows)


def _errors(group: dict[str, Any], engine: str, what: str) -> tuple[str, ...]:
    return (
        engine,
        what,
        f"{group['rows']}",
        f"{group['figures']}",
        f"{group['median_ratio']:.2f}",
        *(f"{100 * group[name]:.0f}" for name in ("median", "mean")),
        f"{100 * group['bias']:+.0f}",
        f"{100 * group['inside']:.0f}",
    )


def left_out() -> str:
    """Measured reports that became no row, and why."""
    with LEFT_OUT.open(encoding="utf-8", newline="") as stream:
        rows = [
            (row["engine"], row["model"], row["gpu"], row["why"], source(row))
            for row in csv.DictReader(stream)
        ]
    return table(("engine", "model", "GPU", "why it is no row", "source"), rows)


def _figure(figure: dict[str, Any], unit: str) -> tuple[str, ...]:
    low, high = figure["low"], figure["high"]
    return (
        number(figure["predicted"]) + unit,
        f"{number(low)} to {number(high)}",
        number(figure["measured"]) + unit,
        f"{figure['ratio']:.2f}",
        figure["verdict"],
    )


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"  # noqa: PLR2004


def _gpu(cells: dict[str, str]) -> str:
    count = cells["parallel.tensor"]
    return f"{count} × {cells['gpu']}" if count else cells["gpu"]


def _engine(cells: dict[str, str]) -> str:
    flags = {name: text for name, text in cells.items() if name.startswith("backend.flags.")}
    said = [name.rpartition(".")[2] for name, text in flags.items() if text == "true"]
    said += [f"{name.rpartition('.')[2]} {text}" for name, text in flags.items() if text.isdigit()]
    words = " ".join(part for part in (cells["backend.name"], cells["backend.version"]) if part)
    return ", ".join((words, *said))


def _load(cells: dict[str, str]) -> str:
    formats = (cells[f"precision.{name}"] for name in ("weights", "kv_cache"))
    narrow = [text for text in formats if text and text not in {"bf16", "fp16"}]
    said = ", ".join(dict.fromkeys(narrow))
    if cells["workload.batch"]:
        load = " ".join(
            f"{int(cells[f'workload.{name}']):,} {word}"
            for name, word in (("batch", "×"), ("input", "in"), ("output", "out"))
        )
    elif cells["step.decode.batch"]:
        load = f"{cells['step.decode.batch']} × decode at {int(cells['step.decode.context']):,}"
    else:
        load = f"{cells['step.prefill.batch']} × prefill of {int(cells['step.prefill.tokens']):,}"
    return f"{load}, {said}" if said else load


def source(row: dict[str, str]) -> str:
    date = row["date"]
    if row["source"] == _NO_ADDRESS:
        return f"report of {date}" if date else "undated report"
    return f"[{date or 'undated'}]({row['source']})"


PARTS = {"grid": grid, "errors": errors, "refused": refused, "left-out": left_out}
