"""What whole runs scatter about their plans, as `planner calibrate spread` prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType

from planner.report.cells import DASH, bullets, heading, share, small, table, words

_ABOUT = (
    "width: half of the 80 % interval of log(measured / predicted) that is added as squares. "
    "without it, left out: share of figures inside the interval, each report counting the same; "
    "left out is by the width that all other reports give. p: of the rank test that one value of "
    "what a plan knows scatters as the other."
)
FIGURES = {"pace": "steps, tokens, requests, throughput", "ttft": "time to the first token"}
"""What the kinds of figures are called."""


def spread_view(document: Mapping[str, Any]) -> RenderableType:
    """The widths, what does not tell runs apart, and rows that say nothing."""
    found = table(("figures", "width", "reports", "figures", "without it", "left out"), left=(0,))
    for name, each in document["figures"].items():
        shares = (share(each["before"]), share(each["left_out"]))
        counts = (str(each["reports"]), str(each["figures"]))
        found.add_row(words(FIGURES[name]), f"{each['width']:.3f}", *counts, *shares)
    parts: list[RenderableType] = [found, heading("What plans know of runs"), _traits(document)]
    parts.append(small(_ABOUT))
    if document["skipped"]:
        reasons = Counter(each["reason"] for each in document["skipped"])
        parts.append(heading("Rows that say nothing"))
        parts.append(bullets(f"{count} × {reason}" for reason, count in reasons.most_common()))
    file = document["file"]
    parts.append(words(f"written to {file}" if file else "not written (dry run)"))
    return Group(*parts)


def _traits(document: Mapping[str, Any]) -> RenderableType:
    found = table(("figures", "by", "value", "reports", "width", "p"), left=(0, 1, 2))
    for each in document["traits"]:
        for value, reports in each["reports"].items():
            wide = each["widths"][value]
            p_value = DASH if each["p_value"] is None else f"{each['p_value']:.2g}"
            found.add_row(
                words(FIGURES[each["figure"]]),
                words(each["name"]),
                words(value),
                str(reports),
                DASH if wide is None else f"{wide:.3f}",
                p_value,
            )
    return found
