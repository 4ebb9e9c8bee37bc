"""Collectives over the ranks of a tensor-parallel group, and sends between pipeline stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planner.num import Number
from planner.ops.registry import operator
from planner.ops.types import ExpertLayout, OpClass, Operator, Shape, Site, Spread, Work


@dataclass(frozen=True)
class Collective(Operator):
    """One call of the library over ``ranks`` ranks side by side."""

    ranks: int

    op_class: ClassVar[OpClass] = OpClass.COLLECTIVE
    library: ClassVar[str] = ""
    """The library's name for it."""

    def message_bytes(self, site: Site) -> Number:
        """The whole tensor: what every rank holds after a gather, before a scatter."""
        return site.outputs[0].bytes(site.load)

    def span(self) -> int:
        """Ranks side by side among which it passes."""
        return self.ranks

    def share(self) -> float:
        """(N−1)/N, the part of the message that a rank sends."""
        return (self.ranks - 1) / self.ranks


@operator("all_reduce")
@dataclass(frozen=True)
class AllReduce(Collective):
    """Sums a tensor over ``ranks``. Each rank sends 2(N−1)/N of it: reduce-scatter, all-gather.

    Source of the factor: the bandwidth-optimal ring (Patarasuk and Yuan 2009), as nccl-tests uses.
    """

    about: ClassVar[str] = "sum over tensor-parallel ranks"
    library: ClassVar[str] = "all_reduce"

    def work(self, site: Site) -> Work:
        size = site.inputs[0].bytes(site.load)
        return Work(vector_flops=site.elements(), link_bytes=2 * self.share() * size)


@operator("rank_sum")
@dataclass(frozen=True)
class RankSum(Operator):
    """The one sum that several partial results share: an all-reduce over tensor-parallel ranks,
    nothing on one rank. Engines add routed and shared experts first and reduce them together.
    """

    op_class: ClassVar[OpClass] = OpClass.VIEW
    about: ClassVar[str] = "sum over tensor-parallel ranks of what was left partial"

    def work(self, site: Site) -> Work:
        del site
        return Work()

    def spread(self, layout: ExpertLayout) -> Spread:
        """An all-reduce, or no node at all."""
        return Spread(None, collective="all_reduce" if layout.tensor > 1 else None)


@operator("all_gather")
@dataclass(frozen=True)
class AllGather(Collective):
    """Joins the ranks' slices of the last side. Each rank sends (N−1)/N of the result."""

    about: ClassVar[str] = "join the slices of tensor-parallel ranks"
    library: ClassVar[str] = "all_gather"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((*inputs[0][:-1], inputs[0][-1] * self.ranks),)

    def work(self, site: Site) -> Work:
        return Work(link_bytes=self.share() * self.message_bytes(site))


@dataclass(frozen=True)
class RowGather(AllGather):
    """Joins the ranks' rows, as of sequence parallelism."""

    about: ClassVar[str] = "join the rows of tensor-parallel ranks"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((inputs[0][0] * self.ranks, *inputs[0][1:]),)


@dataclass(frozen=True)
class ReduceScatter(Collective):
    """Sums a tensor over the ranks and leaves each its slice of the last side.

    Each rank sends (N−1)/N of it, half of what an all-reduce takes.
    """

    about: ClassVar[str] = "sum over ranks, of which each keeps a slice"
    library: ClassVar[str] = "reduce_scatter"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((*inputs[0][:-1], inputs[0][-1] / self.ranks),)

    def message_bytes(self, site: Site) -> Number:
        return site.inputs[0].bytes(site.load)

    def work(self, site: Site) -> Work:
        sent = self.share() * self.message_bytes(site)
        return Work(vector_flops=site.elements(), link_bytes=sent)


@dataclass(frozen=True)
class RowScatter(ReduceScatter):
    """The same over rows: what an all-reduce is without its all-gather.

    Source: Korthikanti et al. (arXiv 2205.05198), sequence parallelism.
    """

    about: ClassVar[str] = "sum over ranks, of which each keeps some rows"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((inputs[0][0] / self.ranks, *inputs[0][1:]),)


@operator("send")
@dataclass(frozen=True)
class Send(Operator):
    """Hands a tensor to the next pipeline stage: all of it over the link, as often as engines do.

    vLLM sends hidden states and residual apart, each of the tensor's size.
    """

    tensors: int = 2
    """How many of that size travel."""

    op_class: ClassVar[OpClass] = OpClass.COLLECTIVE
    about: ClassVar[str] = "hand a tensor to the next pipeline stage"

    def work(self, site: Site) -> Work:
        return Work(link_bytes=self.tensors * site.inputs[0].bytes(site.load))
