"""Normalisation and softmax: each row is reduced, then rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planner.ops.pointwise import EXP_FLOPS
from planner.ops.registry import operator
from planner.ops.types import Formats, OpClass, Operator, Parameters, Shape, Site, Work, static


@dataclass(frozen=True)
class _RowNorm(Operator):
    size: int = 0
    """Elements normalised together; by default the last side. head_dim for a norm per head."""
    groups: int = 1
    """Parts of the last side normalised apart, each with weights of its own (Mamba-2, Cohere)."""

    op_class: ClassVar[OpClass] = OpClass.ROW_REDUCTION

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        last = static(inputs[0][-1])
        if last % self._size(inputs):
            raise ValueError(f"rows of {last} do not split into norms of {self.size}")
        if last % self.groups:
            raise ValueError(f"rows of {last} do not split into {self.groups} groups")
        return (inputs[0],)

    def _size(self, inputs: tuple[Shape, ...]) -> int:
        return self.size or static(inputs[0][-1])


@operator("rms_norm")
@dataclass(frozen=True)
class RmsNorm(_RowNorm):
    """y = x / √(mean x² + ε) · w: 4 vector FLOPs an element (square, sum, scale, weight)."""

    weight: bool = True

    about: ClassVar[str] = "root-mean-square norm"

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        if not self.weight:
            return ()
        return (Parameters(self._size(inputs), formats.activations),)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=4 * site.elements(), weight_bytes=site.weight_bytes())


@operator("layer_norm")
@dataclass(frozen=True)
class LayerNorm(_RowNorm):
    """y = (x − mean) / √(var + ε) · w + b: 7 vector FLOPs an element."""

    weight: bool = True
    bias: bool = True

    about: ClassVar[str] = "layer norm"

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        owned = self.weight + self.bias
        if not owned:
            return ()
        return (Parameters(owned * self._size(inputs), formats.activations),)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=7 * site.elements(), weight_bytes=site.weight_bytes())


@operator("softmax")
@dataclass(frozen=True)
class Softmax(Operator):
    """Row softmax: maximum, exponential, sum, division."""

    op_class: ClassVar[OpClass] = OpClass.ROW_REDUCTION
    about: ClassVar[str] = "row softmax"

    def work(self, site: Site) -> Work:
        return Work(vector_flops=(3 + EXP_FLOPS) * site.elements())
