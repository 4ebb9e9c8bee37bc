"""What whole runs scatter about their plans, as `planner calibrate spread` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType

from planner.report.cells import DASH, bullets, heading, share, small, table, words

_ABOUT = (
    "width: half of the 80 % interval of log(measured / predicted) that is added as squares. "
    "worth: as how many figures of reports of their own the figures count. without it, left out: "
    "share of figures inside the interval, each report counting the same; left out is by the width "
    "that all other reports give. told: what reports state of their question; those that tell it "
    "in part are judged and never learnt from. p: of the rank test that one value scatters as the "
    "other."
)
FIGURES = {"pace": "steps, tokens, requests, throughput", "ttft": "time to the first token"}
"""What the kinds of figures are called."""
OTHERS = "cards whose maker's kernels nobody measured"


def spread_view(document: Mapping[str, Any]) -> RenderableType:
    """The widths, what does not tell runs apart, and rows that say nothing."""
    columns = ("figures", "width", "reports", "cells", "figures", "worth", "without it", "left out")
    found = table(columns, left=(0,))
    kinds = [(FIGURES[name], each) for name, each in document["figures"].items()]
    others = [(f"{FIGURES[name]}: {OTHERS}", each) for name, each in document["others"].items()]
    for name, each in (*kinds, *others):
        shares = (share(each["before"]), share(each["left_out"]))
        counts = tuple(str(each[count]) for count in ("reports", "cells", "figures"))
        worth = f"{each['worth']:.1f}"
        found.add_row(words(name), f"{each['width']:.3f}", *counts, worth, *shares)
    parts: list[RenderableType] = [found, heading("By what is known of runs"), _traits(document)]
    parts.append(small(_ABOUT))
    if document["skipped"]:
        reasons = Counter(each["reason"] for each in document["skipped"])
        parts.append(heading("Rows that say nothing"))
        parts.append(bullets(f"{count} × {reason}" for reason, count in reasons.most_common()))
    file = document["file"]
    parts.append(words(f"written to {file}" if file else "not written (dry run)"))
    return Group(*parts)


def _traits(document: Mapping[str, Any]) -> RenderableType:
    columns = ("of", "by", "value", "reports", "figures", "width", "left out", "p")
    found = table(columns, left=(0, 1, 2))
    for each in document["traits"]:
        for value, reports in each["reports"].items():
            wide = each["widths"][value]
            p_value = DASH if each["p_value"] is None else f"{each['p_value']:.2g}"
            found.add_row(
                words(each["figure"]),
                words(each["name"]),
                words(value),
                str(reports),
                str(each["figures"][value]),
                DASH if wide is None else f"{wide:.3f}",
                share(each["inside"][value]),
                p_value,
            )
    return found
