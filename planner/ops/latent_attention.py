"""The attention kernels of multi-head latent attention: over expanded keys, and over latents.

Both are small graphs as ``attention`` is, and are fused as it is. The latents are one tensor that
scores and values read; fused, they are read once. So their bytes stand on the edge from the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number, minimum, where
from planner.ops.attention import AttentionMask, AttentionSoftmax
from planner.ops.dims import ROWS, Phase, PhasePairs
from planner.ops.mla import latent_bytes
from planner.ops.registry import operator
from planner.ops.types import (
    Dim,
    Formats,
    OpClass,
    Operator,
    Part,
    Shape,
    Site,
    Tensor,
    Tiling,
    Work,
    as_dim,
    divide,
    show_shape,
    static,
)


@dataclass(frozen=True)
class LatentHeads:
    """The shape of a latent attention layer on one rank, in the form that one kernel runs."""

    heads: int
    key: int
    """Elements that a query and a key have in common."""
    value: int
    """Elements of what is summed."""
    rope: int
    """Of the key's elements those that are rotated."""
    phase: Phase
    select: int | None = None
    """Keys that a query attends to at most; none for all."""
    ranks: int = 1
    """Ranks over which the cached keys are spread evenly."""

    def pairs(self, site: Site) -> Number:
        """Query-key pairs that count."""
        groups = site.load.of_phase(self.phase)
        return sum(g.count * g.causal_pairs(self.select) for g in groups) / self.ranks

    def executed_pairs(self, site: Site, tiling: Tiling | None) -> Number:
        """Pairs a kernel computes: whole tiles, or without tiles the whole rectangle."""
        groups = site.load.of_phase(self.phase)
        if self.select is not None:
            return self.pairs(site)
        if tiling is None:
            return sum(g.count * g.rectangle_pairs(None) for g in groups) / self.ranks
        tile = tiling.query_tile
        return sum(g.count * g.tiled_pairs(None, tile) for g in groups) / self.ranks

    def keys(self, site: Site) -> Number:
        """Distinct keys read. Sparse: no more than are selected, repeats taken from the L2."""
        groups = site.load.of_phase(self.phase)
        if self.select is None:
            return sum(g.count * g.kv_tokens for g in groups) / self.ranks
        return sum(g.count * minimum(g.kv_tokens, g.causal_pairs(self.select)) for g in groups)

    def scores(self) -> Shape:
        """The shape of the scores."""
        pairs = Dim(symbols=(PhasePairs(self.select, phase=self.phase),))
        return as_dim(self.heads), pairs / self.ranks

    def token_bytes(self, kv_cache: str) -> float:
        """Bytes of one token's latent and rotated key."""
        packed = self.select is not None
        return latent_bytes(self.value, self.rope, kv_cache, packed=packed)


@dataclass(frozen=True)
class LatentPart(Operator):
    """What the two batched GEMMs of latent attention share."""

    shape: LatentHeads

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    matrix: ClassVar[bool] = True
    arity: ClassVar[tuple[int, int]] = (2, 4)

    def work(self, site: Site) -> Work:
        return Work(matmul_flops=self.pair_flops() * self.shape.pairs(site))

    def executed(self, site: Site, tiling: Tiling | None) -> Work:
        pairs = self.shape.executed_pairs(site, tiling)
        again = 0 if tiling is None else self.reread_bytes(site, tiling)
        return Work(matmul_flops=self.pair_flops() * pairs, cache_read_bytes=again)

    def pair_flops(self) -> int:
        """FLOPs of one query-key pair over all heads."""
        raise NotImplementedError

    def reread_bytes(self, site: Site, tiling: Tiling) -> Number:
        """HBM bytes that a tiled kernel reads beyond once. None of latents: heads share tiles."""
        del site, tiling
        return 0


def _query_bytes(site: Site, shape: LatentHeads) -> tuple[Number, ...]:
    """Bytes of the first two inputs, queries without and with position, of the rows in phase."""
    rows = site.load.size(ROWS[shape.phase])
    return tuple(
        rows * static(tensor.shape[-1]) * bytes_per_element(tensor.dtype)
        for tensor in site.inputs[:2]
    )


@dataclass(frozen=True)
class LatentScores(LatentPart):
    """Scores = q_nope·k_nope + q_rope·k_rope per head, kept in FP32."""

    about: ClassVar[str] = "scores per head (part of latent attention)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        width = static(inputs[0][-1]) + static(inputs[1][-1])
        if width != self.shape.heads * self.shape.key:
            raise ValueError(
                f"queries of {show_shape(inputs[0])} and {show_shape(inputs[1])} are not "
                f"{self.shape.heads} heads of {self.shape.key}"
            )
        return (self.shape.scores(),)

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        del inputs, formats
        return "fp32"

    def pair_flops(self) -> int:
        return 2 * self.shape.heads * self.shape.key

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        queries = _query_bytes(site, self.shape)
        rest = tuple(tensor.bytes(site.load) for tensor in site.inputs[2:])
        if not site.inputs[2].handle:
            return queries + rest
        each = self.shape.token_bytes(site.formats.kv_cache)
        return (*queries, self.shape.keys(site) * each, *rest[1:])


@dataclass(frozen=True)
class LatentValues(LatentPart):
    """O = P·V per head, V being expanded values or the latents themselves."""

    about: ClassVar[str] = "sum of values per head (part of latent attention)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        del inputs
        width = as_dim(self.shape.heads * self.shape.value)
        return ((Dim(symbols=(ROWS[self.shape.phase],)), width),)

    def pair_flops(self) -> int:
        return 2 * self.shape.heads * self.shape.value

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        shape = self.shape
        weights = site.inputs[0].bytes(site.load)
        rest = tuple(tensor.bytes(site.load) for tensor in site.inputs[2:])
        if site.inputs[1].handle:
            each = shape.token_bytes(site.formats.kv_cache) * shape.value / shape.key
        else:
            each = shape.heads * shape.value * bytes_per_element(site.inputs[1].dtype)
        return (weights, shape.keys(site) * each, *rest)


@dataclass(frozen=True)
class ExpandedValues(LatentValues):
    """Values of expanded attention, charged with what tile rows read again of K and V.

    As for ``attention``: nothing where a head's keys and values fit the L2.
    """

    def reread_bytes(self, site: Site, tiling: Tiling) -> Number:
        per_head = (self.shape.key + self.shape.value) * bytes_per_element(site.inputs[1].dtype)
        extra: Number = 0
        for g in site.load.of_phase(self.shape.phase):
            rows = g.tile_keys(None, tiling.query_tile)
            again = where(g.kv_tokens * per_head > tiling.l2_bytes, rows - g.kv_tokens, 0)
            extra = extra + g.count * again * self.shape.heads * per_head
        return extra


@operator("mla_prefill")
@dataclass(frozen=True)
class MlaPrefill(Operator):
    """Multi-head attention of prompts over expanded keys and values.

    Reads q_nope [tokens, heads·nope], q_rope [tokens, heads·rope], the keys of ``mla_keys`` and the
    expansion of ``mla_expand``, of whose elements it takes the values.
    """

    heads: int
    nope: int
    rope: int
    value: int

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    arity: ClassVar[tuple[int, int]] = (4, 4)
    about: ClassVar[str] = "latent attention of prompts, over expanded keys and values"
    matrix: ClassVar[bool] = True

    def layout(self) -> LatentHeads:
        """The kernel's shape on this rank."""
        return LatentHeads(self.heads, self.nope + self.rope, self.value, self.rope, "prefill")

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return LatentScores(self.layout()).shapes(inputs) and LatentValues(self.layout()).shapes(())

    def parts(self) -> tuple[Part, ...]:
        layout = self.layout()
        return (
            Part("scores", LatentScores(layout), (0, 1, 2)),
            Part("mask", AttentionMask(), ("scores",)),
            Part("softmax", AttentionSoftmax(), ("mask",)),
            Part("values", ExpandedValues(layout), ("softmax", 3)),
        )

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        return replace(self, heads=divide(self.heads, ranks, "attention heads")), None


@operator("mla_decode")
@dataclass(frozen=True)
class MlaDecode(Operator):
    """Attention of all heads over the latents themselves: absorbed, one KV head for all.

    Reads queries multiplied into the latent's space [rows, heads·latent], q_rope [tokens,
    heads·rope] and the handle of an ``mla_cache_write``, for decoding sequences.
    Decode's intensity is 2·heads·(2·latent + rope) / ((latent + rope)·b), whatever the context.
    """

    heads: int
    latent: int
    rope: int

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    arity: ClassVar[tuple[int, int]] = (3, 3)
    about: ClassVar[str] = "latent attention over the latents, queries absorbed"
    matrix: ClassVar[bool] = True

    def layout(self) -> LatentHeads:
        """The kernel's shape on this rank."""
        return LatentHeads(self.heads, self.latent + self.rope, self.latent, self.rope, "decode")

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        cached, need = static(inputs[2][-1]), self.latent + self.rope
        if cached != need:
            raise ValueError(f"the cache holds {cached} elements a token, not {need}")
        return LatentScores(self.layout()).shapes(inputs) and LatentValues(self.layout()).shapes(())

    def parts(self) -> tuple[Part, ...]:
        layout, chosen = self.layout(), range(3, self.arity[1])
        return (
            Part("scores", LatentScores(layout), (0, 1, 2, *chosen)),
            Part("mask", AttentionMask(), ("scores",)),
            Part("softmax", AttentionSoftmax(), ("mask",)),
            Part("values", LatentValues(layout), ("softmax", 2, *chosen)),
        )

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        return replace(self, heads=divide(self.heads, ranks, "attention heads")), None


@operator("mla_sparse")
@dataclass(frozen=True)
class MlaSparse(MlaDecode):
    """Attention over the latents that an indexer selected for each token, at most ``select``.

    A fourth input holds the selection. Prompts run in this form too, as in the engines' kernels.
    Latents that several queries selected are read once; the L2 serves them again.
    """

    select: int

    arity: ClassVar[tuple[int, int]] = (4, 4)
    about: ClassVar[str] = "latent attention over the keys that an indexer selected"

    def layout(self) -> LatentHeads:
        """The kernel's shape on this rank."""
        return replace(super().layout(), phase="all", select=self.select)
