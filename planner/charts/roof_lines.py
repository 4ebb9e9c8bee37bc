"""The roofs themselves: slope, flats, ridges, what kernels reach, and the names of all these."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from planner.charts.frame import Frame, at
from planner.charts.roofs import Roofs
from planner.charts.theme import data, decades
from planner.units import show_bandwidth, show_flops_per_s


def axes(alt: Any, frame: Frame) -> dict[str, Any]:
    """Intensity along, rate up."""
    ends = ((frame.left, frame.right), (frame.bottom / 1e12, frame.top / 1e12))
    x, y = (alt.Scale(type="log", domain=domain, nice=False) for domain in ends)
    on_x, on_y = (alt.Axis(format="~g", values=decades(*domain)) for domain in ends)
    return {
        "x": alt.X("x:Q", scale=x, axis=on_x, title="arithmetic intensity, FLOP per byte of HBM"),
        "y": alt.Y("y:Q", scale=y, axis=on_y, title="rate, TFLOP/s"),
    }


def roof_lines(alt: Any, found: Roofs, frame: Frame) -> Iterator[Any]:
    """Every line that is no kernel, with its name."""
    placed = axes(alt, frame)
    lines = [*_datasheet(found, frame), *_reached(found, frame)]
    dash = alt.StrokeDash("kind:N", legend=None).scale(
        domain=["datasheet", "reached"], range=[[1, 0], [5, 4]]
    )
    drawn = data(alt, lines).mark_line(strokeWidth=1.4, clip=True)
    faded = alt.Opacity("kind:N", legend=None).scale(
        domain=["datasheet", "reached"], range=[0.9, 0.6]
    )
    yield drawn.encode(**placed, strokeDash=dash, detail="line:N", opacity=faded)
    ridges = [
        {"x": roof.ridge_flops_per_byte, "y": roof.peak_flops_per_s / 1e12, "y2": frame.bottom}
        for roof in found.units
    ]
    down = data(alt, ridges).mark_rule(strokeDash=[1, 4], strokeWidth=1.2, clip=True)
    yield down.encode(**placed, y2=alt.Y2Datum(frame.bottom / 1e12))
    yield from _roof_names(alt, found, frame)


def _datasheet(found: Roofs, frame: Frame) -> Iterator[dict[str, Any]]:
    """Each unit's roof: the memory slope up to its ridge, then flat."""
    for roof in found.units:
        for x in (frame.left, roof.ridge_flops_per_byte, frame.right):
            y = min(roof.peak_flops_per_s, found.bandwidth_bytes_per_s * x)
            yield _end("datasheet", roof.unit, x, y)


def _reached(found: Roofs, frame: Frame) -> Iterator[dict[str, Any]]:
    """What kernels of the plan reach, of the memory and of each unit that bounds one."""
    stream = found.reached_bytes_per_s
    if stream:
        top = max(roof.reached_flops_per_s or roof.peak_flops_per_s for roof in found.units)
        for x in (frame.left, top / stream):
            yield _end("reached", "memory", x, stream * x)
    for roof in found.units:
        peak = roof.reached_flops_per_s
        if peak:
            corner = peak / (stream or found.bandwidth_bytes_per_s)
            for x in (corner, frame.right):
                yield _end("reached", roof.unit, x, peak)


def _end(kind: str, line: str, x: float, y: float) -> dict[str, Any]:
    return {"kind": kind, "line": line, "x": x, "y": y / 1e12}


def _roof_names(alt: Any, found: Roofs, frame: Frame) -> Iterator[Any]:
    """Peaks and ridges at the right end, the bandwidth along the slope."""
    names = [{"px": frame.width - 2.0, "py": y, "text": text} for y, text in peaks(found, frame)]
    words = data(alt, names).mark_text(align="right", baseline="middle")
    yield words.encode(**at(alt), text="text:N")
    middle = math.sqrt(frame.left * min(roof.ridge_flops_per_byte for roof in found.units))
    (x, y), (to_x, to_y) = slope(found, frame, (middle, middle * 2))
    angle = math.degrees(math.atan2(to_y - y, to_x - x)) % 360
    words_at = [{"px": x, "py": y, "text": show_bandwidth(found.bandwidth_bytes_per_s)}]
    words = data(alt, words_at).mark_text(angle=angle, baseline="bottom", dy=-4)
    yield words.encode(**at(alt), text="text:N")


def peaks(found: Roofs, frame: Frame) -> Iterator[tuple[float, str]]:
    """Middle and text of each flat roof's name: the highest above its line, the others below."""
    for place, roof in enumerate(found.units):
        peak = show_flops_per_s(roof.peak_flops_per_s)
        ridge = f"ridge {roof.ridge_flops_per_byte:.3g}"
        _, y = frame.pixel(frame.right, roof.peak_flops_per_s)
        yield y + (11 if place else -10), f"{roof.unit} {peak}, {ridge}"


def slope(
    found: Roofs, frame: Frame, ends: tuple[float, float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two points of the memory roof in pixels."""
    x, to_x = ends
    bandwidth = found.bandwidth_bytes_per_s
    return frame.pixel(x, bandwidth * x), frame.pixel(to_x, bandwidth * to_x)
