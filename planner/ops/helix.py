"""Decoding over a shared context as Helix does it: each rank computes all queries that it needs.

The ranks of a context group each compute the queries of all the group's heads, attend with them to
their own keys, and send each rank the parts of its heads, with the maximum and the sum of the
softmax, in one all-to-all; that rank makes one output of them. Nothing is gathered before.
Prompts do not run: Helix is of the servers that generate, behind others that prefill.
Source: arXiv 2507.07120; TensorRT-LLM _torch/modules/attention.py, alltoall_helix,
helix_post_process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from planner.num import Number
from planner.ops.attention import AttentionMask, AttentionSoftmax
from planner.ops.collective import Collective
from planner.ops.latent_attention import (
    LatentHeads,
    LatentScores,
    LatentValues,
    MlaDecode,
    MlaPrefill,
)
from planner.ops.pointwise import EXP_FLOPS
from planner.ops.types import OpClass, Operator, Part, Shape, Site, Work

_STATS_BYTES = 8
"""Maximum and sum of a head's softmax, FP32 each."""


@dataclass(frozen=True)
class ExchangeParts(Collective):
    """Parts of all heads of the group to parts of this rank's heads, from every rank."""

    heads: int = 1
    """Heads of the group."""

    about: ClassVar[str] = "send parts of attention to the ranks of their heads"
    library: ClassVar[str] = "all_to_all"

    def message_bytes(self, site: Site) -> Number:
        """Outputs and what is known of their softmax, of all the group's heads."""
        return site.inputs[0].bytes(site.load) + site.rows() * self.heads * _STATS_BYTES

    def work(self, site: Site) -> Work:
        size = self.message_bytes(site)
        stats = 2 * site.rows() * self.heads * _STATS_BYTES
        return Work(link_bytes=self.share() * size, scratch_bytes=stats)


@dataclass(frozen=True)
class MergeParts(Operator):
    """Parts of ``ranks`` ranks as one output, weighed by their shares of the softmax."""

    ranks: int
    heads: int
    """Heads of this rank."""

    op_class: ClassVar[OpClass] = OpClass.OPAQUE
    about: ClassVar[str] = "merge parts of attention by their softmax"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((*inputs[0][:-1], inputs[0][-1] / self.ranks),)

    def work(self, site: Site) -> Work:
        weights = site.rows() * self.heads * self.ranks
        flops = 2 * site.load.elements(site.inputs[0].shape) + (1 + EXP_FLOPS) * weights
        return Work(vector_flops=flops, scratch_bytes=weights * _STATS_BYTES)


@dataclass(frozen=True)
class OwnHeads(Operator):
    """This rank's heads of those of its group: a view."""

    ranks: int

    op_class: ClassVar[OpClass] = OpClass.VIEW
    about: ClassVar[str] = "a rank's own heads of its group's (a view)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((*inputs[0][:-1], inputs[0][-1] / self.ranks),)

    def work(self, site: Site) -> Work:
        del site
        return Work()


@dataclass(frozen=True)
class HelixMlaDecode(MlaDecode):
    """Absorbed attention of the group's heads over one in ``ranks`` of the latents."""

    ranks: int = 1

    one_kernel: ClassVar[bool] = False

    def layout(self) -> LatentHeads:
        return replace(super().layout(), ranks=self.ranks)

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        (whole,) = super().shapes(inputs)
        return ((*whole[:-1], whole[-1] / self.ranks),)

    def parts(self) -> tuple[Part, ...]:
        layout = self.layout()
        return (
            Part("past.scores", LatentScores(layout), (0, 1, 2), "mla_decode.scores"),
            Part("past.mask", AttentionMask(), ("past.scores",), "mla_decode.mask"),
            Part("past.softmax", AttentionSoftmax(), ("past.mask",), "mla_decode.softmax"),
            Part("past.values", LatentValues(layout), ("past.softmax", 2), "mla_decode.values"),
            Part(
                "exchange",
                ExchangeParts(self.ranks, self.heads),
                ("past.values",),
                "context_exchange",
            ),
            Part(
                "merged",
                MergeParts(self.ranks, self.heads // self.ranks),
                ("exchange",),
                "context_combine",
            ),
        )


@dataclass(frozen=True)
class HelixMlaPrefill(MlaPrefill):
    """Attention of prompts, which no step of such a server has. A rank keeps its own heads."""

    ranks: int = 1

    one_kernel: ClassVar[bool] = False

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        (whole,) = super().shapes(inputs)
        return ((*whole[:-1], whole[-1] / self.ranks),)

    def parts(self) -> tuple[Part, ...]:
        own = tuple(
            replace(
                part,
                name=f"prompt.{part.name}",
                kind=f"mla_prefill.{part.name}",
                inputs=tuple(
                    source if isinstance(source, int) else f"prompt.{source}"
                    for source in part.inputs
                ),
            )
            for part in super().parts()
        )
        return (*own, Part("own", OwnHeads(self.ranks), ("prompt.values",), "context_own"))
