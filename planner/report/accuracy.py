"""Tables of errors: predictions against measured kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from planner.report.cells import DASH, small, table, words

_ERRORS = ("rows", "median", "mean", "bias", "in 80 %")
_UNSEEN = "Rows that no fit has seen. "
_ABOUT = (
    "median, mean: |predicted / measured - 1|. bias: its median with "
    "sign. in 80 %: share inside the predicted interval."
)


def fits_view(rows: Sequence[Mapping[str, Any]], out: str) -> RenderableType:
    """What `planner calibrate fit` fitted, and where it went."""
    if not rows:
        return small("no measured kernels match; see --family, --gpu and --engine")
    return Group(fit_table(rows), small(f"{_UNSEEN}{_ABOUT} Written to {out}."))


def fit_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Errors of each fit on rows that it has not seen."""
    found = table(("GPU", "engine", "kernel", *_ERRORS), left=(0, 1, 2))
    for row in rows:
        names = (words(row[name]) for name in ("gpu", "engine", "kernel"))
        found.add_row(*names, *_errors(row))
    return found


def errors_view(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> RenderableType:
    """Errors by the keys they are grouped by, as `planner validate` prints them."""
    if not rows:
        return small("no calibrated kernels match; see `planner catalog list calibrations`")
    found = table((*keys, *_ERRORS), left=range(len(keys)))
    for row in rows:
        found.add_row(*(words(row[key]) for key in keys), *_errors(row["errors"]))
    return Group(found, small(_UNSEEN + _ABOUT))


def beyond_view(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Errors on GPUs and shapes that no fit has seen: what users live on."""
    if not rows:
        return small("nothing to leave out here; see --family, --gpu and --engine")
    found = table(("kernel", "engine", "GPU", "left out", *_ERRORS), left=(0, 1, 2, 3))
    for row in rows:
        what = row.get("rule") or f"for {row['donor']}"
        names = (f"{row['family']}.{row['variant']}", row["engine"], row["gpu"], what)
        found.add_row(*map(words, names), *_errors(row["errors"]))
    return Group(found, small(_ABOUT))


def _errors(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['rows']:,}",
        f"{row['median']:.1%}",
        f"{row['mean']:.1%}",
        f"{row['bias']:+.1%}",
        DASH if math.isnan(row["coverage"]) else f"{row['coverage']:.0%}",
    )
