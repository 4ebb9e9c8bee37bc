"""Trends at a glance: measured over predicted, run after run, as a line of blocks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from planner.report.cells import heading, table, words

LEAST_RUNS = 3
"""Fewer have no trend."""
MOST_RUNS = 40
"""The newest that a line holds."""
LEAST_SPAN = 0.05
"""The least difference that fills the height of a line, as a share: noise should look small."""
_BLOCKS = "▁▂▃▄▅▆▇█"


def trends_view(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A line for each plan and figure with runs enough, the oldest at the left; else nothing."""
    series: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in reversed(rows):
        if row["ratio"] is not None and math.isfinite(row["ratio"]):
            series[row["plan_id"], row["statistic"], row["metric"]].append(row["ratio"])
    shown = table(("plan", "figure", "oldest to newest", "least", "most", "newest"), left=range(3))
    for (plan_id, statistic, metric), ratios in series.items():
        if len(ratios) >= LEAST_RUNS:
            drawn = ratios[-MOST_RUNS:]
            ends = (f"{value:.2f}" for value in (min(drawn), max(drawn), drawn[-1]))
            shown.add_row(words(plan_id), f"{statistic} {metric}", sparkline(drawn), *ends)
    return Group(heading("Ratio over time"), shown) if shown.row_count else Group()


def sparkline(values: Sequence[float]) -> str:
    """A block a value, the higher the larger; a narrow range sits in the middle."""
    least, most = min(values), max(values)
    middle = (least + most) / 2
    span = max(most - least, LEAST_SPAN * abs(middle)) or 1.0
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(((v - middle) / span + 0.5) * top)] for v in values)
