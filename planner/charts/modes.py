"""The step in every way to launch it, down to what no kernel beats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.charts.files import altair
from planner.charts.theme import INKS, WIDTH, Hue, Theme, data, finish, hue
from planner.plan.types import ModeTime, Plan
from planner.units import show_seconds

_BAR = 34
WORK, OVERHEAD, WHOLE = "kernels at work", "launches, gaps, starts", "not split further"
LIMIT = "limit, not a promise"
_HUES: Mapping[str, Hue] = {WORK: "blue", OVERHEAD: "orange", WHOLE: "green"}
_MODES = ("eager", "piecewise", "full")


@dataclass(frozen=True)
class Bar:
    """One way to run the step."""

    name: str
    parts: tuple[tuple[str, float], ...]
    """What it is made of, in seconds; nothing where the engine cannot run it."""
    said: str
    """What stands at its end."""
    low_s: float | None = None
    high_s: float | None = None

    @property
    def time_s(self) -> float:
        """The whole of it."""
        return sum(seconds for _, seconds in self.parts)


def bars(plan: Plan) -> tuple[Bar, ...]:
    """Capture modes, then other groupings in the plan's mode, then what bounds these kernels and
    any at all.
    """
    step = plan.step
    found = [_mode(name, step.modes[name], plan) for name in _MODES if name in step.modes]
    for name in ("flags", "ideal"):
        row = step.rule_sets.get(name)
        if row is not None and (name != "flags" or row.flags):
            found.append(_bar(_RULE_SETS[name], WHOLE, row.time_s))
    found.append(_bar("bare roofline", LIMIT, plan.totals.roofline_s))
    if limit := step.rule_sets.get("megakernel"):
        found.append(
            _bar(
                f"megakernel × {limit.kernels}" if limit.kernels > 1 else "megakernel",
                LIMIT,
                limit.time_s,
            )
        )
    return tuple(found)


def _bar(name: str, part: str, seconds: float) -> Bar:
    return Bar(name, ((part, seconds),), show_seconds(seconds))


_RULE_SETS = {"flags": "best flags", "ideal": "ideal fusion"}


def _mode(name: str, mode: ModeTime, plan: Plan) -> Bar:
    if not mode.available:
        return Bar(name, (), f"not here: {mode.reason}" if mode.reason else "not available")
    overhead = mode.launch_share * mode.time_s
    parts = ((WORK, mode.time_s - overhead), (OVERHEAD, overhead))
    said = show_seconds(mode.time_s)
    if name != plan.step.mode:
        return Bar(name, parts, said)
    return Bar(f"{name} (this plan)", parts, said, plan.step.low_s, plan.step.high_s)


def modes_chart(plan: Plan, *, theme: Theme = "light") -> Any:
    """Bars from the slowest way to launch to the limits. Raises UsageError without
    Altair.
    """
    alt = altair()
    found = bars(plan)
    longest = max(max(bar.time_s, bar.high_s or 0) for bar in found)
    factor, unit = scale_of(longest)
    order = [bar.name for bar in found]
    y = alt.Y("bar:N", sort=order, title=None, axis=alt.Axis(labelLimit=200, ticks=False))
    domain = alt.Scale(domain=[0, longest / factor * 1.12], nice=False)
    x = alt.X("start:Q", title=f"time of a step, {unit}", scale=domain, axis=alt.Axis(tickCount=8))
    layers = [_stacks(alt, found, factor, theme).encode(x=x, y=y), *_ends(alt, found, factor, y)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=_BAR * len(found))
    subtitle = [
        f"{plan.described['model']} on {plan.described['device']}: {plan.described['workload']}",
        "from eager launches to CUDA Graphs, a perfect compiler, one kernel; line: 80 % interval",
    ]
    return finish(chart, "Where the time of a step goes", subtitle, theme)


def scale_of(longest_s: float) -> tuple[float, str]:
    """The unit in which a time is at least one."""
    units = ((1.0, "s"), (1e-3, "ms"))
    return next(((f, unit) for f, unit in units if longest_s >= f), (1e-6, "us"))


def _stacks(alt: Any, found: tuple[Bar, ...], factor: float, theme: Theme) -> Any:
    """Parts of bars; a limit is an outline."""
    kinds = [
        kind
        for kind in (*_HUES, LIMIT)
        if any(kind == part for bar in found for part, _ in bar.parts)
    ]
    ink = INKS[theme]
    fills = [ink.ground if kind == LIMIT else hue(theme, _HUES[kind]) for kind in kinds]
    edges = [ink.faint if kind == LIMIT else ink.ground for kind in kinds]
    dashes = [[4, 3] if kind == LIMIT else [1, 0] for kind in kinds]

    def look(channel: Any, values: list[Any]) -> Any:
        scale = alt.Scale(domain=kinds, range=values)
        legend = alt.Legend(title=None, orient="top", symbolType="square")
        return channel("part:N", scale=scale, legend=legend)

    marks = data(alt, _rows(found, factor)).mark_bar(
        height=alt.RelativeBandSize(0.62), strokeWidth=1.4
    )
    return marks.encode(
        x2="end:Q",
        fill=look(alt.Fill, fills),
        stroke=look(alt.Stroke, edges),
        strokeDash=look(alt.StrokeDash, dashes),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("bar", "part", "time")],
    )


def _rows(found: tuple[Bar, ...], factor: float) -> Iterator[dict[str, Any]]:
    for bar in found:
        start = 0.0
        for part, seconds in bar.parts:
            end = start + seconds
            row = {"bar": bar.name, "part": part, "time": show_seconds(seconds)}
            yield row | {"start": start / factor, "end": end / factor}
            start = end


def _ends(alt: Any, found: tuple[Bar, ...], factor: float, y: Any) -> Iterator[Any]:
    """Times after the bars, and the interval of the plan's own."""
    rows = [
        {"bar": bar.name, "at": max(bar.time_s, bar.high_s or 0) / factor, "said": bar.said}
        for bar in found
    ]
    words = data(alt, rows).mark_text(align="left", dx=5)
    yield words.encode(x=alt.X("at:Q"), y=y, text="said:N")
    spans = [
        {"bar": bar.name, "low": bar.low_s / factor, "high": bar.high_s / factor}
        for bar in found
        if bar.low_s is not None and bar.high_s is not None
    ]
    if spans:
        lines = data(alt, spans).mark_rule(strokeWidth=1.6)
        yield lines.encode(x=alt.X("low:Q"), x2="high:Q", y=y)
        for end in ("low", "high"):
            tick = data(alt, spans).mark_tick(thickness=1.6, height=9)
            yield tick.encode(x=alt.X(f"{end}:Q"), y=y)
