"""Matrix products: a layer's projection, and a product of two activations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

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
    divide,
    kv_heads_per_rank,
    show_shape,
    static,
)

Shard = Literal["none", "column", "row", "partial", "kv", "vocab"]


@operator("linear")
@dataclass(frozen=True)
class Linear(Operator):
    """Y = X·W (+ bias): X is [.., K], W is [K, N], Y is [.., N].

    FLOPs = 2·M·K·N on the matrix unit; the weights are read once a step whatever M is.
    A bias adds M·N vector FLOPs. Leaves out: re-reads of W or X by tiles that miss the L2.
    """

    features: int
    """N."""
    bias: bool = False
    shard: Shard = "none"
    """How tensor parallelism cuts W: ``column`` (N), ``row`` (K, with an all-reduce after),
    ``partial`` (K, a ``rank_sum`` further on takes the sum), ``kv`` (N by KV heads, replicated
    past their number), ``vocab`` (N, with an all-gather after)."""
    unit: int = 1
    """Features that stay together when cut, as in head_dim."""
    tied: bool = False
    """Shares its weights with the embedding: read, but held in memory once."""
    quantizable: bool = True
    """False where engines keep 16 bit (LM head)."""
    split: int = field(default=0, metadata={"zero": True})
    """Features of each unit that are a first output, the rest being a second: one GEMM that writes
    two tensors, as DeepSeek's kv_a_proj_with_mqa."""

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    about: ClassVar[str] = "projection Y = X·W (+ bias)"
    matrix: ClassVar[bool] = True

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        rows = inputs[0][:-1]
        if not self.split:
            return ((*rows, as_dim(self.features)),)
        if not self.split < self.unit or self.features % self.unit:
            raise ValueError(
                f"cannot split {self.split} features off each of {self._unit_name()} "
                f"among {self.features}"
            )
        first = self.features // self.unit * self.split
        return ((*rows, as_dim(first)), (*rows, as_dim(self.features - first)))

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        dtype = formats.weights if self.quantizable else formats.activations
        weights = Parameters(static(inputs[0][-1]) * self.features, dtype, shared=self.tied)
        if not self.bias:
            return (weights,)
        return (weights, Parameters(self.features, formats.activations))

    def work(self, site: Site) -> Work:
        rows, depth = site.rows(), static(site.inputs[0].shape[-1])
        return Work(
            matmul_flops=2 * rows * depth * self.features,
            vector_flops=rows * self.features if self.bias else 0,
            weight_bytes=site.weight_bytes(),
        )

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        if self.shard in {"none", "partial"}:
            return self, None
        if self.shard == "row":
            return self, "all_reduce"
        if self.shard == "vocab":
            return replace(self, features=-(-self.features // ranks)), "all_gather"
        if self.features % self.unit:
            raise ValueError(f"{self.features} features are no whole number of {self._unit_name()}")
        units = self.features // self.unit
        if self.shard == "kv":
            share = kv_heads_per_rank(units, ranks)
        else:
            share = divide(units, ranks, self._unit_name())
        return replace(self, features=share * self.unit), None

    def matmul_format(self, formats: Formats) -> str:
        return formats.matmul if self.quantizable else formats.activations

    def _unit_name(self) -> str:
        return "output features" if self.unit == 1 else f"heads of {self.unit}"


@operator("matmul")
@dataclass(frozen=True)
class MatMul(Operator):
    """C = A·B of two activations: A is [.., K], B is [.., K, N] with the same leading sides.

    FLOPs = 2·M·K·N for each leading index.
    """

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "product of two activations"
    matrix: ClassVar[bool] = True

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        left, right = inputs
        if len(right) < 2 or left[-1] != right[-2]:  # noqa: PLR2004 - a matrix has two sides
            raise ValueError(f"{show_shape(left)} · {show_shape(right)}: the inner sides differ")
        if left[:-2] != right[:-2]:
            raise ValueError(f"{show_shape(left)} · {show_shape(right)}: the leading sides differ")
        return ((*left[:-1], right[-1]),)

    def work(self, site: Site) -> Work:
        columns = site.load.dim(site.outputs[0].shape[-1])
        return Work(matmul_flops=2 * site.elements() * columns)
