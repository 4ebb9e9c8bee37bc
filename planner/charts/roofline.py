"""Every kernel of a plan under its roof: how near it comes, what bounds it, what fusion moved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.charts.files import altair
from planner.charts.frame import Frame, at, turned
from planner.charts.kernels import kernel_labels
from planner.charts.labels import Box, Spot, along, around, placed, text_box
from planner.charts.roof_lines import axes, peaks, roof_lines, slope
from planner.charts.roofs import Roofs, flops, roofs, unit_of
from planner.charts.theme import INKS, WIDTH, Hue, Theme, data, finish, hue
from planner.errors import UsageError
from planner.plan.types import KernelRow, Plan
from planner.units import show_bytes, show_seconds

_HEIGHT = 400
_LARGEST, _SMALLEST = 1500.0, 22.0
"""Areas of points in square pixels: of the kernel with the largest share, and what can be seen."""
_ROOM = 2.5
"""What is drawn beyond the outermost point, as a factor."""
_FLAT = 10.0
"""How far the flat roofs go on, as a factor: their names stand there."""
_NAMED = 9
BOUNDS: Mapping[str, tuple[str, Hue]] = {
    "memory": ("circle", "blue"),
    "compute": ("triangle-up", "vermillion"),
    "launch": ("square", "orange"),
    "network": ("diamond", "green"),
}
"""Shape and colour of what bounds a kernel."""


@dataclass(frozen=True)
class Point:
    """One kernel: all its occurrences are one point."""

    kernel: KernelRow
    unit: str
    flops_per_byte: float
    flops_per_s: float
    unfused_flops_per_byte: float | None
    unfused_flops_per_s: float | None
    """Where its nodes stand when each runs alone; None where it is one node."""


def points(plan: Plan, found: Roofs) -> tuple[Point, ...]:
    """The kernels that do arithmetic, the largest share of the step first."""
    doing = [row for row in plan.kernels if flops(row) and row.hbm_bytes and row.time_s]
    doing.sort(key=lambda row: -row.share)
    return tuple(_point(plan, row, found) for row in doing)


def _point(plan: Plan, row: KernelRow, found: Roofs) -> Point:
    """Apart, its nodes move their bytes no faster than the fused kernel does: a kernel bound by
    memory takes longer by their ratio, another only where the memory roof makes it.
    """
    work, apart, apart_rate = flops(row), None, None
    if len(row.nodes) > 1 and row.unfused_bytes > row.hbm_bytes:
        apart = work / row.unfused_bytes
        slower = row.time_s * row.unfused_bytes / row.hbm_bytes
        least = max(row.time_s, row.unfused_bytes / found.bandwidth_bytes_per_s)
        apart_rate = work / (slower if row.bound == "memory" else least)
    rate = work / row.time_s
    return Point(row, unit_of(plan, row), work / row.hbm_bytes, rate, apart, apart_rate)


def roofline_chart(plan: Plan, *, theme: Theme = "light") -> Any:
    """Kernels as points: area = share of the step, shape = bound; a line leads from where a fused
    kernel's nodes stand apart. Raises UsageError where no kernel does arithmetic, or no Altair.
    """
    alt = altair()
    found = roofs(plan)
    dots = points(plan, found) if found else ()
    if found is None or not dots:
        raise UsageError("no kernel of this plan does arithmetic", "plan a deployment with a model")
    frame = _frame(dots, found)
    layers = [*roof_lines(alt, found, frame), *_arrows(alt, dots, frame, theme)]
    layers += [_dots(alt, dots, frame, theme), _names(alt, dots, found, frame)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=_HEIGHT)
    title = f"Roofline: {plan.described['model']} on {plan.described['device']}"
    return finish(chart, title, _subtitle(plan, dots), theme)


def _subtitle(plan: Plan, dots: Sequence[Point]) -> list[str]:
    lines = [
        f"{plan.described['workload']}; one point a kernel, area = its share of the step",
        "solid: datasheet; dashed: best kernel of this plan; ○→ from where its nodes stand apart",
    ]
    without = sum(row.share for row in plan.kernels) - sum(dot.kernel.share for dot in dots)
    count = len(plan.kernels) - len(dots)
    if count:
        which = "kernel that does" if count == 1 else "kernels that do"
        lines.append(f"{count} {which} no arithmetic ({without:.1%} of the step) cannot be shown")
    return lines


def _frame(dots: Sequence[Point], found: Roofs) -> Frame:
    xs = [dot.flops_per_byte for dot in dots]
    xs += [dot.unfused_flops_per_byte for dot in dots if dot.unfused_flops_per_byte]
    ridges = [roof.ridge_flops_per_byte for roof in found.units]
    ys = [dot.flops_per_s for dot in dots]
    ys += [dot.unfused_flops_per_s for dot in dots if dot.unfused_flops_per_s]
    top = max(roof.peak_flops_per_s for roof in found.units)
    right = max(_ROOM * max(xs), _FLAT * max(ridges))
    return Frame(min(xs) / _ROOM, right, min(ys) / _ROOM, max(top, *ys) * _ROOM, WIDTH, _HEIGHT)


def _area(dot: Point, largest: float) -> float:
    return max(_SMALLEST, _LARGEST * dot.kernel.share / largest)


def _rows(dots: Sequence[Point]) -> Iterator[dict[str, Any]]:
    largest = max(dot.kernel.share for dot in dots)
    for dot in dots:
        kernel = dot.kernel
        yield {
            "kernel": kernel.name,
            "block": f"{kernel.block} ×{kernel.repeat}",
            "bound": kernel.bound,
            "x": dot.flops_per_byte,
            "y": dot.flops_per_s / 1e12,
            "area": _area(dot, largest),
            "share": kernel.share,
            "time": show_seconds(kernel.time_s),
            "bytes": show_bytes(kernel.hbm_bytes),
            "evidence": kernel.evidence,
        }


def _bounds(alt: Any, dots: Sequence[Point], theme: Theme) -> dict[str, Any]:
    """Shape and colour by bound, those that occur alone."""
    found = [name for name in BOUNDS if any(dot.kernel.bound == name for dot in dots)]
    legend = alt.Legend(title="bound by", symbolSize=110, symbolFillColor=None)
    shapes = [BOUNDS[name][0] for name in found]
    colours = [hue(theme, BOUNDS[name][1]) for name in found]
    return {
        "shape": alt.Shape("bound:N", scale=alt.Scale(domain=found, range=shapes), legend=legend),
        "color": alt.Color("bound:N", scale=alt.Scale(domain=found, range=colours), legend=legend),
    }


_TOOLTIP = ("kernel", "block", "bound", "time", "share", "bytes", "evidence")


def _dots(alt: Any, dots: Sequence[Point], frame: Frame, theme: Theme) -> Any:
    marks = data(alt, _rows(dots)).mark_point(
        filled=True, opacity=0.78, stroke=INKS[theme].ground, strokeWidth=0.8
    )
    tooltip = [alt.Tooltip(f"{name}:N") for name in _TOOLTIP if name != "share"]
    tooltip.append(alt.Tooltip("share:Q", format=".1%"))
    size = alt.Size("area:Q", scale=None, legend=None)
    return marks.encode(**axes(alt, frame), **_bounds(alt, dots, theme), size=size, tooltip=tooltip)


def _arrows(alt: Any, dots: Sequence[Point], frame: Frame, theme: Theme) -> Iterator[Any]:
    """A line from where the nodes stand apart, its head at the fused kernel."""
    rows = [
        {"px": x, "py": y, "px2": to_x, "py2": to_y, "angle": turned(x, y, to_x, to_y)}
        for x, y, to_x, to_y in _moves(dots, frame)
    ]
    base, faint = data(alt, rows), INKS[theme].faint
    ends = {"x2": "px2:Q", "y2": "py2:Q"}
    yield base.mark_rule(color=faint, strokeWidth=1.2).encode(**at(alt), **ends)
    yield base.mark_point(size=28, filled=False, color=faint, opacity=1).encode(**at(alt))
    heads = base.mark_point(shape="triangle", size=42, filled=True, color=faint, opacity=1)
    placed_at = {
        "x": alt.X("px2:Q", scale=None, axis=None),
        "y": alt.Y("py2:Q", scale=None, axis=None),
    }
    yield heads.encode(**placed_at, angle=alt.Angle("angle:Q", scale=None))


def _moves(dots: Sequence[Point], frame: Frame) -> Iterator[tuple[float, float, float, float]]:
    """Lines that are long enough to see, in pixels, each ending before its point."""
    for dot, (to_x, to_y), radius in _spots(dots, frame):
        if dot.unfused_flops_per_byte and dot.unfused_flops_per_s:
            x, y = frame.pixel(dot.unfused_flops_per_byte, dot.unfused_flops_per_s)
            long = math.hypot(to_x - x, to_y - y)
            if long > radius + _SHORT:
                ahead = (long - radius - 4) / long
                yield x, y, x + (to_x - x) * ahead, y + (to_y - y) * ahead


_SHORT = 12
"""A line that sticks out of its point by less is a smudge."""


def _spots(
    dots: Sequence[Point], frame: Frame
) -> Iterator[tuple[Point, tuple[float, float], float]]:
    """Each point with its middle and radius in pixels."""
    largest = max(dot.kernel.share for dot in dots)
    for dot in dots:
        radius = math.sqrt(_area(dot, largest) / math.pi)
        yield dot, frame.pixel(dot.flops_per_byte, dot.flops_per_s), radius


def _names(alt: Any, dots: Sequence[Point], found: Roofs, frame: Frame) -> Any:
    """Names of the kernels that take most of the step, where there is room."""
    called = kernel_labels([dot.kernel for dot in dots])
    spots = [
        Spot(*middle, radius, called[dot.kernel]) for dot, middle, radius in _spots(dots, frame)
    ]
    labels = placed(spots, (frame.width, frame.height), _NAMED, list(_blocked(dots, found, frame)))
    rows = [{"px": label.x, "py": label.y, "text": label.text} for label in labels]
    return data(alt, rows).mark_text(baseline="middle").encode(**at(alt), text="text:N")


def _blocked(dots: Sequence[Point], found: Roofs, frame: Frame) -> Iterator[Box]:
    """Where no name may lie: roofs and their names, and lines of fusion."""
    highest = found.units[0].ridge_flops_per_byte
    (x, y), (to_x, to_y) = slope(found, frame, (frame.left, highest))
    yield from along(x, y, to_x, to_y)
    middle = math.sqrt(frame.left * min(roof.ridge_flops_per_byte for roof in found.units))
    (at_x, at_y), _ = slope(found, frame, (middle, middle))
    yield around(at_x - 5, at_y - 12, 62, 46)
    for roof in found.units:
        x, y = frame.pixel(roof.ridge_flops_per_byte, roof.peak_flops_per_s)
        yield from along(x, y, frame.width, y)
    for y, text in peaks(found, frame):
        box = text_box(0, y, text)
        yield frame.width + box[0] - box[2], box[1], frame.width, box[3]
    for move in _moves(dots, frame):
        yield from along(*move)
        yield around(*move[:2], 12, 12)
