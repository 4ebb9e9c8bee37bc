"""A served load along users, rates, batches or prompts: what users see, and where it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.charts import panels
from planner.charts.files import altair
from planner.charts.modes import scale_of
from planner.charts.theme import WIDTH, Theme, finish
from planner.plan.serving_types import Range
from planner.plan.types import Plan
from planner.serving.around import ServedAround

_HEIGHT = 150
_ALONG = {
    "users": "users at once, over all GPUs",
    "rate": "requests per second, over all GPUs",
    "batch": "batch, requests over all GPUs",
}
_BY = {"users": "users", "rate": "rate of requests", "batch": "batch"}
_KEPT = {"users": "{:,.0f} users", "rate": "{:,g} requests/s", "batch": "batch {:,.0f}"}
_PROMPT = "prompt, tokens of each request"
_LIMITS = {
    "kv": "KV cache full",
    "sequences": "most sequences",
    "states": "no place for states",
    "rate": "saturated",
}
_BEYOND = {
    "users": "users wait for room",
    "rate": "the queue grows without end",
    "batch": "does not fit",
}


def served_chart(plan: Plan, found: ServedAround, *, theme: Theme = "light") -> Any:
    """A panel a figure over one axis. Raises UsageError without Altair."""
    alt = altair()
    shown = {
        "ttft": ("time to first token", found.ttft_s),
        "tpot": ("time per output token", found.tpot_s),
        "tokens": ("output tokens/s", found.tokens_per_s),
    }
    rows, titles = _rows(found, shown)
    ends = found.values[0], found.values[-1]
    below = _ALONG[found.load] if found.axis == "batch" else _PROMPT
    last = list(shown)[-1]
    drawn = [
        alt.layer(*_marks(alt, found, theme, named=name), *panels.curve(alt, rows, name, theme))
        .encode(y=panels.up(alt, rows, name, titles[name]))
        .encode(x=panels.along(alt, ends, below if name == last else None))
        .properties(width=WIDTH, height=_HEIGHT)
        for name in shown
    ]
    by = _BY[found.load] if found.axis == "batch" else "length of prompts"
    return finish(alt.vconcat(*drawn, spacing=12), f"Serving by {by}", _about(plan, found), theme)


def _about(plan: Plan, found: ServedAround) -> list[str]:
    kept = (
        f"prompts of {found.kept:,.0f} tokens"
        if found.axis == "batch"
        else _KEPT[found.load].format(found.kept)
    )
    band = "band: 80 % interval; " if any(each.low is not None for each in found.tpot_s) else ""
    return [
        f"{plan.described['model']} on {plan.described['device']}, {kept}",
        f"{band}point: this plan; thin line and shade: {_BEYOND[found.load]}",
    ]


def _rows(
    found: ServedAround, shown: Mapping[str, tuple[str, Sequence[Range]]]
) -> tuple[panels.Rows, dict[str, str]]:
    """A row a place, and titles with units."""
    rows: panels.Rows = [
        {"at": at, "fits": fits, "here": at == found.here}
        for at, fits in zip(found.values, found.fits, strict=True)
    ]
    titles = {}
    for name, (title, ranges) in shown.items():
        factor, unit = (1.0, "")
        if name != "tokens":
            factor, unit = scale_of(max(each.value for each in ranges))
        titles[name] = f"{title}, {unit}" if unit else title
        for row, each in zip(rows, ranges, strict=True):
            low, high = each.low or each.value, each.high or each.value
            row |= {
                name: each.value / factor,
                f"{name}_low": low / factor,
                f"{name}_high": high / factor,
            }
    return rows, titles


def _marks(alt: Any, found: ServedAround, theme: Theme, *, named: str) -> Iterator[Any]:
    """The last place that fits with a shade beyond it, and M*: each is named in one panel."""
    first, last = ends = found.values[0], found.values[-1]
    if found.limit is not None and found.limit < last:
        at = max(found.limit, first)
        yield panels.shade(alt, at, last, _HEIGHT, theme)
        yield panels.rule(alt, at, [1, 0], _HEIGHT)
        if named == "tpot":
            said = at, f"{_LIMITS[found.limit_by]}: {_number(found)}"
            yield from panels.words(alt, ends, said, _HEIGHT - 8, theme)
    if named == "tokens":
        yield from panels.crossed(alt, found.crossings, ends, _HEIGHT, theme)


def _number(found: ServedAround) -> str:
    assert found.limit is not None
    whole = found.load != "rate" or found.axis == "context"
    return f"{found.limit:,.0f}" if whole else f"{found.limit:,.3g}"
