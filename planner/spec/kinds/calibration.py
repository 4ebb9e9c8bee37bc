"""Fitted constants and prices."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.spec.kinds.base import CatalogSpec
from planner.spec.quantity import PricePerHour


class CalibrationSpec(CatalogSpec):
    """Fitted constants for one GPU and engine, with where they came from."""

    kind: Literal["calibration"] = "calibration"
    gpu: str
    backend: str
    version: str | None = None
    date: str
    script: str = Field(description="The command that reproduces the fit")
    constants: dict[str, dict[str, float]] = Field(
        default_factory=dict, description="By kernel family: constants in SI units"
    )


class PricesSpec(CatalogSpec):
    """What GPUs cost, on a day."""

    kind: Literal["prices"] = "prices"
    date: str = Field(description="The day the prices were read, as in 2026-11-30")
    gpus: dict[str, PricePerHour] = Field(description="Per GPU and hour, by catalogue name")
