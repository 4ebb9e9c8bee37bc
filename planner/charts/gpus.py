"""Plans against each other: one deployment on several GPUs, or one plan before and after."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.charts.files import altair
from planner.charts.modes import scale_of
from planner.charts.theme import INKS, WIDTH, Hue, Theme, data, finish, hue, on
from planner.plan.diff import GpuColumn, PlanDiff
from planner.units import show_bytes, show_seconds

_BAR = 40
_BOUNDS: Mapping[str, Hue] = {
    "memory": "blue",
    "compute": "vermillion",
    "network": "green",
    "launch": "orange",
    "launches and gaps": "yellow",
}


def gpus_chart(columns: Sequence[GpuColumn], *, theme: Theme = "light") -> Any:
    """A bar for each GPU, split by what its kernels are bound by; marks show what bandwidth alone,
    and peak alone, would give of the first GPU's step. Raises UsageError without Altair.
    """
    alt = altair()
    first = columns[0]
    longest = max(_longest(column, first) for column in columns)
    factor, unit = scale_of(longest)
    names = [column.title for column in columns]
    axis = alt.Axis(labelLimit=220, ticks=False)
    y = alt.Y("gpu:N", sort=names, title=None, axis=axis)
    domain = alt.Scale(domain=[0, longest / factor * 1.2], nice=False)
    x = alt.X("start:Q", title=f"time of a step, {unit}", scale=domain, axis=alt.Axis(tickCount=8))
    layers = [
        _stacks(alt, columns, factor, theme).encode(x=x, y=y),
        _inside(alt, columns, factor, theme).encode(y=y),
        *(layer.encode(y=y) for layer in _ends(alt, columns, factor)),
        _expected(alt, columns, factor, theme).encode(y=y),
    ]
    chart = alt.layer(*layers).resolve_scale(color="independent", shape="independent")
    chart = chart.properties(width=WIDTH, height=_BAR * len(columns))
    said = first.plan.described
    subtitle = [
        f"{said['model']}: {said['workload']}",
        f"line: 80 % interval; triangles: the {first.title}'s step, were bandwidth or peak all",
    ]
    return finish(chart, "The same deployment on other GPUs", subtitle, theme)


def _longest(column: GpuColumn, first: GpuColumn) -> float:
    step = column.plan.step
    return max(step.time_s, step.high_s or 0, *_alone(column, first).values())


def _alone(column: GpuColumn, first: GpuColumn) -> dict[str, float]:
    """The first GPU's step, were only bytes or only FLOPs paid for."""
    step_s = first.plan.step.time_s
    ratios = {"by bandwidth": column.bandwidth_ratio, "by peak": column.peak_ratio}
    return {name: step_s / ratio for name, ratio in ratios.items()}


def split(column: GpuColumn) -> dict[str, float]:
    """Seconds of the step by what bounds its kernels, the rest as launches and gaps."""
    plan = column.plan
    found = dict.fromkeys(_BOUNDS, 0.0)
    for kernel in plan.kernels:
        found[kernel.bound] += kernel.repeat * kernel.time_s
    busy = sum(found.values())
    found["launches and gaps"] = max(0.0, plan.step.time_s - busy)
    whole = sum(found.values())
    return {name: value / whole * plan.step.time_s for name, value in found.items() if value}


def _stacks(alt: Any, columns: Sequence[GpuColumn], factor: float, theme: Theme) -> Any:
    parts = [split(column) for column in columns]
    kinds = [name for name in _BOUNDS if any(name in part for part in parts)]
    colours = alt.Scale(domain=kinds, range=[hue(theme, _BOUNDS[name]) for name in kinds])
    legend = alt.Legend(title="bound by", orient="top", symbolType="square")
    marks = data(alt, _rows(columns, parts, factor)).mark_bar(
        height=alt.RelativeBandSize(0.55), stroke=INKS[theme].ground, strokeWidth=0.8
    )
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("gpu", "bound", "time")]
    color = alt.Color("bound:N", scale=colours, legend=legend)
    return marks.encode(x2="end:Q", color=color, tooltip=tooltip)


def _inside(alt: Any, columns: Sequence[GpuColumn], factor: float, theme: Theme) -> Any:
    """What bounds a part, in those that are wide enough to say it."""
    rows, last = [], max(_longest(each, columns[0]) for each in columns) / factor * 1.2
    for row in _rows(columns, [split(column) for column in columns], factor):
        if (row["end"] - row["start"]) / last * WIDTH > _LETTER * len(row["bound"]):
            ink = on(theme, _BOUNDS[row["bound"]])
            rows.append(row | {"at": row["start"], "ink": ink})
    words = data(alt, rows).mark_text(align="left", dx=5, dy=-5, fontSize=9)
    return words.encode(x="at:Q", text="bound:N", color=alt.Color("ink:N", scale=None))


_LETTER = 7


def _rows(
    columns: Sequence[GpuColumn], parts: Sequence[Mapping[str, float]], factor: float
) -> Iterator[dict[str, Any]]:
    for column, part in zip(columns, parts, strict=True):
        start = 0.0
        for bound, seconds in part.items():
            row = {"gpu": column.title, "bound": bound, "time": show_seconds(seconds)}
            yield row | {"start": start / factor, "end": (start + seconds) / factor}
            start += seconds


def _ends(alt: Any, columns: Sequence[GpuColumn], factor: float) -> Iterator[Any]:
    """Times, speed-ups and fits after the bars, and intervals."""
    # marks of other GPUs stand above the bar, so words follow it and its interval
    rows = [
        {"gpu": each.title, "at": max(step.time_s, step.high_s or 0) / factor, "said": _said(each)}
        for each in columns
        if (step := each.plan.step)
    ]
    words = data(alt, rows).mark_text(align="left", dx=9)
    yield words.encode(x="at:Q", text="said:N")
    spans = [
        {"gpu": each.title, "low": step.low_s / factor, "high": step.high_s / factor}
        for each in columns
        if (step := each.plan.step).low_s is not None and step.high_s is not None
    ]
    if spans:
        yield data(alt, spans).mark_rule(strokeWidth=1.6).encode(x="low:Q", x2="high:Q")


def _said(column: GpuColumn) -> str:
    fits = "" if column.plan.memory.fits else ", DOES NOT FIT"
    return f"{show_seconds(column.plan.step.time_s)}, {column.speed_up:.3g}×{fits}"


def _expected(alt: Any, columns: Sequence[GpuColumn], factor: float, theme: Theme) -> Any:
    rows = [
        {"gpu": each.title, "at": seconds / factor, "kind": kind, "time": show_seconds(seconds)}
        for each in columns[1:]
        for kind, seconds in _alone(each, columns[0]).items()
    ]
    shapes = alt.Scale(domain=["by bandwidth", "by peak"], range=["triangle-down", "triangle-up"])
    legend = alt.Legend(title=None, orient="top", symbolFillColor=INKS[theme].text)
    marks = data(alt, rows).mark_point(
        filled=True, size=75, opacity=1, color=INKS[theme].text, yOffset=-16
    )
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("gpu", "kind", "time")]
    shape = alt.Shape("kind:N", scale=shapes, legend=legend)
    return marks.encode(x="at:Q", shape=shape, tooltip=tooltip)


def diff_chart(change: PlanDiff, *, theme: Theme = "light") -> Any:
    """What changed as factors from one, which is no change. Raises UsageError without Altair."""
    alt = altair()
    rows = list(factors(change))
    furthest = max([1.25, *(max(row["factor"], 1 / row["factor"]) for row in rows)]) * 1.5
    scale = alt.Scale(type="log", domain=[1 / furthest, furthest], nice=False)
    ticks = [tick for tick in _TICKS if 1 / furthest <= tick <= furthest]
    axis = alt.Axis(values=ticks, format="~g")
    x = alt.X("factor:Q", scale=scale, axis=axis, title="after ÷ before, a ratio")
    y = alt.Y("what:N", sort=[row["what"] for row in rows], title=None)
    base = data(alt, rows)
    one = data(alt, [{"factor": 1.0}]).mark_rule(strokeDash=[2, 3]).encode(x=x)
    stems = base.mark_rule(strokeWidth=2, color=hue(theme, "blue"))
    dots = base.mark_point(filled=True, size=110, opacity=1, color=hue(theme, "blue"))
    # the line at one must not strike words out
    ground = {"stroke": INKS[theme].ground, "strokeWidth": 4, "strokeJoin": "round"}
    words = [
        base.mark_text(dy=-13, **look).encode(x=x, y=y, text="said:N") for look in (ground, {})
    ]
    stems = stems.encode(x=alt.X("one:Q"), x2="factor:Q", y=y)
    layers = [one, stems, dots.encode(x=x, y=y), *words]
    chart = alt.layer(*layers).properties(width=WIDTH, height=_BAR * len(rows))
    what = ", ".join(part.part.replace("_", " ") for part in change.parts) or "nothing"
    subtitle = [f"{change.name_a} ({change.a}) → {change.name_b} ({change.b})", f"differs: {what}"]
    return finish(chart, "What changed", subtitle, theme)


_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)


def factors(change: PlanDiff) -> Iterator[dict[str, Any]]:
    """Figures that both plans have, as rows: after over before."""
    (bytes_a, bytes_b), (kernels_a, kernels_b) = change.hbm_bytes, change.kernels
    room_a, room_b = change.kv_tokens
    figures = (
        ("time of a step", change.step_a_s, change.step_b_s, show_seconds),
        ("HBM bytes", bytes_a, bytes_b, show_bytes),
        ("kernels", kernels_a, kernels_b, "{:,}".format),
        ("room for KV, tokens", room_a, room_b, "{:,}".format),
    )
    for what, before, after, shown in figures:
        if before and after and math.isfinite(after / before):
            said = f"{shown(before)} → {shown(after)}"
            yield {"what": what, "factor": after / before, "one": 1.0, "said": said}
