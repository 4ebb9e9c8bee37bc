"""Public static batches beside plans.

From docs/measured/static.json, which `make static-accuracy` writes, so that making documentation
plans none of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from builders.markup import code, table

FILE = Path(__file__).resolve().parents[1] / "measured" / "static.json"
_ERRORS = ("rows", "error, %", "bias, %", "in 80 %, %", "bare roofline, %")


@cache
def _document() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(FILE.read_text())
    return document


def sets() -> str:
    """All rows and those without a mark, of both halves and of each."""
    return table(("rows", *_ERRORS[1:], "of them"), [_set(row) for row in _document()["sets"]])


def _set(row: Mapping[str, Any]) -> tuple[str, ...]:
    count, *errors = _errors(row)
    return (row["name"], *errors, count)


def marks() -> str:
    """What each rule marks."""
    return table(
        ("mark", "what it says", "rows", "error of them, %"),
        [
            (code(row["rule"]), row["says"], str(row["rows"]), _pair(row["errors"]))
            for row in _document()["marks"]
        ],
    )


def groups(key: str) -> str:
    """Even rows without a mark, by one column."""
    rows = _document()["by"][key]
    return table((key, *_ERRORS), [(row["name"], *_errors(row)) for row in rows])


def learnt() -> str:
    """What ten runs teach of all others of their GPU and engine: the draws, and their middle."""
    header = (
        "GPU", "engine", "rows left", "before, %", "after, %", "of the odd ones: before", "after",
        "what was learnt",
    )  # fmt: skip
    return table(header, [_cell(row) for row in _document()["learnt"]])


def _cell(row: Mapping[str, Any]) -> tuple[str, ...]:
    draws = row["draws"]
    counts = sorted({draw["rest"]["after"]["rows"] for draw in draws})
    words = dict.fromkeys(", ".join(map(code, draw["terms"])) or "nothing" for draw in draws)
    figures = (
        _spread([draw[half][when]["median"] for draw in draws])
        for half in ("rest", "odd")
        for when in ("before", "after")
    )
    return (row["gpu"], row["engine"], _range(counts), *figures, "; ".join(words))


def _range(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _spread(values: Sequence[float]) -> str:
    ends = f"{_percent(min(values))} to {_percent(max(values))}"
    return f"{_percent(median(values))} ({ends})"


def _errors(row: Mapping[str, Any]) -> tuple[str, ...]:
    roofline, inside = row["roofline"], row["inside"]
    share = "" if inside is None else f"{100 * inside:.0f}"
    return (str(row["rows"]), _pair(row), _percent(row["bias"]), share, _pair(roofline))


def _pair(row: Mapping[str, Any]) -> str:
    return f"{_percent(row['median'])}/{_percent(row['mean'])}" if row["rows"] else ""


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


PARTS: Mapping[str, Callable[[], str]] = {"sets": sets, "marks": marks, "learnt": learnt}
