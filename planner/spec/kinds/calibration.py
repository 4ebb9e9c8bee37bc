"""Fitted constants."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.spec.kinds.base import CatalogSpec, Spec
from planner.spec.quantity import ConstantValue, Seconds


class ResidualBand(Spec):
    """Quantiles of log(measured / predicted) among kernels predicted to take so long."""

    above: Seconds
    below: Seconds | None = Field(None, description="None = no upper end")
    rows: int = Field(ge=1)
    q10: float
    q50: float
    q90: float


class KernelResiduals(Spec):
    """Quantiles of log(measured / predicted) on the drawn rows: what intervals are made of."""

    rows: int = Field(ge=1)
    q10: float
    q50: float
    q90: float
    bands: tuple[ResidualBand, ...] = Field((), description="Elsewhere the overall ones hold")


class KernelErrors(Spec):
    """Errors on the rows held back, as fractions of the measured time."""

    rows: int = Field(ge=1)
    median: float
    mean: float
    bias: float = Field(description="Median of predicted / measured - 1")
    coverage: float = Field(description="Share inside the 80 % interval of the residuals")


class KernelRows(Spec):
    """What was read, and what became of it."""

    read: int = Field(ge=0)
    kept: int = Field(ge=0, description="Distinct shapes that may be fitted and scored")
    fitted: int = Field(ge=0)
    held: int = Field(ge=0)
    flags: dict[str, int] = Field(
        default_factory=dict, description="Rows that bear a lint flag, kept or not"
    )


class KernelCalibration(Spec):
    """Constants of one variant of a kernel family, with where they came from."""

    source: str = Field(description="The table, below the package's data folder")
    version: str | None = Field(None, description="Version of the engine that was measured")
    rows: KernelRows
    constants: dict[str, ConstantValue]
    effective: tuple[str, ...] = Field(
        (), description="Constants beyond physics: they stand for something the model lacks"
    )
    at_bound: tuple[str, ...] = Field((), description="Constants that the fit left at a bound")
    residuals: KernelResiduals
    errors: KernelErrors


class RejectedTable(Spec):
    """A table that was read and not used."""

    kernel: str
    source: str
    rows: int = Field(ge=0)
    reason: str


class HostTimes(Spec):
    """Fixed costs of this machine; what is left out stays as the engine's catalogue file says."""

    launch: Seconds | None = Field(None, description="Host time per kernel launch")
    replay: Seconds | None = Field(None, description="Host time per graph replay")
    kernel: Seconds | None = Field(
        None, description="Device time a launched kernel takes beyond its work"
    )
    graph_node: Seconds | None = Field(
        None, description="Device time a graph node takes beyond its work"
    )
    step: Seconds | None = Field(None, description="Host time per step that nothing hides")
    sequence: Seconds | None = Field(
        None, description="Host time per sequence and step that nothing hides"
    )
    collective: Seconds | None = Field(
        None, description="Device time per launch of a collective kernel beyond its constants"
    )


EfficiencyFamily = Literal["gemm", "attention", "elementwise", "collective", "moe", "all"]
"""Families of kernels that share a ratio; ``all`` is every family without one of its own."""
Ratio = Annotated[float, Field(gt=0)]


class MeasuredRuns(Spec):
    """The whole runs behind a calibration, and how far predictions are from them."""

    count: int = Field(ge=1, description="Runs that count; repeats of one plan count once")
    ids: tuple[str, ...] = Field((), description="Ids of the recorded runs")
    dates: tuple[str, ...] = Field((), description="Days on which they were recorded")
    versions: tuple[str, ...] = Field((), description="Versions of the engine that ran")
    kinds: tuple[Literal["decode", "prefill", "mixed", "shapes"], ...] = Field(
        (), description="What the measured steps were"
    )
    shortest: Seconds = Field(description="Shortest of the measured steps, as predicted")
    longest: Seconds = Field(description="Longest of them")
    q10: float = Field(
        description="10 % quantile of log(measured / predicted), each run left out of its own fit"
    )
    q50: float
    q90: float


class CalibrationSpec(CatalogSpec):
    """What was measured of one GPU and engine: kernel constants, fixed costs, whole runs."""

    kind: Literal["calibration"] = "calibration"
    gpu: str
    backend: str
    package: str | None = Field(None, description="The measurements' package and its version")
    date: str = Field(description="The day of the fit")
    script: str = Field(description="The command that reproduces the fit")
    seed: int = Field(0, description="What the 20 % were drawn with")
    kernels: dict[str, KernelCalibration] = Field(
        default_factory=dict, description="By family and variant, as in `gemm.bf16`"
    )
    rejected: tuple[RejectedTable, ...] = Field((), description="Tables read and not used")
    evidence: Literal["calibrated", "measured-here"] = Field(
        "calibrated", description="`measured-here`: on the user's own machine"
    )
    host: HostTimes | None = Field(None, description="Fixed costs of the machine and its engine")
    efficiency: dict[EfficiencyFamily, Ratio] = Field(
        default_factory=dict,
        description="By kernel family or `all`: by how much its work takes longer than modelled",
    )
    runs: MeasuredRuns | None = Field(None, description="Whole runs that it was fitted to")
