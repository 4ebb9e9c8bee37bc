"""SQLite exports of Nsight Systems: nanoseconds; a table is there only if there was data for it.

Tables as documented for ``nsys export --type sqlite``. Columns differ between versions, and a CUDA
graph is one row of its own table unless it was traced node by node.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from planner.importers.document import Document
from planner.importers.fields import Fields
from planner.importers.lengths import stated
from planner.importers.refusal import ImportRefused
from planner.importers.registry import Importer, register
from planner.importers.sequence import of_kernels
from planner.importers.trace import PROFILED, Span, busy, devices, is_step, span, steps, totals
from planner.plan.runs import Run

NAME = "nsys_sqlite"
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_NODES = "trace with --cuda-graph-trace=node"
_ROLLBACK = b"\x01\x01"
"""Read and write version of a file without write-ahead log, which memory cannot have."""
_VERSIONS = slice(18, 20)


def _claims(document: Document) -> bool:
    return document.is_sqlite


def _read(document: Document) -> tuple[Run, ...]:
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            raw = bytearray(document.raw)
            raw[_VERSIONS] = _ROLLBACK
            connection.deserialize(bytes(raw))
            return (_run(document, Export(document, connection)),)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise ImportRefused(
            document.where, f"the database is damaged: {error}", "export it again"
        ) from error


class Export:
    """The tables of one export, asked by name."""

    def __init__(self, document: Document, connection: sqlite3.Connection) -> None:
        self.document = document
        self._connection = connection
        self._columns: dict[str, set[str]] = {}
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            rows = connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
            self._columns[str(name)] = {str(column) for (column,) in rows}

    def columns(self, table: str) -> set[str]:
        """The columns of a table; none when there is no such table."""
        return self._columns.get(table, set())

    def rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        """What a query gives."""
        return iter(self._connection.execute(query))

    def text(self, table: str, column: str) -> str:
        """SQL of a column that holds a text, or the number of one in StringIds."""
        if "StringIds" not in self._columns:
            return f"{table}.{column}"
        strings = f"(SELECT value FROM StringIds WHERE id = {table}.{column})"  # noqa: S608 - fixed words
        return f"COALESCE({strings}, {table}.{column})"


def _run(document: Document, export: Export) -> Run:
    notes = [PROFILED, *_graphs(export)]
    kernels = list(_kernels(document, export))
    if not kernels:
        raise ImportRefused(document.where, "the export holds no kernel", _NODES)
    ranges = list(_ranges(document, export))
    found = of_kernels(kernels, ranges)
    notes += [busy(kernels), *devices(kernels), found.note]
    stepped = found.steps(steps(ranges))
    context = stated({"gpu": _gpu(document, export), "step.decode.batch": stepped.batch})
    return Run(
        document.source(NAME, f"Nsight Systems {_version(document, export)}".strip()),
        stepped.metrics,
        stepped.samples,
        context,
        totals(kernels),
        tuple(notes),
        found.traced,
    )


def _kernels(document: Document, export: Export) -> Iterator[Span]:
    columns = export.columns(_KERNELS)
    name = next((word for word in ("demangledName", "shortName") if word in columns), None)
    if name is None or not {"start", "end"} <= columns:
        return
    lane = "deviceId" if "deviceId" in columns else "0"
    query = f"SELECT {export.text(_KERNELS, name)}, start, end, {lane} FROM {_KERNELS}"  # noqa: S608 - fixed words
    yield from (_span(document, _KERNELS, row) for row in export.rows(query))


def _span(document: Document, table: str, row: tuple[Any, ...]) -> Span:
    keys = ("name", "start", "end", "lane")
    fields = Fields(dict(zip(keys, row, strict=True)), document.where, f"{table}.")
    start, end = fields.number("start"), fields.number("end")
    if end < start:
        raise fields.refusal("end", f"is {end:.0f} ns, before its start")
    name = row[0] if isinstance(row[0], int) else fields.text("name")
    return span(fields, str(name), start * 1e-9, (end - start) * 1e-9, row[3])


def _ranges(document: Document, export: Export) -> Iterator[Span]:
    """NVTX ranges that have an end."""
    columns = export.columns("NVTX_EVENTS")
    if not {"start", "end", "text"} <= columns:
        return
    text = "text"
    if "textId" in columns:
        text = f"COALESCE(text, {export.text('NVTX_EVENTS', 'textId')})"
    lane = "globalTid" if "globalTid" in columns else "0"
    query = f"SELECT {text}, start, end, {lane} FROM NVTX_EVENTS WHERE end IS NOT NULL"  # noqa: S608 - fixed words
    for row in export.rows(query):
        if isinstance(row[0], str) and is_step(row[0]):
            yield _span(document, "NVTX_EVENTS", row)


def _graphs(export: Export) -> Iterator[str]:
    if not export.columns(_GRAPHS):
        return
    (count,) = next(export.rows(f"SELECT COUNT(*) FROM {_GRAPHS}"))  # noqa: S608 - fixed words
    if count:
        yield f"{count} CUDA Graph launches were traced whole, without their kernels; {_NODES}"


def _gpu(document: Document, export: Export) -> str | None:
    if "name" not in export.columns("TARGET_INFO_GPU"):
        return None
    names = list(export.rows("SELECT DISTINCT name FROM TARGET_INFO_GPU"))
    return Fields({"name": names[0][0]}, document.where).text("name") if len(names) == 1 else None


def _version(document: Document, export: Export) -> str:
    if not {"name", "value"} <= export.columns("META_DATA_EXPORT"):
        return ""
    query = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_PRODUCT_VERSION'"
    row = next(export.rows(query), None)
    return (Fields({"value": row[0]}, document.where).text("value") or "") if row else ""


register(Importer(NAME, "nsys SQLite export", "bytes", _claims, _read))
