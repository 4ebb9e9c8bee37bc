"""Tables of public serving measurements beside plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from planner.report.cells import DASH, bullets, heading, small, table, words

_ABOUT = (
    "Errors: |predicted / measured - 1|, median / mean. bias: its median with sign, above nought "
    "is predicted too slow. in 80 %: share inside the predicted interval. Nothing is fitted to "
    "these rows; look for mistakes in the even half alone."
)
_CLEAN = (
    "clean: no duplicates, no data-parallel attention, at most 8 GPUs, batch = users, fewer than "
    "1,024 of them, nothing faster than the bare roofline"
)
_FIGURES = ("rows", "predicted", "TPOT", "bias", "in 80 %", "TTFT", "bias", "in 80 %")


def silicon_view(body: Mapping[str, Any]) -> RenderableType:
    """What `planner validate --source aiconfigurator` prints."""
    if not body["rows"]:
        return small("there is no row of that half")
    parts: list[RenderableType] = [_sets(body["sets"])]
    parts += [small(_CLEAN), heading("marks"), _rules(body["rules"])]
    parts += [heading("order"), _ranking(body["ranking"])]
    for group in body["groups"]:
        parts += [heading(f"clean rows by {', '.join(group['by'])}"), _grouped(group)]
    if body["refused"]:
        lines = [f"{each['rows']:,}: {each['reason']}" for each in body["refused"]]
        parts += [heading("refused"), bullets(lines)]
    return Group(*parts, small(_ABOUT))


def _sets(rows: Sequence[Mapping[str, Any]]) -> Table:
    found = table(("set", *_FIGURES))
    for row in rows:
        found.add_row(words(row["name"]), *_figures(row))
    return found


def _grouped(group: Mapping[str, Any]) -> Table:
    names = group["by"]
    found = table((*names, *_FIGURES), left=range(len(names)))
    for row in group["clean"]:
        found.add_row(*(words(row["group"][name]) for name in names), *_figures(row))
    return found


def _figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    cells = [f"{row['rows']:,}", f"{row['predicted']:,}"]
    for figure in (row["tpot"], row["ttft"]):
        cells += [pair(figure), _percent(figure["bias"], sign="+"), _percent(figure["inside"])]
    return tuple(cells)


def pair(figure: Mapping[str, Any]) -> str:
    """Median and mean error, as in 9.1 / 14.0 %."""
    if figure["median"] is None:
        return DASH
    return f"{100 * figure['median']:.1f} / {100 * figure['mean']:.1f} %"


def _rules(rows: Sequence[Mapping[str, Any]]) -> Table:
    headers = ("mark", "rows", "alone", "TPOT of them", "TPOT of the rest", "what it says")
    found = table(headers, left=(0, 5), whole=(0,))
    for row in rows:
        found.add_row(
            words(row["rule"]),
            f"{row['rows']:,}",
            f"{row['alone']:,}",
            pair(row["marked"]["tpot"]),
            pair(row["rest"]["tpot"]),
            words(row["says"]),
        )
    return found


def _ranking(both: Mapping[str, Any]) -> Table:
    found = table(("what", "of", "groups", "pairs", "right", "95 %", "tau", "regret"), left=(0, 1))
    for name, row in both.items():
        for what, key in (("two engines, TPOT", "engines"), ("tensor-parallel, TPOT", "tensor")):
            each = row[key]
            ends = DASH if each["low"] is None else f"{each['low']:.0%}–{each['high']:.0%}"
            cells = (f"{each['groups']:,}", f"{each['pairs']:,}", _percent(each["right"], digits=1))
            found.add_row(words(what), words(name), *cells, ends, DASH, DASH)
        for what, key in (("all ways, TPOT", "tpot"), ("all ways, per GPU", "per_gpu")):
            each = row[key]
            tau = DASH if each["tau"] is None else f"{each['tau']:.2f}"
            cells = (f"{each['groups']:,}", DASH, _percent(each["first"]))
            regret = _percent(each["regret"], digits=1)
            found.add_row(words(what), words(name), *cells, DASH, tau, regret)
    return found


def _percent(value: float | None, sign: str = "", digits: int = 0) -> str:
    return DASH if value is None else f"{value:{sign}.{digits}%}"
