"""Servers that others have measured, beside what is predicted for them.

From docs/measured/served-runs.json, which `make public-runs` writes: planning every row takes
longer than all other documentation. Of a row it holds the figures; what ran stands in the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median
from typing import Any, cast

from builders.markup import code, table
from builders.runs import number, source
from planner.report.cases import FIGURES
from planner.report.spread import FIGURES as SPREADS
from planner.report.spread import OTHERS
from planner.resources import folder
from planner.spec.load import load_file
from planner.spec.types import SpreadSpec

FILE = Path(__file__).resolve().parents[1] / "measured" / "served-runs.json"
SPREAD = FILE.with_name("spread.json")
_SHORT = {"pace": "pace", "ttft": "first token"}
_BY = {
    "told": "what is told",
    "load": "load",
    "experts": "experts",
    "constants": "constants",
    "figure": "figure",
}
_ORDER = ("ttft_ms", "tpot_ms", "latency_s", "throughput_tok_s")


@cache
def _document() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(FILE.read_text())
    return document


def errors() -> str:
    """Errors by engine and figure, and of all figures of an engine."""
    header = ("engine", "figure", "figures", "median ratio", "median error, %", "mean error, %")
    rows = [
        (
            group["group"]["backend.name"],
            FIGURES[group["group"]["figure"]],
            f"{group['figures']}",
            f"{group['median_ratio']:.2f}",
            *(f"{100 * group[name]:.0f}" for name in ("median", "mean")),
            f"{100 * group['bias']:+.0f}",
            f"{100 * group['inside']:.0f}" if group["inside"] is not None else "",
        )
        for group in _document()["groups"]
        if group["figures"]
    ]
    rows += [_all(engine, list(ratios)) for engine, ratios in groupby(_ratios(), itemgetter(0))]
    return table((*header, "bias, %", "in 80 %, %"), rows)


def _ratios() -> list[tuple[str, float]]:
    """Each figure's engine and ratio, sorted."""
    return sorted(
        (row["cells"]["backend.name"], each["ratio"])
        for row in _document()["rows"]
        for each in row["figures"]
    )


def _all(engine: str, found: list[tuple[str, float]]) -> tuple[str, ...]:
    ratios = [ratio for _, ratio in found]
    offs = [1 / ratio - 1 for ratio in ratios]
    sizes = [abs(off) for off in offs]
    errors = (f"{100 * median(sizes):.0f}", f"{100 * fmean(sizes):.0f}")
    bias = f"{100 * median(offs):+.0f}"
    return (engine, "all", f"{len(ratios)}", f"{median(ratios):.2f}", *errors, bias, "")


def listed() -> str:
    """Every figure."""
    header = ("run", "model", "GPU", "engine", "load", "figure", "predicted", "80 % interval")
    last = ("measured", "ratio", "ours", "source")
    return table((*header, *last), list(_rows()))


def _rows() -> Iterator[tuple[str, ...]]:
    for row in _document()["rows"]:
        cells = row["cells"]
        figures = {each["figure"]: each for each in row["figures"]}
        names = [name for name in _ORDER if name in figures]
        for place, name in enumerate(names):
            each = figures[name]
            low, high = each["low"], each["high"]
            ends = "" if low is None else f"{number(low)} to {number(high)}"
            said = (cells["model"], _gpu(cells), _engine(cells), _load(cells))
            what = (FIGURES[name], number(each["predicted"]), ends, number(each["measured"]))
            first = place == 0
            yield (
                code(row["id"]) if first else "",
                *(said if first else ("",) * len(said)),
                *what,
                f"{each['ratio']:.2f}",
                cells["assumed"] if first else "",
                source(cells) if first else "",
            )


def _gpu(cells: Mapping[str, str]) -> str:
    ways = [int(cells[f"parallel.{name}"] or 1) for name in ("tensor", "data")]
    count = ways[0] * ways[1]
    return f"{count} × {cells['gpu']}" if count > 1 else cells["gpu"]


def _engine(cells: Mapping[str, str]) -> str:
    return " ".join(filter(None, (cells["backend.name"], cells["backend.version"])))


def _load(cells: Mapping[str, str]) -> str:
    users = f"{cells['workload.concurrency']} users"
    if cells["workload.rate"]:
        users = f"{cells['workload.rate']} requests/s"
    upto = "up to " if cells["workload.spread"] else ""
    lengths = "/".join(f"{int(cells[f'workload.{name}']):,}" for name in ("input", "output"))
    total = cells["workload.requests"]
    return f"{users}, {upto}{lengths}" + (f", {int(total):,} requests" if total else "")


def spread() -> str:
    """The widths that plans add."""
    file = folder("catalog") / "spreads" / "whole-runs.yaml"
    spec = cast("SpreadSpec", load_file(file, "spread"))
    header = ("of", "width", "reports", "cells", "figures", "worth", "inside without it, %")
    kinds = [(SPREADS[name], each) for name, each in spec.figures.items()]
    kinds += [(f"{SPREADS[name]}: {OTHERS}", each) for name, each in spec.others.items()]
    rows = [
        (
            name,
            f"{each.width:.3f}",
            *(str(count) for count in (each.reports, each.cells, each.figures)),
            f"{each.worth:.0f}",
            *(_percent(share) for share in (each.before, each.left_out, each.left_out_figures)),
        )
        for name, each in kinds
    ]
    return table((*header, "left out, %", "of figures, %"), rows)


@cache
def _spread() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(SPREAD.read_text())
    return document


def spread_traits() -> str:
    """Whether what is known of runs tells how far they are off."""
    rows = []
    for each in _spread()["traits"]:
        for place, (value, reports) in enumerate(each["reports"].items()):
            width, p_value = each["widths"][value], each["p_value"]
            rows.append(
                (
                    *((_SHORT[each["figure"]], _BY[each["name"]]) if place == 0 else ("", "")),
                    FIGURES.get(value, value),
                    f"{reports}",
                    f"{each['figures'][value]}",
                    "" if width is None else f"{width:.2f}",
                    _percent(each["inside"][value]),
                    "" if p_value is None or place else f"{p_value:.2f}",
                )
            )
    header = ("of", "by", "value", "reports", "figures", "their own width", "left out, %", "p")
    return table(header, rows)


def spread_reports() -> str:
    """Each report, and how the width of the others holds it."""
    makers = ", ".join(_spread()["vendors"])
    judged = [("", each) for each in _spread()["reports"]]
    judged += [(f", not of {makers}", each) for each in _spread()["other_reports"]]
    rows = [
        (
            _SHORT[each["figure"]] + whose,
            each["told"],
            each["report"].split("@")[0],
            f"{each['figures']}",
            "" if each["worth"] is None else f"{each['worth']:.1f}",
            f"{each['needed']:.2f}",
            _percent(each["inside"]),
        )
        for whose, each in judged
    ]
    return table(("of", "told", "report", "figures", "worth", "needed", "left out, %"), rows)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


PARTS = {
    "errors": errors,
    "rows": listed,
    "spread": spread,
    "spread-traits": spread_traits,
    "spread-reports": spread_reports,
}
