"""Elementwise operators: each output element from the matching input elements alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planner.ops.registry import operator
from planner.ops.types import (
    Formats,
    OpClass,
    Operator,
    Shape,
    Site,
    Tensor,
    Work,
    as_dim,
    show_shape,
)

EXP_FLOPS = 4
"""Vector FLOPs charged for one exponential, tanh or erf.

A convention of this planner: the special-function unit runs at a quarter of the FP32 rate on
NVIDIA GPUs (CUDA C Programming Guide, arithmetic throughput table). Pointwise kernels are bound
by memory by two orders of magnitude, so the figure never decides a time.
"""


@dataclass(frozen=True)
class Pointwise(Operator):
    """An elementwise operator of one or two inputs of the same shape."""

    op_class: ClassVar[OpClass] = OpClass.POINTWISE
    flops: ClassVar[int] = 1

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        for other in inputs[1:]:
            if other != inputs[0]:
                raise ValueError(
                    f"its inputs differ in shape: {show_shape(inputs[0])} and {show_shape(other)}"
                )
        return (inputs[0],)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=self.flops * site.elements())


def _pointwise(name: str, inputs: int, flops: int, about: str) -> None:
    """Register one elementwise operator without attributes."""
    made = type(
        name.title().replace("_", ""),
        (Pointwise,),
        {"arity": (inputs, inputs), "flops": flops, "about": about, "__doc__": about},
    )
    operator(name)(dataclass(frozen=True)(made))


_pointwise("add", 2, 1, "sum of two tensors, as a residual connection")
_pointwise("mul", 2, 1, "product of two tensors, element by element")
_pointwise("scale", 1, 1, "product with a constant")
_pointwise("relu", 1, 1, "max(x, 0)")
_pointwise("relu2", 1, 2, "max(x, 0)², as in Nemotron")
_pointwise("silu", 1, 2 + EXP_FLOPS, "x · sigmoid(x)")
_pointwise("gelu", 1, 4 + EXP_FLOPS, "x · Φ(x), exact or by tanh")
_pointwise("sigmoid", 1, 2 + EXP_FLOPS, "1 / (1 + e⁻ˣ)")
_pointwise("tanh", 1, EXP_FLOPS, "hyperbolic tangent")
_pointwise("softcap", 1, 2 + EXP_FLOPS, "c · tanh(x / c), as on Gemma 2's logits")


@operator("row_scale")
@dataclass(frozen=True)
class RowScale(Operator):
    """Each row times a number of its own: [.., n] and [.., 1] to [.., n], one FLOP an element."""

    op_class: ClassVar[OpClass] = OpClass.POINTWISE
    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "product of each row with a number of its own, as a gate of an expert"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        rows, factors = inputs
        if factors != (*rows[:-1], as_dim(1)):
            raise ValueError(
                f"{show_shape(rows)} needs factors {show_shape((*rows[:-1], as_dim(1)))}"
            )
        return (rows,)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=site.elements())


@operator("quantize")
@dataclass(frozen=True)
class Quantize(Operator):
    """Narrows GEMM inputs to the matmul format: absolute maximum per row, then scale and round.

    3 vector FLOPs an element. The scales (4 bytes a row) are left out, those of groups of 128, for
    weights in blocks, are counted.
    """

    op_class: ClassVar[OpClass] = OpClass.ROW_REDUCTION
    about: ClassVar[str] = "activation quantisation in front of a GEMM"

    def work(self, site: Site) -> Work:
        return Work(vector_flops=3 * site.elements())

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        del inputs
        blocks = formats.weights == "fp8_block" and formats.matmul == "fp8"
        return "fp8_group" if blocks else formats.matmul
