"""Public serving measurements beside plans.

From docs/measured/serving.json, which `make serving-accuracy` writes: the measurements are not
installed where documentation is made, and none of them is in that file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from builders.markup import code, table

FILE = Path(__file__).resolve().parents[1] / "measured" / "serving.json"
_ERRORS = ("TPOT, %", "bias, %", "in 80 %, %", "TTFT, %", "bias, %", "in 80 %, %")
_NONE = ""
_LEAST = 10


@cache
def _document() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(FILE.read_text())
    return document


def sets() -> str:
    """All rows, those without a mark, the clean ones; of both halves, and of each."""
    header = ("rows", "of them", "predicted", *_ERRORS)
    return table(header, [(row["name"], *_errors(row)) for row in _document()["sets"]])


def rules() -> str:
    """What each lint rule marks, and the error with and without it."""
    header = ("mark", "what it says", "rows", "alone", "TPOT of them, %", "TPOT of the rest, %")
    return table(
        header,
        [
            (
                code(row["rule"]),
                row["says"],
                f"{row['rows']:,}",
                f"{row['alone']:,}",
                _pair(row["marked"]["tpot"]),
                _pair(row["rest"]["tpot"]),
            )
            for row in _document()["rules"]
        ],
    )


def orders() -> str:
    """Pairs in their measured order."""
    names = {"engines": "two engines on equal work", "tensor": "two tensor-parallel degrees"}
    return table(
        ("pairs", "rows", "groups", "pairs", "right, %", "95 % interval"),
        [
            (
                words,
                name,
                f"{row[key]['groups']:,}",
                f"{row[key]['pairs']:,}",
                _percent(row[key]["right"]),
                _between(row[key]),
            )
            for key, words in names.items()
            for name, row in _document()["ranking"].items()
        ],
    )


def choices() -> str:
    """All ways to serve the same work."""
    names = {"tpot": "TPOT", "per_gpu": "GPU seconds a token"}
    header = ("by", "rows", "groups", "ways", "Kendall's tau", "first right, %", "regret, %")
    return table(
        (*header, "worst tenth, %"),
        [
            (
                words,
                name,
                f"{row[key]['groups']:,}",
                f"{row[key]['options']:,}",
                f"{row[key]['tau']:.2f}",
                *(_percent(row[key][word]) for word in ("first", "regret", "worst_tenth")),
            )
            for key, words in names.items()
            for name, row in _document()["ranking"].items()
        ],
    )


def groups(name: str) -> str:
    """Clean rows of the even half by one column, groups of ten rows or more."""
    for group in _document()["groups"]:
        if group["by"] == [name]:
            kept = [row for row in group["clean"] if row["rows"] >= _LEAST]
            rows = [(row["group"][name], *_errors(row)) for row in kept]
            return table((name, "rows", "predicted", *_ERRORS), rows)
    raise KeyError(name)


def refused() -> str:
    """Why rows are not predicted."""
    rows = [(f"{row['rows']:,}", row["reason"]) for row in _document()["refused"]]
    return table(("rows", "reason"), rows)


def _errors(row: Mapping[str, Any]) -> Sequence[str]:
    cells = [f"{row['rows']:,}", f"{row['predicted']:,}"]
    for figure in (row["tpot"], row["ttft"]):
        bias = figure["bias"]
        cells += [_pair(figure), _NONE if bias is None else f"{100 * bias:+.1f}"]
        cells += [_percent(figure["inside"], 0)]
    return cells


def _pair(figure: Mapping[str, Any]) -> str:
    if figure["median"] is None:
        return _NONE
    return f"{100 * figure['median']:.1f}/{100 * figure['mean']:.1f}"


def _between(row: Mapping[str, Any]) -> str:
    return _NONE if row["low"] is None else f"{100 * row['low']:.1f}–{100 * row['high']:.1f}"


def _percent(value: float | None, digits: int = 1) -> str:
    return _NONE if value is None else f"{100 * value:.{digits}f}"


PARTS: Mapping[str, Callable[[], str]] = {
    "sets": sets,
    "rules": rules,
    "orders": orders,
    "choices": choices,
    "refused": refused,
}
