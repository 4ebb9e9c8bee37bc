"""A measured run: what a benchmark or a profiler reported, in one vocabulary.

A run is a fact: it is recorded once and never edited. Plans and runs never mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MetricName = Literal[
    "step", "ttft", "tpot", "itl", "latency", "output_throughput", "total_throughput"
]
"""step: wall time of one engine step. ttft: arrival to first token. tpot: (end to end − ttft) /
(output − 1) of a request. itl: gap between two streamed chunks. latency: end to end of a request,
or of a whole static batch. Throughputs count generated tokens, or generated and prompt tokens.
"""
Statistic = Literal["mean", "median", "p90", "p95", "p99", "min", "max"]
UNITS: Mapping[str, str] = {
    "step": "s",
    "ttft": "s",
    "tpot": "s",
    "itl": "s",
    "latency": "s",
    "output_throughput": "tokens/s",
    "total_throughput": "tokens/s",
}


@dataclass(frozen=True)
class Metric:
    """One figure of a run, in SI."""

    name: MetricName
    statistic: Statistic
    value: float

    @property
    def unit(self) -> str:
        """Seconds, or tokens a second."""
        return UNITS[self.name]


@dataclass(frozen=True)
class Source:
    """The file a run was read from."""

    format: str
    """As in ``vllm_bench_serve``."""
    tool: str
    """Who wrote it, with its version where the file says so."""
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class KernelTime:
    """One kernel of a trace."""

    name: str
    calls: int
    total_s: float


@dataclass(frozen=True)
class KernelStep:
    """One kernel of a representative step, at its place in the order of starts."""

    name: str
    time_s: float
    """Median over the steps of that shape."""


@dataclass(frozen=True)
class TracedSteps:
    """The steps of a trace, and the kernels of the commonest kind of step.

    Of several GPUs it is one, the one that worked longest.
    """

    count: int
    """Steps in the file, of every kind."""
    alike: int
    """Those of them that run the same kernels in the same order: what the rest here is about."""
    found_by: str
    """What told one step from the next, in words."""
    sequence: tuple[KernelStep, ...] = ()
    """Empty where the file keeps no order."""
    wall_s: float | None = None
    """Median from the start of a step to the start of the next; None without two in a row."""
    busy_s: float | None = None
    """Median time in which some kernel ran, overlaps counted once."""


@dataclass(frozen=True)
class Run:
    """What one file reports of one benchmark."""

    source: Source
    metrics: tuple[Metric, ...]
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """By metric name, single measurements in SI, where the file keeps them."""
    context: Mapping[str, Any] = field(default_factory=dict)
    """What the file says of its circumstances, by the dotted paths of a deployment
    (``workload.batch``, ``parallel.tensor``, ``backend.version``) and ``model``, ``gpu``. Nothing
    is guessed: what it does not say is not here.
    """
    kernels: tuple[KernelTime, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader should know: definitions that differ, units that were mislabelled."""
    traced: TracedSteps | None = None
    """Steps found in a trace; None where the file is none or no step could be told."""
