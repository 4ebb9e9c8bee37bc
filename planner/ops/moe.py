"""Mixture of experts: the router, and the block of routed experts as one operator.

Engines run routed experts as one chain of kernels, whose parts no model spec tells apart, so they
are one node here. Shared experts are ordinary projections beside it, and an add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from planner.num import Number
from planner.ops.moe_exchange import Combine, Dispatch
from planner.ops.moe_load import Load as ExpertLoad
from planner.ops.moe_load import reached
from planner.ops.pointwise import EXP_FLOPS
from planner.ops.registry import operator
from planner.ops.types import (
    ExpertLayout,
    Formats,
    OpClass,
    Operator,
    Parameters,
    Shape,
    Site,
    Spread,
    Tensor,
    Tiling,
    Work,
    as_dim,
    divide,
    show_shape,
    static,
)


@operator("moe_router")
@dataclass(frozen=True)
class MoeRouter(Operator):
    """Scores of every expert for every token, [tokens, experts]: a linear, softmax or sigmoid, and
    the choice of the ``top_k`` best, with ``groups`` among the experts of the best groups alone.

    FLOPs = 2·M·K·E on the matrix unit; a softmax or sigmoid, one comparison of each score, and one
    more where groups are compared first. Engines keep its weights in 16 bit or more.
    """

    experts: int
    top_k: int
    groups: int = 1
    top_groups: int = 1
    bias: bool = False
    """One more number an expert: of the linear, or added to the scores for the choice alone."""
    score: Literal["softmax", "sigmoid"] = "softmax"
    fp32: bool = False
    """Weights and scores in FP32."""

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    about: ClassVar[str] = "scores of experts and the choice among them"
    matrix: ClassVar[bool] = True
    quantizes: ClassVar[bool] = True

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if self.experts % self.groups:
            raise ValueError(f"{self.experts} experts do not split into {self.groups} groups")
        open_to = self.experts // self.groups * min(self.top_groups, self.groups)
        if self.top_k > open_to:
            raise ValueError(f"cannot choose {self.top_k} of {open_to} experts")
        return ((*inputs[0][:-1], as_dim(self.experts)),)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        dtype = self._format(formats)
        weights = Parameters(static(inputs[0][-1]) * self.experts, dtype)
        return (weights, Parameters(self.experts, dtype)) if self.bias else (weights,)

    def work(self, site: Site) -> Work:
        rows, depth = site.rows(), static(site.inputs[0].shape[-1])
        each = EXP_FLOPS + (3 if self.score == "softmax" else 2)
        each += 1 + self.bias + (self.groups > 1)
        return Work(
            matmul_flops=2 * rows * depth * self.experts,
            vector_flops=rows * self.experts * each,
            weight_bytes=site.weight_bytes(),
        )

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        del inputs
        return self._format(formats)

    def _format(self, formats: Formats) -> str:
        return "fp32" if self.fp32 else formats.activations


@operator("moe")
@dataclass(frozen=True)
class Moe(Operator):
    """Routed experts: of [tokens, hidden] and the scores of a router to [tokens, hidden].

    FLOPs = 2·pairs·(weights of one expert), pairs = tokens·top_k; weight bytes are those of the
    experts that at least one token chose, E·(1 − (1 − k/E)ⁿ) of E where all are as likely. The
    ledger is the mean of a rank; the kernel runs the busiest rank's. Leaves out: activations
    between the two grouped GEMMs, which kernels pass through memory, and tiles that miss the L2.
    """

    experts: int
    top_k: int
    intermediate: int
    gated: bool = True
    """Two matrices in front of the activation, not one."""
    bias: bool = False
    quantizable: bool = True
    partial: bool = False
    """Whether a ``rank_sum`` further on takes the sum over tensor-parallel ranks."""

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "routed experts, each a small MLP"
    matrix: ClassVar[bool] = True
    quantizes: ClassVar[bool] = True
    share_of_weights: ClassVar[bool] = True
    ranks: ClassVar[int] = 1

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if self.top_k > self.experts:
            raise ValueError(f"cannot choose {self.top_k} of {self.experts} experts")
        rows, scores = inputs[0][:-1], inputs[1]
        if scores != (*rows, as_dim(self.experts)):
            raise ValueError(
                f"its scores are {show_shape(scores)}, but {self.experts} experts need "
                f"{show_shape((*rows, as_dim(self.experts)))}"
            )
        return (inputs[0],)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        hidden, local = static(inputs[0][-1]), self.experts // self.ranks
        wide = self._first() * self.intermediate
        dtype = formats.weights if self.quantizable else formats.activations
        elements = local * hidden * (wide + self.intermediate)
        tall, broad = (
            -(-size // pad) * pad
            for size, pad in zip((hidden, self.intermediate), formats.pads, strict=True)
        )
        padding = local * tall * (self._first() + 1) * broad - elements
        weights = Parameters(elements, dtype, padding=padding)
        if not self.bias:
            return (weights,)
        return (weights, Parameters(local * (wide + hidden), formats.activations))

    def active(self, parameters: tuple[Parameters, ...]) -> float:
        return super().active(parameters) * self.top_k * self.ranks / self.experts

    def work(self, site: Site) -> Work:
        n = site.rows()
        return self._work(site, site.load.routing.mean(n, self.top_k, self.experts, self.ranks))

    def executed(self, site: Site, tiling: Tiling | None) -> Work:
        del tiling
        return self._work(site, self.busiest(site))

    @property
    def shape_of_rank(self) -> str:
        """What one rank holds, in the words of engines' files of tuned tiles: ``E=8,N=7168``."""
        return f"E={self.experts // self.ranks},N={self.intermediate}"

    def workspace_elements(self, rows: float, hidden: int, *, shared: bool) -> float:
        """Elements between the grouped GEMMs, for each of a row's ``top_k`` experts.

        Two buffers: inputs of the second GEMM, then its outputs; and outputs of the first. Where
        those of both GEMMs share one, the other holds the inputs. From vLLM's
        `TritonExperts.workspace_shapes` and, shared, its older `fused_experts_impl`.
        """
        first = self._first() * self.intermediate
        if shared:
            each = max(first, hidden) + self.intermediate
        else:
            each = max(self.intermediate, hidden) + max(first, hidden)
        return rows * self.top_k * each

    def busiest(self, site: Site) -> ExpertLoad:
        """Pairs and touched experts of the rank that the others wait for."""
        n = site.rows()
        return site.load.routing.busiest(n, self.top_k, self.experts, self.ranks)

    def _work(self, site: Site, load: ExpertLoad) -> Work:
        hidden = static(site.inputs[0].shape[-1])
        # silu and product of each element, then weight and sum of each expert's rows
        vector = self.intermediate * (2 + EXP_FLOPS + self.gated) + 2 * hidden
        vector += (self._first() * self.intermediate + hidden) if self.bias else 0
        return Work(
            matmul_flops=2 * load.pairs * hidden * self.intermediate * (self._first() + 1),
            vector_flops=load.pairs * vector,
            weight_bytes=site.weight_bytes() * load.touched * self.ranks / self.experts,
        )

    def _first(self) -> int:
        return 1 + self.gated

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        """Rows that have an expert here, and all scores."""
        hidden, scores = super().input_bytes(site)
        return (hidden * reached(self.top_k, self.experts, self.ranks), scores)

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        width = divide(self.intermediate, ranks, "features of an expert")
        return replace(self, intermediate=width), None if self.partial else "all_reduce"

    def spread(self, layout: ExpertLayout) -> Spread:
        """Experts over ``layout.experts`` ranks, each cut over what ranks are left.

        Within one replica every rank sees every token, and the sums that tensor parallelism takes
        anyway join the experts too. Across replicas tokens travel.
        """
        if layout.experts == 1:
            return super().spread(layout)
        if self.experts % layout.experts:
            raise ValueError(f"{self.experts} experts do not divide over {layout.experts} ranks")
        each = layout.tensor * layout.replicas // layout.experts
        width = divide(self.intermediate, each, "features of an expert")
        op = ExpertShard(
            self.experts,
            self.top_k,
            width,
            self.gated,
            self.bias,
            self.quantizable,
            self.partial,
            layout.experts,
        )
        summed = "all_reduce" if layout.tensor > 1 and not self.partial else None
        if layout.replicas == 1:
            return Spread(op, collective=summed)
        exchange = (layout.exchange, self.experts, self.top_k, layout)
        sends = layout.exchange == "all_to_all"
        return Spread(op, Dispatch(*exchange), Combine(*exchange), None if sends else summed)

    def matmul_format(self, formats: Formats) -> str:
        return formats.matmul if self.quantizable else formats.activations


@dataclass(frozen=True)
class ExpertShard(Moe):
    """The experts of one rank of several that share them out."""

    ranks: int = 1  # type: ignore[misc]
    """Ranks that hold different experts."""
