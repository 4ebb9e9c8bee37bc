"""The words of kernel models: a handful of constants, each with a meaning and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from planner.cost.types import Device
from planner.num import Number

ShapeT_contra = TypeVar("ShapeT_contra", contravariant=True)

Constants = Mapping[str, float]
"""Values of a model's constants, by name. SI units."""


@dataclass(frozen=True)
class Constant:
    """One constant of a kernel model."""

    name: str
    meaning: str
    unit: str
    """s, ratio, 1, bytes/s: what its value counts in."""
    low: float
    high: float
    start: float
    """Where a fit begins, and what an unmeasured GPU gets when no class is known."""
    effective_above: float | None = None
    """A value beyond this is no longer physics (an efficiency above 1) and is labelled so."""


@dataclass(frozen=True)
class Variant:
    """One kernel of a family: what a calibration file keys its constants by, as in ``bf16``."""

    name: str
    constants: tuple[Constant, ...]
    """At most 14 that are fitted at once."""
    lender: str = ""
    """A variant that runs some of the same kernels, measured by themselves."""
    lent: tuple[str, ...] = ()
    """Constants of these: where the lender is fitted, its values stand."""


class TimeOfKernel(Protocol, Generic[ShapeT_contra]):
    """The formula of a family: seconds on the device, floor included.

    Pure and vectorised: shapes may hold NumPy arrays. Time never falls when the work grows, but for
    where an engine goes over to another kernel by size alone.
    ``warm`` says that weights, KV and experts may lie in the L2, as in benchmark loops that repeat
    a shape; serving reads them cold.
    """

    def __call__(
        self,
        variant: str,
        shape: ShapeT_contra,
        device: Device,
        values: Constants,
        *,
        warm: bool = False,
    ) -> Number: ...


@dataclass(frozen=True, eq=False)
class KernelModel(Generic[ShapeT_contra]):
    """A family of kernels: one formula, and the variants that give it their constants."""

    family: str
    """gemm, attention_prefill, attention_decode, mla_prefill, mla_decode, moe, collective …"""
    variants: Mapping[str, Variant]
    time_s: TimeOfKernel[ShapeT_contra]
