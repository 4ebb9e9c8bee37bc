"""Convolution and pooling of any rank, stride, padding and grouping, with the shape written out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planner.ops.registry import operator
from planner.ops.types import (
    Formats,
    OpClass,
    Operator,
    Parameters,
    Shape,
    Site,
    Work,
    show_shape,
    static,
)


@operator("conv")
@dataclass(frozen=True)
class Conv(Operator):
    """[n, C, ..] -> [n, channels, ..] as an implicit GEMM: 2·outputs·(C / groups)·window FLOPs.

    Transposed, each input element meets the window: 2·inputs·(channels / groups)·window. The input
    is charged once: overlapping windows are assumed to hit on-chip memory.
    """

    channels: int
    window: int
    """Elements of the window: 9 for 3 × 3."""
    shape: Shape
    groups: int = 1
    """Parts of the channels that see only themselves; all of them for a depthwise one."""
    bias: bool = True
    transposed: bool = False
    """Whether it spreads each input element over the window."""

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    about: ClassVar[str] = "convolution of any rank, stride and grouping"
    matrix: ClassVar[bool] = True

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if len(inputs[0]) < 3 or len(inputs[0]) != len(self.shape):  # noqa: PLR2004 - n, C, sides
            raise ValueError(
                f"needs [n, channels, ..] on both ends, got {show_shape(inputs[0])} and "
                f"{show_shape(self.shape)}"
            )
        if static(self.shape[1]) != self.channels:
            raise ValueError(f"{show_shape(self.shape)} has no {self.channels} channels")
        self._depth(inputs)
        return (self.shape,)

    def _depth(self, inputs: tuple[Shape, ...]) -> int:
        """Weights of one output channel, or transposed of one input channel."""
        sides = self.channels if self.transposed else static(inputs[0][1])
        if sides % self.groups:
            raise ValueError(f"{sides} channels do not divide into {self.groups} groups")
        return sides // self.groups * self.window

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        outer = static(inputs[0][1]) if self.transposed else self.channels
        owned = (Parameters(self._depth(inputs) * outer, formats.weights),)
        return (*owned, Parameters(self.channels, formats.activations)) if self.bias else owned

    def work(self, site: Site) -> Work:
        written = site.load.elements(site.outputs[0].shape)
        depth = self._depth(tuple(tensor.shape for tensor in site.inputs))
        return Work(
            matmul_flops=2 * depth * (site.elements() if self.transposed else written),
            vector_flops=written if self.bias else 0,
            weight_bytes=site.weight_bytes(),
        )


@operator("pool")
@dataclass(frozen=True)
class Pool(Operator):
    """Maximum or mean over windows of any rank: ``window`` vector FLOPs an output element."""

    window: int
    """Elements of the window."""
    shape: Shape

    op_class: ClassVar[OpClass] = OpClass.POINTWISE
    about: ClassVar[str] = "maximum or mean over windows of any rank"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if len(inputs[0]) != len(self.shape):
            raise ValueError(f"{show_shape(inputs[0])} and {show_shape(self.shape)} differ in rank")
        return (self.shape,)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=self.window * site.load.elements(site.outputs[0].shape))
