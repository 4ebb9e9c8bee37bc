"""Fitted constants and prices."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.spec.kinds.base import CatalogSpec, Spec
from planner.spec.quantity import ConstantValue, PricePerHour, Seconds


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


class CalibrationSpec(CatalogSpec):
    """Fitted constants for one GPU and engine, with where they came from."""

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


class PricesSpec(CatalogSpec):
    """What GPUs cost, on a day."""

    kind: Literal["prices"] = "prices"
    date: str = Field(description="The day the prices were read, as in 2026-11-30")
    gpus: dict[str, PricePerHour] = Field(description="Per GPU and hour, by catalogue name")
