"""The measured roofline over the datasheet's: what a machine reaches, operator by operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from planner.charts.files import altair
from planner.report.lab import Point, intensity
from planner.spec.types import GpuSpec

_WIDTH, _HEIGHT = 620, 380
_MARGIN = 2.0
"""What is drawn beyond the lowest and the highest point, as a factor."""


def roofline_chart(
    points: Sequence[Point], gpu: GpuSpec, ceilings: Mapping[str, float], *, described: bool
) -> Any:
    """A chart of Altair: roofs as lines, GEMMs by M as points, both axes logarithmic.

    ``described`` says whether the gpu spec is a datasheet's; else only the measured roof is drawn.
    Raises UsageError where Altair is missing.
    """
    alt = altair()
    dots = list(_dots(points))
    reached = [dot["flops_per_byte"] for dot in dots]
    domain = [min(reached) / _MARGIN, max(reached) * _MARGIN]
    roofs = list(_roofs(gpu, ceilings, domain, described=described))
    axes = _axes(alt, domain)
    layers = _lines(alt, roofs, axes) + _marks(alt, dots, axes)
    title = alt.Title(
        f"{gpu.title}: GEMMs climb the roofline as M grows",
        subtitle="every point a measured product, its weights read from memory",
        anchor="start",
    )
    sized = layers.properties(width=_WIDTH, height=_HEIGHT, title=title)
    return sized.configure_axis(gridColor="#eee")


def _axes(alt: Any, domain: Sequence[float]) -> dict[str, Any]:
    scale = alt.Scale(type="log", domain=domain, nice=False)
    x = alt.X("flops_per_byte:Q", title="arithmetic intensity, FLOP a byte", scale=scale)
    scale = alt.Scale(type="log", nice=False)
    y = alt.Y("tflops_per_s:Q", title="TFLOP/s", scale=scale, axis=alt.Axis(format="~g"))
    return {"x": x, "y": y}


def _lines(alt: Any, roofs: Sequence[Mapping[str, Any]], axes: Mapping[str, Any]) -> Any:
    lines = alt.Chart(alt.Data(values=roofs)).mark_line(strokeWidth=2)
    return lines.encode(strokeDash=alt.StrokeDash("roof:N", title=None), **axes)


def _marks(alt: Any, dots: Sequence[Mapping[str, Any]], axes: Mapping[str, Any]) -> Any:
    points = alt.Chart(alt.Data(values=dots)).mark_point(filled=True, size=50, opacity=0.9)
    tooltip = [
        alt.Tooltip("projection:N", title="K × N"),
        alt.Tooltip("rows:Q", title="M"),
        alt.Tooltip("time_us:Q", title="us", format=",.4~g"),
        alt.Tooltip("tflops_per_s:Q", title="TFLOP/s", format=",.3~g"),
    ]
    color = alt.Color("projection:N", title="K × N of the GEMM", sort=None)
    return points.encode(color=color, tooltip=tooltip, **axes)


def _dots(points: Iterable[Point]) -> Iterator[dict[str, Any]]:
    for point in points:
        if point.kind == "gemm":
            m, k, n = (point.sizes[name] for name in ("rows", "depth", "features"))
            time_s = point.values["median_s"]
            yield {
                "projection": f"{k} × {n}",
                "rows": m,
                "flops_per_byte": intensity(m, k, n),
                "tflops_per_s": 2 * m * k * n / time_s / 1e12,
                "time_us": time_s * 1e6,
            }


def _roofs(
    gpu: GpuSpec, ceilings: Mapping[str, float], domain: Sequence[float], *, described: bool
) -> Iterator[dict[str, Any]]:
    """Both ends and the ridge of each roof, min(peak, bandwidth · intensity)."""
    roofs = {"measured": (ceilings["flops_per_s"], ceilings["bandwidth_bytes_per_s"])}
    if described:
        dtype = next(name for name in ("bf16", "fp16") if name in gpu.matrix)
        roofs["datasheet"] = (gpu.matrix[dtype].value, gpu.memory.bandwidth.value)
    for name, (peak, bandwidth) in roofs.items():
        for here in (domain[0], peak / bandwidth, domain[1]):
            yield {
                "roof": name,
                "flops_per_byte": here,
                "tflops_per_s": min(peak, bandwidth * here) / 1e12,
            }
