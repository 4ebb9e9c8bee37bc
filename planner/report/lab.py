"""What the lab found, as people read it: ceilings, the GEMM climb, fits, the step's verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rich.console import Group, RenderableType

from planner import units
from planner.plan.matched import KernelMatch
from planner.plan.types import Plan
from planner.plan.verdict import Verdict
from planner.report.accuracy import fit_table
from planner.report.cells import bullets, facts, heading, share, small, table, words
from planner.report.kernel_match import match_view
from planner.report.verdicts import verdict_view
from planner.spec.types import GpuSpec


class Point(Protocol):
    """One measurement of the lab."""

    @property
    def kind(self) -> str:
        """What was measured."""
        ...

    @property
    def sizes(self) -> Mapping[str, Any]:
        """At which sizes."""
        ...

    @property
    def values(self) -> Mapping[str, Any]:
        """What came out, in SI."""
        ...


class Scored(Protocol):
    """A fit with its errors on points that it has not seen."""

    @property
    def rows(self) -> Any:
        """What was fitted."""
        ...

    @property
    def errors(self) -> Any:
        """How far off it is."""
        ...


@dataclass(frozen=True)
class LabReport:
    """Everything a lab run has to say."""

    machine: Mapping[str, Any]
    gpu: GpuSpec
    described: bool
    """Whether a datasheet stands behind the gpu spec; otherwise the lab's own ceilings do."""
    ceilings: Mapping[str, float]
    host_s: Mapping[str, float]
    gemms: Sequence[Mapping[str, Any]]
    fits: Sequence[Mapping[str, Any]]
    plan: Plan
    run_ids: tuple[str, ...]
    verdict: Verdict
    kernels: KernelMatch | None
    """The step's kernels against the plan's, where there is a trace."""
    notes: tuple[str, ...]
    calibration: str
    folder: str


def gemm_rows(points: Iterable[Point], gpu: GpuSpec) -> list[dict[str, Any]]:
    """The first projection's climb: M, time, achieved FLOP/s and its share of the peak."""
    found: list[dict[str, Any]] = []
    shape: tuple[int, int, bool] | None = None
    for point in points:
        if point.kind != "gemm":
            continue
        m, k, n = (point.sizes[name] for name in ("rows", "depth", "features"))
        kind = (k, n, point.sizes["bias"])
        shape = shape or kind
        if kind == shape:
            flops_per_s = 2 * m * k * n / point.values["median_s"]
            found.append(
                {
                    "rows": m,
                    "depth": k,
                    "features": n,
                    "time_s": point.values["median_s"],
                    "flops_per_s": flops_per_s,
                    "flops_per_byte": intensity(m, k, n),
                    "share": flops_per_s / gpu.matrix[point.sizes["dtype"]].value,
                }
            )
    return found


def intensity(m: int, k: int, n: int) -> float:
    """FLOP a byte of a product in 16 bit: 2MKN / ((MK + KN + MN)·2), the seed's formula."""
    return m * k * n / (m * k + k * n + m * n)


def fit_rows(fits: Iterable[Scored]) -> list[dict[str, Any]]:
    """Errors of each fit on the points it has not seen."""
    return [
        {
            "gpu": fit.rows.gpu,
            "engine": fit.rows.engine,
            "kernel": f"{fit.rows.family}.{fit.rows.variant}",
            "rows": fit.errors.rows,
            "median": fit.errors.median,
            "mean": fit.errors.mean,
            "bias": fit.errors.bias,
            "coverage": fit.errors.coverage,
        }
        for fit in fits
    ]


def lab_view(report: LabReport) -> RenderableType:
    """The whole report."""
    return Group(*_parts(report))


def _parts(report: LabReport) -> Iterator[RenderableType]:
    yield heading(f"{report.gpu.title}: what it reaches")
    yield facts(_ceilings(report))
    if report.gemms:
        first = report.gemms[0]
        yield heading(f"q_proj, {first['depth']} × {first['features']}: M climbs the roofline")
        yield _climb(report)
    yield heading("Kernel models fitted to these points")
    yield fit_table(report.fits)
    yield heading("The whole step, which was in no fit")
    yield verdict_view(report.run_ids[0], report.verdict)
    if report.kernels:
        yield match_view(report.run_ids[-1], report.plan, report.kernels, whole=False)
    yield heading("What came of it")
    yield bullets(
        (
            *report.notes,
            f"calibration: {report.calibration}",
            f"plan {report.plan.plan_id}, runs {', '.join(report.run_ids)}",
            f"use it: planner plan … --set gpu={report.gpu.name} --catalog {report.folder}/catalog",
        )
    )


def _ceilings(report: LabReport) -> Iterator[tuple[str, str]]:
    gpu, found = report.gpu, report.ceilings
    dtype = next(name for name in ("bf16", "fp16") if name in gpu.matrix)
    pairs = (
        ("matrix", "flops_per_s", gpu.matrix[dtype].value, units.show_flops_per_s),
        ("FP32", "vector_flops_per_s", gpu.vector.value, units.show_flops_per_s),
        ("memory", "bandwidth_bytes_per_s", gpu.memory.bandwidth.value, units.show_bandwidth),
    )
    for name, key, peak, show in pairs:
        if key in found:
            beside = f", {share(found[key] / peak)} of the datasheet's {show(peak)}"
            yield name, show(found[key]) + (beside if report.described else "")
    for name, value in report.host_s.items():
        if value:
            yield name.replace("_", " "), units.show_seconds(value)


def _climb(report: LabReport) -> RenderableType:
    of = "of peak" if report.described else "of best"
    found = table(("M", "FLOP/byte", "time", "achieved", of), left=())
    for row in report.gemms:
        found.add_row(
            str(row["rows"]),
            f"{row['flops_per_byte']:.1f}",
            units.show_seconds(row["time_s"]),
            units.show_flops_per_s(row["flops_per_s"]),
            share(row["share"]),
        )
    return Group(found, small("Weights are read from memory, not from the cache."), words(""))
