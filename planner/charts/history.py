"""Predicted and measured over time as a chart: a panel per figure, a colour per plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from planner.charts.files import altair
from planner.charts.theme import INKS, Theme, finish
from planner.errors import UsageError
from planner.plan.runs import UNITS
from planner.units import show_seconds

_TITLES: Mapping[str, str] = {
    "step": "Time of a step",
    "ttft": "Time to first token (TTFT)",
    "tpot": "Time per output token (TPOT)",
    "itl": "Inter-token latency (ITL)",
    "latency": "End-to-end latency",
    "output_throughput": "Output throughput",
    "total_throughput": "Throughput, prompts included",
}
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_WIDTH, _HEIGHT = 640, 170
_MARGIN = 0.04
"""Drawn on either side of the runs, as a share of their time."""
_DAYS = timedelta(days=7)
_MINUTES = timedelta(minutes=30)
"""Runs of less time, of which half a dozen ticks would be of one minute."""
_ALONE = timedelta(minutes=1)
"""On either side of runs of one moment."""

Row = Mapping[str, Any]
"""As ``planner history --json`` prints it, its moment as a datetime."""


@dataclass(frozen=True)
class _Look:
    """What all panels share."""

    theme: Theme
    margin: timedelta
    plans: tuple[str, ...]
    """Each with its colour and its dash; the same domain, so that both stand in one legend."""


def history_chart(rows: Sequence[Row], *, theme: Theme = "light") -> Any:
    """A chart of Altair. Raises UsageError when there is nothing to draw, or no Altair."""
    if not rows:
        raise UsageError("no recorded run matches", "`planner record PLAN FILE` keeps one")
    alt = altair()

    def key(row: Row) -> tuple[int, str]:
        return list(_TITLES).index(row["metric"]), row["statistic"]

    first, last = (end(row["recorded_at"] for row in rows) for end in (min, max))
    plans = tuple(dict.fromkeys(map(_plan, rows)))
    look = _Look(theme, (last - first) * _MARGIN or _ALONE, plans)
    panels = [
        _panel(alt, list(members), look) for _, members in groupby(sorted(rows, key=key), key)
    ]
    runs, asked = (len({row[name] for row in rows} - {None}) for name in ("run_id", "plan_id"))
    subtitle = [
        f"{_count(runs, 'run')} of {_count(asked, 'plan')}, {_days(first, last)} (UTC)",
        "points: measured; line: predicted; band: 80 % interval of the prediction",
    ]
    whole = alt.vconcat(*panels, spacing=18).resolve_scale(
        x="shared", color="shared", strokeDash="shared"
    )
    return finish(whole, "Measured and predicted over time", subtitle, theme)


def _panel(alt: Any, rows: Sequence[Row], look: _Look) -> Any:
    metric, statistic = rows[0]["metric"], rows[0]["statistic"]
    factor, unit = _scale(rows)
    points = alt.Chart(alt.InlineData(values=[_point(row, factor) for row in rows]))
    spans = alt.Chart(alt.InlineData(values=list(_spans(rows, factor, look.margin))))
    better = "less is better" if UNITS[metric] == "s" else "more is better"
    title = alt.TitleParams(
        f"{_TITLES[metric]}, {statistic}", subtitle=better, anchor="start", frame="group"
    )
    layers = [*_predicted(alt, spans, look), *_measured(alt, points, unit, look)]
    return alt.layer(*layers).properties(title=title, width=_WIDTH, height=_HEIGHT)


def _predicted(alt: Any, spans: Any, look: _Look) -> tuple[Any, Any]:
    """The interval and the line of each plan."""
    ends = {"x": alt.X("start:T", scale=alt.Scale(type="utc")), "x2": "end:T"}
    band = spans.mark_rect(opacity=0.13).encode(y="fastest:Q", y2="slowest:Q", **ends)
    line = spans.mark_rule(size=2).encode(y="predicted:Q", **ends)
    return band.encode(color=_colour(alt, look)), line.encode(
        color=_colour(alt, look), strokeDash=_dash(alt, look)
    )


def _measured(alt: Any, points: Any, unit: str, look: _Look) -> tuple[Any, Any, Any]:
    """A thin line from run to run, a point each, and the names of baselines."""
    axis = alt.Axis(format=_moments(look.margin), tickCount=6)
    x = alt.X("at:T", scale=alt.Scale(type="utc"), title="recorded (UTC)", axis=axis)
    y = alt.Y(
        "value:Q", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5, minExtent=45), title=unit
    )
    legend = alt.Legend(symbolFillColor=INKS[look.theme].text, symbolStrokeWidth=0)
    kinds = alt.Scale(domain=["run", "baseline"], range=["circle", "diamond"])
    placed = points.encode(x=x, y=y)
    trend = placed.mark_line(size=1.2, opacity=0.7).encode(
        color=_colour(alt, look), strokeDash=_dash(alt, look)
    )
    marks = placed.mark_point(filled=True, opacity=0.9).encode(
        color=_colour(alt, look),
        shape=alt.Shape("kind:N", scale=kinds, title="measured", legend=legend),
        size=alt.condition("datum.kind == 'baseline'", alt.value(190), alt.value(55)),
        tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in _TOOLTIP.items()],
    )
    named = placed.transform_filter("datum.baseline != null")
    names = named.mark_text(dy=-15, fontWeight="bold").encode(text="baseline:N")
    return trend, marks, names


def _moments(margin: timedelta) -> str:
    """How ticks name moments: no two of them alike."""
    if margin / _MARGIN >= _DAYS:
        return "%Y-%m-%d"
    return "%m-%d %H:%M" if margin / _MARGIN > _MINUTES else "%H:%M:%S"


def _colour(alt: Any, look: _Look) -> Any:
    scale = alt.Scale(domain=look.plans)
    return alt.Color("plan:N", title="plan", scale=scale, legend=_legend(alt))


def _dash(alt: Any, look: _Look) -> Any:
    """Plans differ by dashes too, in the same legend."""
    scale = alt.Scale(domain=look.plans, range=_DASHES)
    return alt.StrokeDash("plan:N", title="plan", scale=scale, legend=_legend(alt))


_DASHES = [[1, 0], [8, 4], [2, 3], [12, 3, 2, 3], [4, 2], [1, 5]]


def _legend(alt: Any) -> Any:
    return alt.Legend(
        symbolOpacity=1,
        symbolType="stroke",
        symbolStrokeWidth=2,
        symbolSize=900,
        symbolFillColor=None,
    )


_TOOLTIP: Mapping[str, str] = {
    "run": "run",
    "baseline": "baseline",
    "when": "recorded (UTC)",
    "plan": "plan",
    "tool": "tool",
    "measured": "measured",
    "predicted": "predicted",
    "ratio": "times slower",
}


def _point(row: Row, factor: float) -> dict[str, Any]:
    predicted, ratio = row["predicted"], row["ratio"]
    return {
        "at": _iso(row["recorded_at"]),
        "value": row["measured"] / factor,
        "plan": _plan(row),
        "kind": "baseline" if row["baseline"] else "run",
        "run": row["run_id"],
        "baseline": row["baseline"],
        "when": f"{row['recorded_at'].astimezone(UTC):%Y-%m-%d %H:%M:%S}",
        "tool": row["tool"],
        "measured": _shown(row["metric"], row["measured"]),
        "predicted": "–" if predicted is None else _shown(row["metric"], predicted),
        "ratio": "–" if ratio is None else f"{ratio:.3f}",
    }


def _spans(rows: Sequence[Row], factor: float, margin: timedelta) -> Iterator[dict[str, Any]]:
    """What each plan predicts, from a little before its first run to a little after its last."""
    for plan in dict.fromkeys(map(_plan, rows)):
        own = [row for row in rows if _plan(row) == plan and row["predicted"] is not None]
        if not own:
            continue
        moments = [row["recorded_at"] for row in own]
        span = {"plan": plan, "predicted": own[0]["predicted"] / factor}
        for end in ("fastest", "slowest"):
            value = own[0][end]
            known = value is not None and math.isfinite(value)
            span[end] = (value if known else own[0]["predicted"]) / factor
        yield span | {"start": _iso(min(moments) - margin), "end": _iso(max(moments) + margin)}


def _scale(rows: Sequence[Row]) -> tuple[float, str]:
    """The unit in which the largest figure of a panel is at least one."""
    if UNITS[rows[0]["metric"]] != "s":
        return 1.0, "tokens/s"
    largest = max(row["measured"] for row in rows)
    return next(((f, unit) for f, unit in _TIMES if largest >= f), _TIMES[-1])


def _plan(row: Row) -> str:
    if row["plan_id"] is None:
        return "no plan"
    return f"{row['plan'] or 'a plan elsewhere'} ({row['plan_id'][:8]})"


def _shown(metric: str, value: float) -> str:
    return show_seconds(value) if UNITS[metric] == "s" else f"{value:,.4g} tokens/s"


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _days(first: datetime, last: datetime) -> str:
    one, other = (f"{moment.astimezone(UTC):%Y-%m-%d}" for moment in (first, last))
    return one if one == other else f"{one} to {other}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
