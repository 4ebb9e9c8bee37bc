"""Attention and caches on one rank of a group that shares each sequence's context.

Grouped-query attention attends to the step's own keys on every rank with the rank's own heads, and
to the keys before them spread over the group; prompts without earlier keys exchange nothing.
Latent attention of decoding sequences finds new keys in the cache too. Prompts expand latents of
all ranks. Source: vLLM v1/attention/backends/flash_attn.py _forward_with_dcp, mla_attention.py.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number
from planner.ops.attention import (
    Attention,
    AttentionMask,
    AttentionScores,
    AttentionSoftmax,
    AttentionValues,
    KvCacheWrite,
)
from planner.ops.context import (
    GatherPrefix,
    GatherQueries,
    GatherSums,
    MergeSpans,
    ScaleParts,
    ScatterHeads,
)
from planner.ops.helix import HelixMlaDecode, HelixMlaPrefill
from planner.ops.join import JoinPhases
from planner.ops.latent_attention import (
    LatentHeads,
    LatentScores,
    LatentValues,
    MlaDecode,
    MlaPrefill,
)
from planner.ops.mla import MlaCacheWrite, MlaExpand
from planner.ops.types import (
    ExpertLayout,
    Formats,
    Operator,
    Part,
    Shape,
    Site,
    Spread,
    Work,
    show_shape,
    static,
)


@dataclass(frozen=True)
class SpreadKvCacheWrite(KvCacheWrite):
    """Each rank keeps one token in ``ranks``."""

    ranks: int = 1

    def work(self, site: Site) -> Work:
        whole = super().work(site)
        return replace(whole, cache_write_bytes=whole.cache_write_bytes / self.ranks)


@dataclass(frozen=True)
class SpreadMlaCacheWrite(MlaCacheWrite):
    """Each rank keeps one token in ``ranks``."""

    ranks: int = 1

    def cached_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        return super().cached_bytes(inputs, formats) / self.ranks


def _summed(ranks: int, heads: int, values: str) -> tuple[Part, ...]:
    """From a rank's output for all heads of the group to the group's for the rank's heads."""
    return (
        Part("sums", GatherSums(ranks, heads), (values,), "context_sums"),
        Part("scaled", ScaleParts(), (values, "sums"), "context_scale"),
        Part("scatter", ScatterHeads(ranks), ("scaled",), "context_scatter"),
    )


@dataclass(frozen=True)
class ContextAttention(Attention):
    """Grouped-query attention over new keys, and over one in ``ranks`` of those before."""

    ranks: int = 1

    one_kernel: ClassVar[bool] = False

    def parts(self) -> tuple[Part, ...]:
        own = replace(self.layout(), span="new")
        heads = self.heads * self.ranks
        shared = replace(own, span="past", heads=heads, causal=False, ranks=self.ranks)
        sinks = self.heads if self.sinks else 0
        return (
            Part("new.scores", AttentionScores(own), (0, 1), "attention.scores"),
            Part("new.mask", AttentionMask(self.softcap), ("new.scores",), "attention.mask"),
            Part("new.softmax", AttentionSoftmax(sinks), ("new.mask",), "attention.softmax"),
            Part("new.values", AttentionValues(own), ("new.softmax", 1), "attention.values"),
            Part("queries", GatherQueries(self.ranks, "context_tokens"), (0,), "context_queries"),
            Part("past.scores", AttentionScores(shared), ("queries", 1), "attention.scores"),
            Part("past.mask", AttentionMask(self.softcap), ("past.scores",), "attention.mask"),
            Part("past.softmax", AttentionSoftmax(), ("past.mask",), "attention.softmax"),
            Part("past.values", AttentionValues(shared), ("past.softmax", 1), "attention.values"),
            *_summed(self.ranks, heads, "past.values"),
            Part("merged", MergeSpans(), ("new.values", "scatter"), "context_merge"),
            Part("joined", JoinPhases(), ("new.values", "merged"), "join_phases"),
        )


@dataclass(frozen=True)
class GatheredScores(LatentScores):
    """Scores of queries that came from several ranks as one tensor [rows, heads·key]."""

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        width = self.shape.heads * self.shape.key
        if static(inputs[0][-1]) != width:
            raise ValueError(f"queries of {show_shape(inputs[0])} are not {width} wide")
        return (self.shape.scores(),)

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        each = self.shape.token_bytes(site.formats.kv_cache)
        return (site.inputs[0].bytes(site.load), self.shape.keys(site) * each)


@dataclass(frozen=True)
class ContextMlaDecode(MlaDecode):
    """Absorbed attention of the group's heads over one in ``ranks`` of the latents."""

    ranks: int = 1

    one_kernel: ClassVar[bool] = False

    def layout(self) -> LatentHeads:
        whole = super().layout()
        return replace(whole, heads=whole.heads * self.ranks, ranks=self.ranks)

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        own = MlaDecode(self.heads, self.latent, self.rope)
        return own.shapes(inputs)

    def parts(self) -> tuple[Part, ...]:
        layout = self.layout()
        queries = GatherQueries(self.ranks, "decode_tokens")
        return (
            Part("queries", queries, (0, 1), "context_queries"),
            Part("past.scores", GatheredScores(layout), ("queries", 2), "mla_decode.scores"),
            Part("past.mask", AttentionMask(), ("past.scores",), "mla_decode.mask"),
            Part("past.softmax", AttentionSoftmax(), ("past.mask",), "mla_decode.softmax"),
            Part("past.values", LatentValues(layout), ("past.softmax", 2), "mla_decode.values"),
            *_summed(self.ranks, layout.heads, "past.values"),
        )


@dataclass(frozen=True)
class _GatheredExpand(MlaExpand):
    """`mla_expand` of new latents, and of gathered ones where prompts have any before them."""

    arity: ClassVar[tuple[int, int]] = (1, 2)

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        latents, *prefix = site.inputs
        each = static(latents.shape[-1]) * bytes_per_element(latents.dtype)
        new = site.load.size("prefill_tokens") * each
        return (new, *(tensor.bytes(site.load) for tensor in prefix))


@dataclass(frozen=True)
class ContextMlaExpand(MlaExpand):
    """Expansion of latents that lie on ``ranks`` ranks."""

    ranks: int = 1

    one_kernel: ClassVar[bool] = False

    def parts(self) -> tuple[Part, ...]:
        own = {each.name: getattr(self, each.name) for each in fields(MlaExpand)}
        return (
            Part("prefix", GatherPrefix(self.ranks), (1,), "context_prefix"),
            Part("expanded", _GatheredExpand(**own), (0, "prefix"), "mla_expand"),
        )


_SPREAD: dict[type[Operator], type[Operator]] = {
    KvCacheWrite: SpreadKvCacheWrite,
    MlaCacheWrite: SpreadMlaCacheWrite,
    Attention: ContextAttention,
    MlaDecode: ContextMlaDecode,
    MlaExpand: ContextMlaExpand,
}
_REPEATED: dict[type[Operator], type[Operator]] = {
    MlaCacheWrite: SpreadMlaCacheWrite,
    MlaDecode: HelixMlaDecode,
    MlaPrefill: HelixMlaPrefill,
}
"""The same where every rank computes the queries of all the group's heads."""


def over_context(spread: Spread, layout: ExpertLayout) -> Spread:
    """The operator of a tensor rank, as one of those that share each sequence's cache.

    Raises ValueError, in words for people, for a cache that keeps a window or that layers share.
    """
    op, ranks = spread.op, layout.context
    if ranks == 1 or op is None:
        return spread
    kind = (_REPEATED if layout.queries == "repeat" else _SPREAD).get(type(op))
    if kind is None or (isinstance(op, Attention) and not op.cached):
        return spread
    if isinstance(op, Attention) and (op.window or op.chunk):
        raise ValueError("a cache that keeps a window is not spread over ranks")
    if isinstance(op, Attention) and op.shared:
        raise ValueError("a cache that layers share is not spread over ranks")
    given: dict[str, Any] = {each.name: getattr(op, each.name) for each in fields(op)}
    return replace(spread, op=kind(**given, ranks=ranks))  # type: ignore[call-arg]
