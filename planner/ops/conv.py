"""Convolution, pooling and reshaping: what a small CNN and the stem of an encoder need.

Images are [batch, C, H, W], sound is [frames, C].
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    as_dim,
    show_shape,
    static,
)

_IMAGE_SIDES = 4


def _spatial(inputs: tuple[Shape, ...], kernel: int, stride: int, padding: int) -> tuple[int, int]:
    if len(inputs[0]) != _IMAGE_SIDES:
        raise ValueError(f"needs [batch, channels, height, width], got {show_shape(inputs[0])}")
    height, width = ((static(side) + 2 * padding - kernel) // stride + 1 for side in inputs[0][2:])
    if height < 1 or width < 1:
        raise ValueError(f"a {kernel}×{kernel} window does not fit into {show_shape(inputs[0])}")
    return height, width


@operator("conv2d")
@dataclass(frozen=True)
class Conv2d(Operator):
    """2-D convolution as an implicit GEMM: 2·B·H'·W'·C_out·C_in·k² FLOPs.

    The input is charged once: overlapping windows are assumed to hit on-chip memory.
    """

    channels: int
    kernel: int
    stride: int = 1
    padding: int = field(default=0, metadata={"zero": True})
    bias: bool = True

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    about: ClassVar[str] = "2-D convolution"
    matrix: ClassVar[bool] = True

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        height, width = _spatial(inputs, self.kernel, self.stride, self.padding)
        return ((inputs[0][0], as_dim(self.channels), as_dim(height), as_dim(width)),)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        weights = static(inputs[0][1]) * self.channels * self.kernel**2
        owned = (Parameters(weights, formats.weights),)
        return (*owned, Parameters(self.channels, formats.activations)) if self.bias else owned

    def depth(self, inputs: tuple[Shape, ...]) -> int:
        """Inputs of one output element: the inner side of the GEMM."""
        return static(inputs[0][1]) * self.kernel**2

    def work(self, site: Site) -> Work:
        return _gemm_work(self, site)


@operator("conv1d")
@dataclass(frozen=True)
class Conv1d(Operator):
    """Convolution along frames, [frames, C] -> [frames / stride, channels], as an implicit GEMM.

    Padded so that frames divide by the stride. Left out: that items do not run into each other.
    """

    channels: int
    kernel: int
    stride: int = 1
    bias: bool = True

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    about: ClassVar[str] = "convolution along frames of sound"
    matrix: ClassVar[bool] = True

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((inputs[0][0] / self.stride, as_dim(self.channels)),)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        owned = (Parameters(self.depth(inputs) * self.channels, formats.weights),)
        return (*owned, Parameters(self.channels, formats.activations)) if self.bias else owned

    def depth(self, inputs: tuple[Shape, ...]) -> int:
        """Inputs of one output element: the inner side of the GEMM."""
        return static(inputs[0][-1]) * self.kernel

    def work(self, site: Site) -> Work:
        return _gemm_work(self, site)


def _gemm_work(op: Conv1d | Conv2d, site: Site) -> Work:
    outputs = site.load.elements(site.outputs[0].shape)
    depth = op.depth(tuple(tensor.shape for tensor in site.inputs))
    return Work(
        matmul_flops=2 * outputs * depth,
        vector_flops=outputs if op.bias else 0,
        weight_bytes=site.weight_bytes(),
    )


@operator("group_rows")
@dataclass(frozen=True)
class GroupRows(Operator):
    """[n, h] -> [n / count, count·h]: neighbouring rows side by side, a view (patch merging)."""

    count: int
    """Rows that become one."""

    op_class: ClassVar[OpClass] = OpClass.VIEW
    about: ClassVar[str] = "join neighbouring rows, as patches of an image (a view)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((inputs[0][0] / self.count, inputs[0][-1] * self.count),)

    def work(self, site: Site) -> Work:
        del site
        return Work()


@operator("mean_rows")
@dataclass(frozen=True)
class MeanRows(Operator):
    """[n, h] -> [n / count, h]: means of rows, as of a square of patches; h · n vector FLOPs."""

    count: int
    """Rows that become one."""

    op_class: ClassVar[OpClass] = OpClass.POINTWISE
    about: ClassVar[str] = "mean of several rows, as of patches of an image"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((inputs[0][0] / self.count, *inputs[0][1:]),)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=site.load.elements(site.inputs[0].shape))


@operator("pool2d")
@dataclass(frozen=True)
class Pool2d(Operator):
    """Maximum or mean over windows: k² vector FLOPs an output element."""

    kernel: int
    stride: int = field(default=0, metadata={"zero": True})
    """By default the kernel: windows that do not overlap."""
    padding: int = field(default=0, metadata={"zero": True})

    op_class: ClassVar[OpClass] = OpClass.POINTWISE
    about: ClassVar[str] = "maximum or mean over windows"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        height, width = _spatial(inputs, self.kernel, self.stride or self.kernel, self.padding)
        return ((*inputs[0][:2], as_dim(height), as_dim(width)),)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=site.load.elements(site.outputs[0].shape) * self.kernel**2)


@operator("flatten")
@dataclass(frozen=True)
class Flatten(Operator):
    """[batch, a, b, …] -> [batch, a·b·…]: a view, which moves nothing."""

    op_class: ClassVar[OpClass] = OpClass.VIEW
    about: ClassVar[str] = "join all sides but the first (a view)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        joined = as_dim(1)
        for side in inputs[0][1:]:
            joined = joined * side
        return ((inputs[0][0], joined),)

    def work(self, site: Site) -> Work:
        del site
        return Work()
