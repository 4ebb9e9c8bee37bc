"""Decode steps along batch or context: time and throughput, M*, and where the KV cache ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.charts.files import altair
from planner.charts.modes import scale_of
from planner.charts.theme import INKS, WIDTH, Theme, data, decades, finish, hue
from planner.plan.around import Around, Crossing
from planner.plan.types import Plan

_HEIGHT = 190
_MOST_CROSSINGS = 4
_TITLES = {"batch": "batch, sequences over all GPUs", "context": "context, tokens of each sequence"}


def sweep_chart(plan: Plan, found: Around, *, theme: Theme = "light") -> Any:
    """Two panels over one axis. Raises UsageError without Altair."""
    alt = altair()
    factor, unit = scale_of(max(found.step_s))
    rows = list(_rows(found, factor))
    panels = [
        alt.layer(*_marks(alt, found, theme, above=name == "step"), *_curve(alt, rows, name, theme))
        .encode(y=_up(alt, rows, name, title))
        .encode(x=_along(alt, found, titled=name == "tokens"))
        .properties(width=WIDTH, height=_HEIGHT)
        for name, title in (("step", f"time of a step, {unit}"), ("tokens", "output tokens/s"))
    ]
    whole = alt.vconcat(*panels, spacing=12)
    kept = f"context {found.kept:,}" if found.axis == "batch" else f"batch {found.kept:,}"
    subtitle = [
        f"{plan.described['model']} on {plan.described['device']}, {kept}",
        "band: 80 % interval; point: this plan; thin line and shade: does not fit",
    ]
    return finish(whole, f"Decode steps by {found.axis}", subtitle, theme)


def _rows(found: Around, factor: float) -> Iterator[dict[str, Any]]:
    batches = found.values if found.axis == "batch" else [found.kept] * len(found.values)
    columns = zip(
        found.values, batches, found.step_s, found.low_s, found.high_s, found.fits, strict=True
    )
    for value, batch, step, low, high, fits in columns:
        yield {
            "at": value,
            "step": step / factor,
            "step_low": (step if low is None else low) / factor,
            "step_high": (step if high is None else high) / factor,
            "tokens": batch / step,
            "tokens_low": batch / (step if high is None else high),
            "tokens_high": batch / (step if low is None else low),
            "fits": fits,
            "here": value == found.here,
        }


def _along(alt: Any, found: Around, *, titled: bool) -> Any:
    ends = (found.values[0], found.values[-1])
    axis = alt.Axis(values=decades(*ends), format=",~r", labels=titled, grid=False)
    scale = alt.Scale(type="log", domain=ends, nice=False)
    return alt.X("at:Q", title=_TITLES[found.axis] if titled else None, axis=axis, scale=scale)


def _up(alt: Any, rows: list[dict[str, Any]], name: str, title: str) -> Any:
    low = min(row[f"{name}_low"] for row in rows) / 1.15
    high = max(row[f"{name}_high"] for row in rows) * 1.15
    axis = alt.Axis(values=decades(low, high), format=",~g", minExtent=50)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    return alt.Y(f"{name}:Q", title=title, axis=axis, scale=scale)


def _curve(alt: Any, rows: list[dict[str, Any]], name: str, theme: Theme) -> Iterator[Any]:
    """Interval, line and the plan's own point; what does not fit is a thin dashed line."""
    blue = hue(theme, "blue")
    band = data(alt, rows).mark_area(opacity=0.22, color=blue, clip=True)
    yield band.encode(y=alt.Y(f"{name}_low:Q"), y2=f"{name}_high:Q")
    last = max((place for place, row in enumerate(rows) if row["fits"]), default=-1)
    inside = data(alt, rows[: last + 1]).mark_line(strokeWidth=2.4, color=blue)
    yield inside
    beyond = data(alt, rows[max(last, 0) :]).mark_line(
        strokeWidth=1.2, strokeDash=[4, 3], color=blue
    )
    yield beyond
    own = [row for row in rows if row["here"]]
    tips = [alt.Tooltip("at:Q", title="at"), alt.Tooltip(f"{name}:Q", format=",.4~g")]
    yield (
        data(alt, own)
        .mark_point(
            shape="circle", size=110, filled=True, opacity=1, color=hue(theme, "vermillion")
        )
        .encode(tooltip=tips)
    )


def _marks(alt: Any, found: Around, theme: Theme, *, above: bool) -> Iterator[Any]:
    """The end of the KV cache with a shade beyond it, and M*: each is named in one panel."""
    last = found.values[-1]
    if found.limit is not None and found.limit < last:
        row = [{"at": max(found.limit, found.values[0]), "end": last}]
        shade = data(alt, row).mark_rect(opacity=0.12, color=INKS[theme].faint)
        yield shade.encode(x2="end:Q", y=alt.YValue(0), y2=alt.Y2Value(_HEIGHT))
        yield _rule(alt, row, [1, 0])
        if above:
            yield _words(alt, row[0]["at"], f"KV cache full: {found.limit:,}", _HEIGHT - 8)
    for place, each in enumerate(found.crossings[:_MOST_CROSSINGS]):
        yield _rule(alt, [{"at": each.batch}], [2, 3])
        if not above:
            said = f"M* {each.batch:,.0f} {_who(each)}"
            yield _words(alt, each.batch, said, _HEIGHT - 8 - 15 * place)


def _rule(alt: Any, row: list[dict[str, Any]], dash: list[int]) -> Any:
    rule = data(alt, row).mark_rule(strokeDash=dash, strokeWidth=1.3)
    return rule.encode(y=alt.YValue(0), y2=alt.Y2Value(_HEIGHT))


def _words(alt: Any, at: float, text: str, level: float) -> Any:
    words = data(alt, [{"at": at, "said": text}]).mark_text(align="right", dx=-5)
    return words.encode(y=alt.YValue(level), text="said:N")


def _who(each: Crossing) -> str:
    first, *others = each.nodes
    return f"({first}, +{len(others)})" if others else f"({first})"
