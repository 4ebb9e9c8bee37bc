"""Constants of one machine from what the lab measured on it.

The lab reads weights and KV cold, as serving does, and activations as they lie. It measures few
points of each kind: a few dozen rows to a dozen constants. All are fitted; errors and residuals are
those of rows left out in turn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from planner.calibrate import files
from planner.calibrate.families import family
from planner.calibrate.fit import LEAST, Fit, fit_few
from planner.calibrate.types import Rows
from planner.cost.kernels.attention import AttentionShape
from planner.cost.kernels.collective import CollectiveShape
from planner.cost.kernels.elementwise import STREAM, ElementwiseShape
from planner.cost.kernels.gemm import GemmShape
from planner.cost.types import Device
from planner.spec.types import CalibrationSpec, HostTimes

SOURCE = "planner lab"
_BYTES = {"bf16": 2, "fp16": 2}
_STREAMS = {"copy": 1, "triad": 2}
"""Tensors read; one is written."""


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


@dataclass(frozen=True)
class Subject:
    """What was measured: a device under an engine."""

    device: Device
    engine: str
    version: str
    attention: str
    """The attention kernel that the engine runs, by its name in the kernel models: ``fa2``."""


def fits(points: Sequence[Point], subject: Subject) -> tuple[list[Fit], list[Rows]]:
    """A fit of each family with enough points, and the rows of those with too few.

    Raises UsageError where SciPy is missing.
    """
    found: list[Fit] = []
    few: list[Rows] = []
    for rows in tables(points, subject):
        if len(rows.time_s) < LEAST:
            few.append(rows)
            continue
        model = family(rows.family).model
        starts = family(rows.family).starts(rows, subject.device)
        found.append(fit_few(model, rows, subject.device, starts=starts))
    return found, few


def tables(points: Iterable[Point], subject: Subject) -> Iterator[Rows]:
    """The lab's points as rows of kernel families."""
    by_kind: dict[str, list[Point]] = {}
    for point in points:
        by_kind.setdefault(point.kind, []).append(point)
    makers = {
        "gemm": ("gemm", "bf16", _gemm),
        "stream": ("elementwise", STREAM.name, _stream),
        "attention": ("attention_decode", f"{subject.attention}.bf16", _attention),
        "collective": ("collective", "all_reduce", _collective),
    }
    for kind, (name, variant, make) in makers.items():
        if kind in by_kind:
            measured = by_kind[kind]
            time_s = np.array([point.values["median_s"] for point in measured])
            kept = np.ones(len(time_s), bool)
            shape, cold = make(measured), kind != "stream"
            cell = (name, subject.device.name, subject.engine, subject.version, variant)
            yield Rows(*cell, SOURCE, shape, time_s, {}, kept, cold=cold)


def _column(points: Sequence[Point], name: str) -> Any:
    return np.array([float(point.sizes[name]) for point in points])


def _gemm(points: Sequence[Point]) -> GemmShape:
    return GemmShape(*(_column(points, name) for name in ("rows", "depth", "features")))


def _stream(points: Sequence[Point]) -> ElementwiseShape:
    width = np.array([_BYTES[point.sizes["dtype"]] for point in points])
    size = _column(points, "rows") * _column(points, "columns") * width
    reads = np.array([_STREAMS[point.sizes["operation"]] for point in points])
    return ElementwiseShape(reads * size, size, _column(points, "rows"))


def _attention(points: Sequence[Point]) -> AttentionShape:
    batch, context, heads, kv_heads, head_dim = (
        _column(points, name) for name in ("batch", "context", "heads", "kv_heads", "head_dim")
    )
    return AttentionShape(batch, np.ones(len(points)), context, heads, kv_heads, head_dim)


def _collective(points: Sequence[Point]) -> CollectiveShape:
    return CollectiveShape(_column(points, "bytes"), _column(points, "ranks"))


def ceilings(points: Iterable[Point]) -> dict[str, float]:
    """The highest rates that anything reached: ``flops_per_s``, ``vector_flops_per_s`` and
    ``bandwidth_bytes_per_s``, each where something tells it.

    Bandwidth is that of tensors well beyond the cache: copy, triad, and weights read by one row.
    """
    found: dict[str, float] = {}
    for point in points:
        for name, rate in _rates(point):
            found[name] = max(rate, found.get(name, 0.0))
    return found


_LARGE_BYTES = 2**27
_VECTOR = "vector"


def _rates(point: Point) -> Iterator[tuple[str, float]]:
    sizes, values = point.sizes, point.values
    if point.kind in {"gemm", _VECTOR}:
        m, k, n = (sizes[name] for name in ("rows", "depth", "features"))
        time_s = values["median_s"]
        name = "vector_flops_per_s" if point.kind == _VECTOR else "flops_per_s"
        yield name, 2 * m * k * n / time_s
        weights = k * n * _BYTES.get(sizes["dtype"], 4)
        if point.kind == "gemm" and weights * sizes["copies"] >= _LARGE_BYTES:
            yield "bandwidth_bytes_per_s", weights / time_s
    elif point.kind == "stream":
        size = sizes["rows"] * sizes["columns"] * _BYTES[sizes["dtype"]]
        moved = (1 + _STREAMS[sizes["operation"]]) * size
        if moved >= _LARGE_BYTES:
            yield "bandwidth_bytes_per_s", moved / values["median_s"]


def host_s(points: Iterable[Point], floor_s: float | None = None) -> dict[str, float]:
    """Host times that the lab measured, by the names that calibrations give them.

    On a CPU there is no queue between host and device: calling an operator takes its time there,
    as a kernel's start. Fitted floors (``floor_s``, of streaming kernels) hold one call already, so
    they stand for what a node of a graph takes; a kernel starts as one of a step does, with the
    Python between two.
    """
    for point in points:
        if point.kind == "launch":
            launch = point.values["launch_s"]
            call = point.values.get("call_s", launch)
            if "graph_node_s" not in point.values:
                node = launch if floor_s is None else min(launch, floor_s)
                return {"launch": 0.0, "replay": 0.0, "kernel": call, "graph_node": node}
            return {
                "launch": call,
                "replay": point.values["replay_s"],
                "graph_node": point.values["graph_node_s"],
            }
    return {}


def streaming_floor_s(found: Iterable[Fit]) -> float | None:
    """The floor of streaming kernels among fits; None where there is none."""
    return next((fit.constants["t0_s"] for fit in found if fit.rows.family == "elementwise"), None)


def calibration(
    found: Sequence[Fit],
    few: Sequence[Rows],
    host: Mapping[str, float],
    subject: Subject,
    provenance: files.Provenance,
) -> CalibrationSpec:
    """The overlay that a lab run leaves: its kernels and host times, measured on this machine."""
    device, engine = subject.device, subject.engine
    return CalibrationSpec(
        name=f"{device.name}-{engine}-lab",
        title=f"{device.title} under {engine}, measured by the lab",
        gpu=device.name,
        backend=engine,
        **dataclasses.asdict(provenance),
        evidence="measured-here",
        host=HostTimes.model_construct(None, **host),
        kernels={files.kernel(each.rows): files.entry(each) for each in found},
        rejected=tuple(
            files.rejected_table(dataclasses.replace(rows, rejected=_FEW)) for rows in few
        ),
    )


_FEW = "too few points to fit"
