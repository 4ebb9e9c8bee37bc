"""genai-perf exports, JSON and CSV (also the CSV of aiperf): a unit beside each metric.

Keys as in genai_perf 0.0.16. The CSV has two tables, statistics and single values, and writes
thousands with a comma.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any

from planner.errors import Where
from planner.importers import labelled
from planner.importers.document import Document
from planner.importers.fields import Fields
from planner.importers.lengths import stated
from planner.importers.refusal import ImportRefused
from planner.importers.registry import Importer, register
from planner.plan.runs import Run

NAME = "genai_perf"
TABLE = "genai_perf_csv"
_ROW_NAME = re.compile(r"(?P<name>[^()]+?)\s*\((?P<unit>[^()]*)\)")
_NUMBER = re.compile(r"-?\d{1,3}(?:,\d{3})*(?:\.\d+)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def is_summary(document: Document) -> bool:
    """Whether the first object maps known figures to their values and unit."""
    first = document.records[0].values if document.records else {}
    return any(
        isinstance(first.get(key), dict) and "unit" in first[key] for key in labelled.FIGURES
    )


def _claims(document: Document) -> bool:
    return is_summary(document) and not {"aiperf_version", "was_cancelled"} & (
        document.records[0].values.keys()
    )


def _read(document: Document) -> tuple[Run, ...]:
    record = document.only
    labelled.refuse_without_requests(record)
    return (_run(document, NAME, "genai-perf", record, _context(record)),)


def _run(
    document: Document, name: str, tool: str, record: Fields, said: dict[str, int | float | str]
) -> Run:
    metrics = tuple(labelled.metrics(record))
    if not metrics:
        raise ImportRefused(document.where, "holds no latency and no throughput")
    context = {**said, **labelled.lengths(record)}
    return Run(document.source(name, tool), metrics, {}, context, (), (labelled.NOTE,))


def _context(record: Fields) -> dict[str, int | float | str]:
    config = record.inside("input_config")
    names = config.array("model_names") if config else []
    stimulus = config.down("perf_analyzer", "stimulus") if config else None
    model = Fields({"model_names": names[0]}, record.where, "input_config.") if names else None
    return stated(
        {
            "model": model.text("model_names") if model and len(names) == 1 else None,
            "workload.concurrency": stimulus.positive_count("concurrency") if stimulus else None,
        }
    )


def _claims_table(document: Document) -> bool:
    return document.text.lstrip().startswith(("Metric,avg,", "Metric,Value"))


def _read_table(document: Document) -> tuple[Run, ...]:
    values: dict[str, Any] = {}
    for where, header, row in _rows(document):
        match = _ROW_NAME.fullmatch(row[0])
        if not match:
            continue
        if len(row) != len(header):
            raise ImportRefused(where, f"{len(row)} cells below {len(header)} columns")
        key = match["name"].lower().replace(" ", "_")
        cells = zip(header[1:], row[1:], strict=True)
        values[key] = {
            "unit": match["unit"],
            **{_column(column): _number(where, cell) for column, cell in cells if cell},
        }
    record = Fields(values, document.where)
    labelled.refuse_without_requests(record)
    return (_run(document, TABLE, "genai-perf or aiperf", record, {}),)


def _rows(document: Document) -> Iterator[tuple[Where, list[str], list[str]]]:
    reader = csv.reader(document.text.splitlines())
    header: list[str] = []
    try:
        for row in reader:
            if row and row[0] == "Metric":
                header = row
            elif row and header:
                yield Where(document.file, reader.line_num, 1), header, row
    except csv.Error as error:
        raise ImportRefused(Where(document.file, reader.line_num, 1), f"no CSV: {error}") from error


def _column(title: str) -> str:
    return "avg" if title == "Value" else title


def _number(where: Where, cell: str) -> float:
    if not _NUMBER.fullmatch(cell):
        raise ImportRefused(where, f"{cell!r} is no number")
    return float(cell.replace(",", ""))


register(Importer(NAME, "genai-perf", "json", _claims, _read))
register(Importer(TABLE, "genai-perf and aiperf CSV", "text", _claims_table, _read_table))
