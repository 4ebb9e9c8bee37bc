"""Prompts whose tokens lie on several groups of tensor ranks: prefill context parallelism.

Each group computes two of 2·N chunks of a prompt, the i-th from the front and from the back, so
that all have as many query-key pairs. What the new tokens leave in the cache is gathered, so that
every group holds all of it and attends from its own tokens to all before them. Decoding is repeated
by every group. Source: vllm@0.26.0 v1/worker/gpu/pcp_manager.py,
model_executor/layers/attention/pcp.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number, ceil_div, where
from planner.ops.collective import AllGather, RowGather
from planner.ops.embedding import SelectLast
from planner.ops.load import Load, SequenceGroup
from planner.ops.mla import MlaCacheWrite
from planner.ops.types import (
    Dim,
    ExpertLayout,
    Formats,
    Operator,
    Part,
    Shape,
    Site,
    Spread,
    Work,
    static,
)

_CHUNKS = 2
"""Of each prompt on each group."""


def shared_prompts(load: Load, groups: int) -> Load:
    """What one group of tensor ranks has to do of a load: the fullest, in rows and in pairs.

    Prompts too short for two tokens in each chunk stay whole. Left out: the padding of the last
    chunk.
    """
    if groups == 1:
        return load
    pieces = tuple(piece for group in load.groups for piece in _chunks(group, groups))
    return replace(load, groups=pieces, logits=load.sampled)


def _chunks(group: SequenceGroup, groups: int) -> tuple[SequenceGroup, ...]:
    """The first and the last chunk; any other two that one group has cost the same together."""
    size = ceil_div(group.new_tokens, _CHUNKS * groups)
    cut = (size > 1) & (not group.verified)
    rest = replace(group, count=where(cut, 0, group.count))
    count = where(cut, group.count, 0)
    first = SequenceGroup(count, size, group.past_tokens + size)
    last = SequenceGroup(count, size, group.kv_tokens)
    return tuple(each for each in (rest, first, last) if _may_run(each.count))


def _may_run(count: Number) -> bool:
    return hasattr(count, "__array__") or bool(count)


@dataclass(frozen=True)
class _Strided:
    """Ranks of equal place in every group, ``stride`` GPUs apart."""

    stride: int = 1


@dataclass(frozen=True)
class GatherRows(_Strided, RowGather):
    """Hidden states of all groups ahead of the LM head."""

    def span(self) -> int:
        return self.ranks * self.stride


@dataclass(frozen=True)
class GatherPrompts(_Strided, AllGather):
    """What the prompts' new tokens of all groups leave in the cache."""

    about: ClassVar[str] = "gather cached vectors of the groups that share a prompt"

    def span(self) -> int:
        return self.ranks * self.stride

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((Dim(symbols=("prefill_tokens",)) * self.ranks, inputs[0][-1]),)

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        own = site.inputs[0]
        each = static(own.shape[-1]) * bytes_per_element(own.dtype)
        return (site.load.size("prefill_tokens") * each,)


@dataclass(frozen=True)
class _WriteAll(MlaCacheWrite):
    """Writes latents of the decoding sequences, and those gathered of all groups' prompts."""

    groups: int = 1

    arity: ClassVar[tuple[int, int]] = (2, 4)

    def cached_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        return super().cached_bytes(inputs[:2], formats)

    def work(self, site: Site) -> Work:
        each = self.cached_bytes(tuple(tensor.shape for tensor in site.inputs), site.formats)
        rows = site.load.size("prefill_tokens") * self.groups + site.load.size("decode_tokens")
        return Work(cache_write_bytes=rows * each)

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        rows = site.load.size("decode_tokens")
        own = tuple(
            rows * static(tensor.shape[-1]) * bytes_per_element(tensor.dtype)
            for tensor in site.inputs[:2]
        )
        return (*own, *(tensor.bytes(site.load) for tensor in site.inputs[2:]))


@dataclass(frozen=True)
class PromptsCacheWrite(MlaCacheWrite):
    """The write of a latent cache that every group of ranks holds."""

    groups: int = 1
    stride: int = 1

    one_kernel: ClassVar[bool] = False

    def parts(self) -> tuple[Part, ...]:
        gather = GatherPrompts(self.groups, self.stride)
        return (
            Part("latents", gather, (0,), "context_prompts"),
            Part("keys", gather, (1,), "context_prompts"),
            Part("all", _WriteAll(self.packed, self.groups), (0, 1, "latents", "keys"), _WRITE),
        )


_WRITE = "mla_cache_write"


@dataclass(frozen=True)
class PromptsSelectLast(SelectLast):
    """The last token of each sequence, among the rows of all groups."""

    groups: int = 1
    stride: int = 1

    one_kernel: ClassVar[bool] = False

    def parts(self) -> tuple[Part, ...]:
        gather = GatherRows(self.groups, self.stride)
        return (
            Part("rows", gather, (0,), "all_gather"),
            Part("last", SelectLast(), ("rows",), "select_last"),
        )


def over_prompts(spread: Spread, layout: ExpertLayout) -> Spread:
    """The operator of a tensor rank, as one of a group that shares prompts with others.

    Raises ValueError, in words for people, for latents in a layout of their own.
    """
    op, groups, stride = spread.op, layout.prompts, layout.tensor
    found: Operator | None = op
    if groups == 1 or op is None:
        return spread
    if type(op) is MlaCacheWrite:
        found = PromptsCacheWrite(op.packed, groups, stride)
    elif type(op) is SelectLast:
        found = PromptsSelectLast(groups, stride)
    return replace(spread, op=found)
