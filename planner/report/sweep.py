"""The best rows of a sweep, as `planner sweep` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from planner.report.cells import DASH, bound, bullets, heading, small, table, words

_FIGURES = {
    "step_ms": "step ms",
    "ttft_ms": "ttft ms",
    "tpot_ms": "tpot ms",
    "latency_s": "latency s",
}
_RATES = {"tok_s": "tok/s", "tok_s_per_gpu": "per GPU", "usd_per_mtok": "USD/Mtok"}
_SHOWN_REASONS = 10
_ABOUT = "80 %: interval of the step. per GPU: output tokens a second and GPU."


def sweep_view(document: Mapping[str, Any], columns: Sequence[str]) -> RenderableType:
    """The best rows under what was varied, counts, and why rows are missing.

    ``columns`` are the cells that tell rows apart.
    """
    rows = document["rows"]
    parts: list[RenderableType] = [words(_counts(document))]
    if rows:
        parts += [heading(f"best by {document['sort']}"), _rows(rows, columns), small(_ABOUT)]
    reasons = document["reasons"]
    if reasons:
        said = [f"{_rows_said(each['rows'])}: {each['error']}" for each in reasons[:_SHOWN_REASONS]]
        more = len(reasons) - _SHOWN_REASONS
        parts += [heading("wrong"), bullets([*said, *([f"… {more:,} more"] if more > 0 else [])])]
    return Group(*parts)


def _counts(document: Mapping[str, Any]) -> str:
    fitting = document["fitting"]
    counted = f"{_rows_said(document['count'])}, {fitting:,} fit{'s' if fitting == 1 else ''}"
    errors = document["errors"]
    wrong = f", {errors:,} {'is' if errors == 1 else 'are'} wrong" if errors else ""
    return f"{counted}{wrong}" + (f"; written to {document['out']}" if document["out"] else "")


def _rows_said(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> RenderableType:
    figures = [name for name in _FIGURES if any(name in row["predicted"] for row in rows)]
    if "ttft_ms" not in figures and "tpot_ms" in figures:
        figures.remove("tpot_ms")  # a decode step is the time of a token
    rates = [name for name in _RATES if any(row[name] is not None for row in rows)]
    names = [name.rpartition(".")[2] for name in columns]
    heads = [*names, *map(_FIGURES.__getitem__, figures)]
    heads[len(names) + 1 : len(names) + 1] = ["80 %"]
    heads += [*map(_RATES.__getitem__, rates), "fits", "bound"]
    found = table(heads, left=(*range(len(names)), len(heads) - 1), whole=(len(heads) - 1,))
    for row in rows:
        values = [_number(_value(row, name)) for name in figures]
        values[1:1] = [_interval(row, figures[0])]
        found.add_row(
            *(words(_cell(row, name)) for name in columns),
            *values,
            *(_number(row[name]) for name in rates),
            words("yes" if row["fits"] else "no", "" if row["fits"] else "red"),
            bound(row["bound"]),
        )
    return found


def _cell(row: Mapping[str, Any], name: str) -> str:
    return str(row["id"] if name == "id" else row["cells"].get(name) or DASH)


def _value(row: Mapping[str, Any], name: str) -> float | None:
    found = row["predicted"].get(name)
    return found["value"] if found else None


def _interval(row: Mapping[str, Any], name: str) -> str:
    found = row["predicted"].get(name)
    if not found or found["low"] is None:
        return DASH
    return f"{_number(found['low'])}–{_number(found['high'])}"


def _number(value: float | None) -> str:
    if value is None:
        return DASH
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"  # noqa: PLR2004
