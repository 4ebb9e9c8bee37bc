"""What passes between ranks that hold parts of one context, and how their results become one.

The ranks of a context group share each sequence's cache: token i lies on rank i mod N. A decode
step gathers the group's queries, so that each rank attends with all of the group's heads to its
own keys; then log-sum-exps are gathered, outputs are scaled by them, summed, and each rank keeps
its heads. Source: vLLM v1/attention/ops/common.py cp_lse_ag_out_rs; the Helix paper
(arXiv 2507.07120).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number
from planner.ops.collective import AllGather, ReduceScatter
from planner.ops.pointwise import EXP_FLOPS
from planner.ops.types import (
    Dim,
    Formats,
    OpClass,
    Operator,
    Shape,
    Site,
    Tensor,
    Work,
    as_dim,
    static,
)

_LSE_BYTES = 4
"""Kernels give log-sum-exps in FP32."""


def _copied(size: Number) -> Number:
    """Bytes of the copy that lays slices of the last side beside each other: read and written.

    Libraries join along rows. Source: vllm@0.26.0 cuda_communicator.py:370, :387 (`movedim`).
    """
    return 2 * size


@dataclass(frozen=True)
class GatherQueries(AllGather):
    """Queries of the group's heads, one message for all tensors that make them up.

    Left out: queries narrowed to FP8 before they travel.
    """

    rows: str = "tokens"
    """The load symbol that counts the queries."""

    arity: ClassVar[tuple[int, int]] = (1, 2)
    about: ClassVar[str] = "gather queries of the ranks that share a context"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        width = sum(static(shape[-1]) for shape in inputs)
        return ((Dim(symbols=(self.rows,)), as_dim(width * self.ranks)),)

    def work(self, site: Site) -> Work:
        size = self.message_bytes(site)
        return Work(link_bytes=self.share() * size, scratch_bytes=_copied(size))

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        rows = site.load.size(self.rows)
        return tuple(
            rows * static(tensor.shape[-1]) * bytes_per_element(tensor.dtype)
            for tensor in site.inputs
        )


@dataclass(frozen=True)
class GatherPrefix(AllGather):
    """Cached latents before the prompts' new tokens, from all ranks of the group, in 16 bit.

    Prompts expand them to keys and values of this rank's heads.
    Source: vLLM mla_attention.py, _context_parallel_compute_prefill_context.
    """

    about: ClassVar[str] = "gather cached latents of the ranks that share a context"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((Dim(symbols=("prefix_keys",)), inputs[0][-1]),)

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        held = site.load.size("prefix_keys") / self.ranks
        width = bytes_per_element(site.formats.kv_cache)
        return (held * static(site.inputs[0].shape[-1]) * width,)


@dataclass(frozen=True)
class GatherSums(AllGather):
    """The group's log-sum-exps: one FP32 number for each row, head and rank.

    Reads what attention leaves beside its outputs.
    """

    heads: int = 1
    """Heads of the group."""

    about: ClassVar[str] = "gather log-sum-exps of the ranks that share a context"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((inputs[0][0], as_dim(self.heads * self.ranks)),)

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        del inputs, formats
        return "fp32"

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        return (site.rows() * self.heads * _LSE_BYTES,)


@dataclass(frozen=True)
class ScaleParts(Operator):
    """Each rank's output times exp(lse of the rank − lse of all): its part of the sum."""

    op_class: ClassVar[OpClass] = OpClass.OPAQUE
    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "scale a rank's attention by its share of the softmax"

    def work(self, site: Site) -> Work:
        sums = site.load.elements(site.inputs[1].shape)
        return Work(vector_flops=site.elements() + (1 + EXP_FLOPS) * sums)


@dataclass(frozen=True)
class ScatterHeads(ReduceScatter):
    """Sums the parts over the group; each rank keeps its own heads."""

    about: ClassVar[str] = "sum attention over the ranks that share a context"

    def work(self, site: Site) -> Work:
        size = self.message_bytes(site)
        return Work(
            vector_flops=site.elements(),
            link_bytes=self.share() * size,
            scratch_bytes=_copied(size),
        )


@dataclass(frozen=True)
class MergeSpans(Operator):
    """Attention to the step's own keys and to those before it as one, by their log-sum-exps."""

    op_class: ClassVar[OpClass] = OpClass.OPAQUE
    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "merge attention to new and to cached keys"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return (inputs[1],)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=3 * site.load.elements(site.outputs[0].shape))

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        size = site.outputs[0].bytes(site.load)
        return (size, size)
