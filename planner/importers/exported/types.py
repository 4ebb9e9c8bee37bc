"""An exported graph in one vocabulary: that of ONNX's operators, whatever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

Side = int | str
"""A fixed side, or the name of one that the caller chooses."""
Sides = tuple[Side, ...]


@dataclass(frozen=True)
class Value:
    """A tensor: its sides, None where the export does not say, and its number format."""

    name: str
    sides: Sides | None
    dtype: str
    """As the planner writes it (``fp32``, ``bf16``); ``int`` and ``bool`` for what is no weight."""


@dataclass(frozen=True)
class Weight:
    """A stored tensor."""

    name: str
    sides: tuple[int, ...]
    dtype: str
    parameter: bool = True
    """False for a buffer, which is no parameter though it is stored."""
    numbers: tuple[float, ...] | None = None
    """What it holds, where that is little: sides of a reshape, an epsilon."""
    triangle: bool = False
    """Whether it is a mask that hides later tokens."""

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.sides)


@dataclass(frozen=True)
class Step:
    """One operator of the export. Absent optional inputs are empty names."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def read(self, position: int) -> str:
        """The name of an input, empty where there is none."""
        return self.inputs[position] if position < len(self.inputs) else ""


@dataclass(frozen=True)
class Export:
    """A graph as it was exported."""

    format: str
    """``onnx`` or ``torch``."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    values: Mapping[str, Value]
    weights: Mapping[str, Weight]

    def sides(self, name: str) -> Sides | None:
        """Sides of a tensor or weight; None where nobody says."""
        if name in self.weights:
            return self.weights[name].sides
        value = self.values.get(name)
        return value.sides if value else None
