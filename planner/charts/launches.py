"""The launch timeline: a host that issues, a GPU that runs, each kernel after both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from planner.charts.files import altair
from planner.charts.kernels import kernel_labels
from planner.charts.modes import scale_of
from planner.charts.roofline import BOUNDS
from planner.charts.theme import INKS, WIDTH, Theme, data, finish, hue, on
from planner.errors import UsageError
from planner.plan.types import KernelRow, Plan
from planner.units import show_seconds

MOST = 26
"""Kernels that are drawn: more are slivers."""
_ROW = 46
_LETTER = 6.2
HOST, GPU = "host", "GPU"


@dataclass(frozen=True)
class Slot:
    """One kernel in time: seconds from the step's first launch."""

    kernel: KernelRow
    issue_start_s: float
    issue_end_s: float
    """Host time of its launch; both ends are one moment inside a graph."""
    start_s: float
    end_s: float


def slots(plan: Plan) -> Iterator[Slot]:
    """Every kernel of the step in order: it starts when the GPU is free and the host has issued it.

    A kernel outside a graph costs the host its launches; the graph after it one replay more. What
    of the host's time nothing hides, and waiting of a pipeline, lie outside.
    """
    fixed, eager = plan.step.fixed_s, plan.step.mode == "eager"
    host = 0.0 if eager else fixed["replay_s"]
    device = 0.0
    replays = not eager and plan.step.mode == "piecewise"
    for kernel in _in_order(plan):
        issued = host
        if not kernel.in_graph:
            host += kernel.launches * fixed["launch_s"]
            host += fixed["replay_s"] if replays and kernel.launches else 0.0
        start = max(device, host)
        device = start + kernel.time_s
        yield Slot(kernel, issued, host, start, device)


def _in_order(plan: Plan) -> Iterator[KernelRow]:
    for run in plan.order:
        for _ in range(run.times):
            yield from (plan.kernels[place] for place in run.kernels)


def timeline_chart(plan: Plan, *, most: int = MOST, theme: Theme = "light") -> Any:
    """The beginning of the step, on host and GPU. Raises UsageError for a plan without its order,
    or without Altair.
    """
    if not plan.order:
        hint = "plan the deployment again"
        raise UsageError("this plan was stored before the order of kernels was kept", hint)
    alt = altair()
    found = list(islice(slots(plan), most))
    whole = sum(run.times * len(run.kernels) for run in plan.order)
    factor, unit = scale_of(found[-1].end_s)
    domain = alt.Scale(domain=[0, found[-1].end_s / factor], nice=False)
    x = alt.X("start:Q", title=f"time since the first launch, {unit}", scale=domain)
    axis = alt.Axis(ticks=False, domain=False)
    y = alt.Y("row:N", sort=[HOST, GPU], title=None, axis=axis)
    layers = [
        _bars(alt, list(_host(found, factor)), theme).encode(x=x, y=y),
        _kernels(alt, found, factor, theme).encode(x=x, y=y),
        _signs(alt, found, factor, theme).encode(y=y),
        _names(alt, found, factor, theme).encode(y=y),
    ]
    chart = alt.layer(*layers).properties(width=WIDTH, height=2 * _ROW)
    step = plan.step.modes[plan.step.mode]
    subtitle = [
        f"{plan.described['model']} on {plan.described['device']}: {plan.described['workload']}",
        (
            f"the first {len(found)} of {whole:,} kernels of a step of "
            f"{show_seconds(plan.step.time_s)}; {plan.step.mode}, {step.launches:,} host launches"
        ),
    ]
    return finish(chart, "Launch timeline", subtitle, theme)


def _host(found: Sequence[Slot], factor: float) -> Iterator[dict[str, Any]]:
    first = found[0].issue_start_s
    if first:
        yield {"row": HOST, "what": "graph replay", "start": 0.0, "end": first / factor}
    for slot in found:
        if slot.issue_end_s > slot.issue_start_s:
            ends = (slot.issue_start_s / factor, slot.issue_end_s / factor)
            yield {
                "row": HOST,
                "what": f"launch {slot.kernel.name}",
                "start": ends[0],
                "end": ends[1],
            }


def _bars(alt: Any, rows: Sequence[dict[str, Any]], theme: Theme) -> Any:
    ink = INKS[theme]
    marks = data(alt, rows).mark_bar(
        height=alt.RelativeBandSize(0.55), color=ink.faint, stroke=ink.ground, strokeWidth=0.6
    )
    return marks.encode(x2="end:Q", tooltip=[alt.Tooltip("what:N")])


def _rows(found: Sequence[Slot], factor: float) -> Iterator[dict[str, Any]]:
    called = kernel_labels(list(dict.fromkeys(slot.kernel for slot in found)))
    for slot in found:
        yield {
            "row": GPU,
            "kernel": called[slot.kernel],
            "block": slot.kernel.block,
            "bound": slot.kernel.bound,
            "start": slot.start_s / factor,
            "end": slot.end_s / factor,
            "time": show_seconds(slot.kernel.time_s),
        }


def _kernels(alt: Any, found: Sequence[Slot], factor: float, theme: Theme) -> Any:
    rows = list(_rows(found, factor))
    kinds = [name for name in BOUNDS if any(row["bound"] == name for row in rows)]
    colours = alt.Scale(domain=kinds, range=[hue(theme, BOUNDS[name][1]) for name in kinds])
    marks = data(alt, rows).mark_bar(
        height=alt.RelativeBandSize(0.7), stroke=INKS[theme].ground, strokeWidth=0.6
    )
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("kernel", "block", "bound", "time")]
    color = alt.Color("bound:N", scale=colours, legend=_legend(alt))
    return marks.encode(x2="end:Q", color=color, tooltip=tooltip)


def _legend(alt: Any) -> Any:
    return alt.Legend(title="bound by", orient="top", titleOrient="left")


def _signs(alt: Any, found: Sequence[Slot], factor: float, theme: Theme) -> Any:
    """Under each bar that is wide enough, the shape that the roofline has for what bounds it."""
    rows = list(_rows(found, factor))
    kinds = [name for name in BOUNDS if any(row["bound"] == name for row in rows)]
    shapes = alt.Scale(domain=kinds, range=[BOUNDS[name][0] for name in kinds])
    last = found[-1].end_s / factor
    wide = [row for row in rows if (row["end"] - row["start"]) / last * WIDTH > _SIGN]
    shown = [row | {"middle": (row["start"] + row["end"]) / 2} for row in wide]
    marks = data(alt, shown).mark_point(
        filled=True, size=34, opacity=1, color=INKS[theme].text, yOffset=0.35 * _ROW + 5
    )
    shape = alt.Shape("bound:N", scale=shapes, legend=_legend(alt))
    return marks.encode(x="middle:Q", shape=shape)


_SIGN = 9
"""Pixels of a bar under which a shape has room."""


def _names(alt: Any, found: Sequence[Slot], factor: float, theme: Theme) -> Any:
    """Names in the bars that are wide enough."""
    last, rows = found[-1].end_s / factor, []
    for row in _rows(found, factor):
        wide = (row["end"] - row["start"]) / last * WIDTH
        if wide > _LETTER * len(row["kernel"]):
            ink = on(theme, BOUNDS[row["bound"]][1])
            rows.append(row | {"middle": (row["start"] + row["end"]) / 2, "ink": ink})
    words = data(alt, rows).mark_text(baseline="middle")
    return words.encode(x="middle:Q", text="kernel:N", color=alt.Color("ink:N", scale=None))
