"""Memory of one GPU: one bar of what is held, against what there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.charts.files import altair
from planner.charts.theme import INKS, WIDTH, Hue, Theme, data, finish, hue, on
from planner.plan.memory_types import MemoryPlan
from planner.plan.types import Plan
from planner.units import show_bytes

_GIB = 2.0**30
_BAR_TOP, _BAR_BOTTOM, _HEIGHT = 34, 74, 118
_HUES: Mapping[str, Hue] = {
    "CUDA context": "grey",
    "weights": "blue",
    "activations": "orange",
    "runtime": "purple",
    "CUDA Graphs": "vermillion",
    "states": "yellow",
    "KV needed": "green",
    "KV free": "sky",
}


def held(memory: MemoryPlan) -> dict[str, float]:
    """What lies in the memory of the GPU, in bytes: first what the engine counts."""
    graphs = {"CUDA Graphs": memory.graphs_bytes}
    amounts = {
        "weights": memory.weights_bytes,
        "activations": memory.activations_bytes,
        "runtime": memory.runtime_bytes,
        **(graphs if memory.graphs_inside else {}),
        "states": memory.states.held_bytes if memory.states else 0.0,
        "KV needed": memory.kv_bytes,
        "KV free": max(0.0, memory.kv_available_bytes - memory.kv_bytes),
        **graphs,
        "CUDA context": memory.context_bytes,
    }
    return {name: size for name, size in amounts.items() if size > 0}


def limits(memory: MemoryPlan) -> dict[str, float]:
    """What the amounts are held against, in bytes."""
    return {
        "engine's budget": memory.budget_bytes,
        "CUDA sees": memory.visible_bytes,
        "vendor prints": memory.capacity_bytes,
    }


def memory_chart(plan: Plan, *, theme: Theme = "light") -> Any:
    """One bar against budget and capacity. Raises UsageError without Altair."""
    alt = altair()
    parts, ends = held(plan.memory), limits(plan.memory)
    most = max(sum(parts.values()), *ends.values()) / _GIB * 1.02
    x = alt.Scale(domain=[0, most], nice=False)
    layers = [_bar(alt, parts, x, theme), *_limits(alt, ends, most)]
    layers += [_inside(alt, parts, most, theme)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT)
    return finish(chart, "Memory of one GPU", _subtitle(plan), theme)


def _subtitle(plan: Plan) -> list[str]:
    memory = plan.memory
    fits = "fits" if memory.fits else f"DOES NOT FIT: {show_bytes(memory.missing_bytes)} missing"
    room = (
        f"room for {memory.kv_tokens:,} tokens of KV cache" if memory.kv_tokens else "no KV cache"
    )
    return [
        f"{plan.described['model']} on {plan.described['device']}: {fits}; {room}",
        "parts from left to right as the legend lists them, row by row",
    ]


def _rows(parts: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    start = 0.0
    for name, size in parts.items():
        row = {"part": name, "bytes": show_bytes(size), "named": f"{name}, {show_bytes(size)}"}
        yield row | {"start": start / _GIB, "end": (start + size) / _GIB}
        start += size


def _bar(alt: Any, parts: Mapping[str, float], scale: Any, theme: Theme) -> Any:
    rows = list(_rows(parts))
    named = [row["named"] for row in rows]
    colours = alt.Scale(domain=named, range=[hue(theme, _HUES[name]) for name in parts])
    legend = alt.Legend(title=None, orient="bottom", columns=4, symbolType="square", offset=12)
    marks = data(alt, rows).mark_rect(stroke=INKS[theme].ground, strokeWidth=1)
    return marks.encode(
        x=alt.X("start:Q", scale=scale, title="memory, GiB"),
        x2="end:Q",
        y=alt.YValue(_BAR_TOP),
        y2=alt.Y2Value(_BAR_BOTTOM),
        color=alt.Color("named:N", scale=colours, legend=legend, sort=None),
        tooltip=[alt.Tooltip("part:N"), alt.Tooltip("bytes:N")],
    )


def _limits(alt: Any, ends: Mapping[str, float], most: float) -> Iterator[Any]:
    """A rule each, the names one above the other so that near limits can be read."""
    dashes = ([1, 0], [6, 3], [2, 3])
    for place, (name, size) in enumerate(ends.items()):
        at = size / _GIB
        row = [{"at": at, "said": f"{name} {show_bytes(size)}"}]
        top, bottom = ((_BAR_TOP - 6, 6), (_BAR_TOP - 2, 14), (13, 6))[place]
        bottom += _BAR_BOTTOM
        rule = data(alt, row).mark_rule(strokeWidth=1.6, strokeDash=dashes[place])
        yield rule.encode(x=alt.X("at:Q"), y=alt.YValue(top), y2=alt.Y2Value(bottom))
        side = "right" if at > most / 2 else "left"
        words = data(alt, row).mark_text(align=side, baseline="middle")
        level = (_BAR_TOP - 11, _BAR_BOTTOM + 20, 7)[place]
        yield words.encode(x=alt.X("at:Q"), y=alt.YValue(level), text="said:N")


def _inside(alt: Any, parts: Mapping[str, float], most: float, theme: Theme) -> Any:
    """Names of the parts that are wide enough to hold them."""
    rows = []
    for row in _rows(parts):
        wide = (row["end"] - row["start"]) / most * WIDTH
        if wide > len(row["part"]) * 7:
            ink = on(theme, _HUES[row["part"]])
            middle = (row["start"] + row["end"]) / 2
            rows.append({"at": middle, "said": row["part"], "ink": ink})
    words = data(alt, rows).mark_text(baseline="middle", fontWeight="bold")
    y = alt.YValue((_BAR_TOP + _BAR_BOTTOM) / 2)
    return words.encode(x=alt.X("at:Q"), y=y, text="said:N", color=alt.Color("ink:N", scale=None))
