"""Panels of sweeps: a curve with its interval over a logarithmic axis, and the marks along it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from planner.charts.theme import INKS, Theme, data, decades, hue
from planner.plan.around import Crossing

Rows = list[dict[str, Any]]
"""A row has ``at``, ``fits``, ``here``, and of each figure the value, ``_low`` and ``_high``."""
Ends = tuple[float, float]
_MOST_CROSSINGS = 4
_LEFT = 0.4
"""A rule in this part of the axis has its name at the right."""


def along(alt: Any, ends: Ends, title: str | None) -> Any:
    """The axis at the bottom; without title it has no labels either."""
    axis = alt.Axis(values=decades(*ends), format=",~r", labels=title is not None, grid=False)
    scale = alt.Scale(type="log", domain=ends, nice=False)
    return alt.X("at:Q", title=title, axis=axis, scale=scale)


def up(alt: Any, rows: Rows, name: str, title: str) -> Any:
    """The axis of a figure, wide enough for its interval."""
    low = min(row[f"{name}_low"] for row in rows) / 1.15
    high = max(row[f"{name}_high"] for row in rows) * 1.15
    axis = alt.Axis(values=decades(low, high), format=",~g", minExtent=50)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    return alt.Y(f"{name}:Q", title=title, axis=axis, scale=scale)


def curve(alt: Any, rows: Rows, name: str, theme: Theme) -> Iterator[Any]:
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


def shade(alt: Any, at: float, last: float, height: int, theme: Theme) -> Any:
    """What lies beyond a limit."""
    marks = data(alt, [{"at": at, "end": last}]).mark_rect(opacity=0.12, color=INKS[theme].faint)
    return marks.encode(x2="end:Q", y=alt.YValue(0), y2=alt.Y2Value(height))


def rule(alt: Any, at: float, dash: Sequence[int], height: int) -> Any:
    """An upright line."""
    marks = data(alt, [{"at": at}]).mark_rule(strokeDash=list(dash), strokeWidth=1.3)
    return marks.encode(y=alt.YValue(0), y2=alt.Y2Value(height))


def words(
    alt: Any, ends: Ends, said: tuple[float, str], level: float, theme: Theme
) -> Iterator[Any]:
    """Beside the rule at a place, on the side with more room; other lines stop around them."""
    at, text = said
    first, last = ends
    left = math.log(at / first) < _LEFT * math.log(last / first)
    place = {"align": "left" if left else "right", "dx": 5 if left else -5}
    ground = {"stroke": INKS[theme].ground, "strokeWidth": 4, "strokeJoin": "round"}
    for look in (ground, {}):
        marks = data(alt, [{"at": at, "said": text}]).mark_text(**place, **look)
        yield marks.encode(y=alt.YValue(level), text="said:N")


def crossed(
    alt: Any, crossings: Sequence[Crossing], ends: Ends, height: int, named: Theme | None = None
) -> Iterator[Any]:
    """M* of weight products, the first few, by dotted rules; with a theme by names too."""
    shown = [each for each in crossings if ends[0] <= each.at <= ends[1]][:_MOST_CROSSINGS]
    yield from (rule(alt, each.at, [2, 3], height) for each in shown)
    if named is None:
        return
    for place, each in enumerate(shown):
        said = f"M* {each.tokens:,.0f}{_unit(each)} {_who(each)}"
        yield from words(alt, ends, (each.at, said), height - 8 - 15 * place, named)


def _unit(each: Crossing) -> str:
    """Told where the axis counts something else than a replica's tokens."""
    return "" if each.at == each.tokens else " tokens"


def _who(each: Crossing) -> str:
    first, *others = each.nodes
    return f"({first}, +{len(others)})" if others else f"({first})"
