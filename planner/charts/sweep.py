"""Steps along batch or length: time and throughput, M*, and where the KV cache ends."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from planner.charts.files import altair
from planner.charts.modes import scale_of
from planner.charts.theme import INKS, WIDTH, Theme, data, decades, finish, hue
from planner.plan.around import Around, Crossing
from planner.plan.types import Plan

_HEIGHT = 190
_MOST_CROSSINGS = 4
_TITLES = {
    ("decode", "batch"): "batch, sequences over all GPUs",
    ("decode", "context"): "context, tokens of each sequence",
    ("prefill", "batch"): "batch, prompts over all GPUs",
    ("prefill", "context"): "prompt, tokens of each sequence",
}
_LENGTHS = {"decode": "context", "prefill": "length of prompts"}
_RATES = {"decode": "output tokens/s", "prefill": "prompt tokens/s"}


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
        for name, title in (("step", f"time of a step, {unit}"), ("tokens", _RATES[found.kind]))
    ]
    whole = alt.vconcat(*panels, spacing=12)
    other = "batch" if found.axis == "context" else _LENGTHS[found.kind]
    kept = f"{other} {found.kept:,}"
    along = "batch" if found.axis == "batch" else _LENGTHS[found.kind]
    subtitle = [
        f"{plan.described['model']} on {plan.described['device']}, {kept}",
        "band: 80 % interval; point: this plan; thin line and shade: does not fit",
    ]
    return finish(whole, f"{found.kind.capitalize()} steps by {along}", subtitle, theme)


def _rows(found: Around, factor: float) -> Iterator[dict[str, Any]]:
    times = zip(found.step_s, found.low_s, found.high_s, strict=True)
    columns = zip(found.values, times, found.tokens_per_s, found.fits, strict=True)
    for value, (step, low, high), tokens, fits in columns:
        yield {
            "at": value,
            "step": step / factor,
            "step_low": (step if low is None else low) / factor,
            "step_high": (step if high is None else high) / factor,
            "tokens": tokens,
            "tokens_low": tokens if high is None else tokens * step / high,
            "tokens_high": tokens if low is None else tokens * step / low,
            "fits": fits,
            "here": value == found.here,
        }


def _along(alt: Any, found: Around, *, titled: bool) -> Any:
    ends = (found.values[0], found.values[-1])
    axis = alt.Axis(values=decades(*ends), format=",~r", labels=titled, grid=False)
    scale = alt.Scale(type="log", domain=ends, nice=False)
    return alt.X(
        "at:Q", title=_TITLES[found.kind, found.axis] if titled else None, axis=axis, scale=scale
    )


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
            yield _words(alt, found, row[0]["at"], f"KV cache full: {found.limit:,}", _HEIGHT - 8)
    shown = [each for each in found.crossings if found.values[0] <= each.at <= last]
    for place, each in enumerate(shown[:_MOST_CROSSINGS]):
        yield _rule(alt, [{"at": each.at}], [2, 3])
        if not above:
            said = f"M* {each.tokens:,.0f}{_unit(each)} {_who(each)}"
            yield _words(alt, found, each.at, said, _HEIGHT - 8 - 15 * place)


def _rule(alt: Any, row: list[dict[str, Any]], dash: list[int]) -> Any:
    rule = data(alt, row).mark_rule(strokeDash=dash, strokeWidth=1.3)
    return rule.encode(y=alt.YValue(0), y2=alt.Y2Value(_HEIGHT))


def _words(alt: Any, found: Around, at: float, text: str, level: float) -> Any:
    """Beside a rule, on the side with more room."""
    first, last = found.values[0], found.values[-1]
    left = math.log(at / first) < _LEFT * math.log(last / first)
    words = data(alt, [{"at": at, "said": text}])
    marks = words.mark_text(align="left" if left else "right", dx=5 if left else -5)
    return marks.encode(y=alt.YValue(level), text="said:N")


_LEFT = 0.4
"""A rule in this part of the axis has its name at the right."""


def _unit(each: Crossing) -> str:
    """Told where the axis counts something else than a replica's tokens."""
    return "" if each.at == each.tokens else " tokens"


def _who(each: Crossing) -> str:
    first, *others = each.nodes
    return f"({first}, +{len(others)})" if others else f"({first})"
