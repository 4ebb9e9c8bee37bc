"""The words of calibration: rows that were measured, and families that know how to read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from planner.cost.kernels.types import Constants, KernelModel
from planner.cost.types import Device

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Indices: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pick:
    """Which cells to read: catalogue names of GPUs and backends; empty means all."""

    gpus: frozenset[str] = frozenset()
    engines: frozenset[str] = frozenset()

    def wants(self, gpu: str, engine: str) -> bool:
        """Whether a cell was asked for."""
        return (not self.gpus or gpu in self.gpus) and (not self.engines or engine in self.engines)


@dataclass(frozen=True)
class Rows:
    """Measured times of one kernel variant on one GPU under one engine, after lint.

    Nothing that was read is dropped in silence: a row that must not be fitted stays here with
    its flag and `kept` false, and a file that must not be used stays with its reason.
    """

    family: str
    gpu: str
    """Catalogue name, as in ``h100-sxm``."""
    engine: str
    """Catalogue name of the backend: ``vllm``, ``sglang``, ``tensorrt-llm``."""
    version: str
    variant: str
    source: str
    """Path of the file below the source's root."""
    shape: Any
    """The family's shape; its array fields are parallel to `time_s`."""
    time_s: Floats
    lint: Mapping[str, Mask]
    """By flag, a key of `planner.calibrate.lint.REASONS`: which rows bear it."""
    kept: Mask
    """Rows that may be fitted and scored."""
    merged: int = 0
    """Further rows of the file that measured a shape again; `time_s` holds the median."""
    rejected: str = ""
    """Why the whole table is not used; empty when it is."""
    evenly: bool = False
    """Whether rows are drawn at even steps as they stand, so that no stretch of them is left out:
    where time depends on which of several kernels a size falls to."""
    cold: bool = False
    """Whether weights and caches were read from memory, as in serving, and not found in the L2."""

    @property
    def cell(self) -> str:
        """How messages call it."""
        return f"{self.gpu} {self.engine} {self.family}.{self.variant}"

    @property
    def flags(self) -> dict[str, int]:
        """How many rows bear each flag, the kept and the left out together."""
        counts = {"duplicate": self.merged} if self.merged else {}
        return counts | {name: int(mask.sum()) for name, mask in self.lint.items() if mask.any()}

    def take(self, where: Mask | Indices) -> Rows:
        """The rows a mask or an index array selects."""
        return dataclasses.replace(
            self,
            shape=take(self.shape, where),
            time_s=self.time_s[where],
            lint={name: mask[where] for name, mask in self.lint.items()},
            kept=self.kept[where],
        )


def take(shape: Any, where: Mask | Indices) -> Any:
    """A shape with its array fields cut to a selection; scalars stay."""
    fields = {item.name: getattr(shape, item.name) for item in dataclasses.fields(shape)}
    cut = {name: value[where] for name, value in fields.items() if hasattr(value, "__array__")}
    return dataclasses.replace(shape, **cut)


class Reader(Protocol):
    """Reads a family's tables below a root, lints them and groups them by cell and variant."""

    def __call__(self, root: Path, pick: Pick) -> Iterable[Rows]: ...


class Starter(Protocol):
    """Further starting points of a fit, each a full set of constants or a part of one."""

    def __call__(self, rows: Rows, device: Device) -> Iterable[Constants]: ...


@dataclass(frozen=True)
class Axes:
    """What a family's rows can be left out by, each array parallel to `Rows.time_s`."""

    sizes: Mapping[str, Floats] = field(default_factory=dict)
    """Amounts of work, as ``bytes`` and ``flops``."""
    groups: Mapping[str, Floats] = field(default_factory=dict)
    """Codes of what belongs to one model, as ``shape``: equal codes are left out together."""
    operand: str = "bf16"
    """Format that the matrix units multiply in: whose peak the bare roofline takes."""


def _no_axes(rows: Rows) -> Axes:  # noqa: ARG001 - a family's own function names it
    return Axes()


def _no_starts(rows: Rows, device: Device) -> Iterable[Constants]:  # noqa: ARG001 - a Starter

    return ()


@dataclass(frozen=True)
class Family:
    """A kernel family that can be calibrated: its model and where its measurements lie."""

    name: str
    model: KernelModel[Any]
    tables: Reader
    starts: Starter = field(default=_no_starts)
    axes: Callable[[Rows], Axes] = field(default=_no_axes)
