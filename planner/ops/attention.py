"""Attention as a small graph (scores, mask, softmax, values), RoPE and the KV cache.

FlashAttention is no operator: it is the fusion of these four, legal because the row softmax can
be computed online. The unfused parts materialise the scores; the fused group moves Q, O, K and V.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number
from planner.ops.dims import SpanPairs
from planner.ops.heads import Heads
from planner.ops.norm import Softmax
from planner.ops.pointwise import EXP_FLOPS
from planner.ops.registry import operator
from planner.ops.types import (
    Dim,
    Formats,
    Load,
    OpClass,
    Operator,
    Pairs,
    Parameters,
    Part,
    Shape,
    Site,
    Tensor,
    Tiling,
    Work,
    as_dim,
    divide,
    kv_heads_per_rank,
    show_shape,
    static,
)


@operator("rope")
@dataclass(frozen=True)
class Rope(Operator):
    """Rotary position embedding of Q and K: 3 vector FLOPs a rotated element.

    Reads one row of the cosine and sine table (``rotary`` elements) per token.
    """

    head_dim: int
    rotary: int = 0
    """Dims of a head that are rotated; by default all."""

    op_class: ClassVar[OpClass] = OpClass.POINTWISE
    arity: ClassVar[tuple[int, int]] = (1, 2)
    about: ClassVar[str] = "rotary position embedding"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if self.rotary > self.head_dim:
            raise ValueError(f"cannot rotate {self.rotary} of the {self.head_dim} dims of a head")
        for shape in inputs:
            if static(shape[-1]) % self.head_dim:
                raise ValueError(
                    f"{show_shape(shape)} does not split into heads of {self.head_dim}"
                )
        return inputs

    def work(self, site: Site) -> Work:
        rotary = self.rotary or self.head_dim
        elements = sum(site.load.elements(tensor.shape) for tensor in site.inputs)
        table = site.rows() * rotary * bytes_per_element(site.formats.activations)
        return Work(vector_flops=3 * elements * rotary / self.head_dim, weight_bytes=table)


@operator("kv_cache_write")
@dataclass(frozen=True)
class KvCacheWrite(Operator):
    """Appends K and V of the new tokens to the cache. Its output is a handle on the cache."""

    op_class: ClassVar[OpClass] = OpClass.CACHE
    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "append K and V to the KV cache"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((as_dim(static(inputs[0][-1]) + static(inputs[1][-1])),),)

    def work(self, site: Site) -> Work:
        elements = sum(site.load.elements(tensor.shape) for tensor in site.inputs)
        return Work(cache_write_bytes=elements * bytes_per_element(site.formats.kv_cache))

    def handles(self) -> bool:
        return True


@dataclass(frozen=True)
class AttentionPart(Operator):
    """What the two batched GEMMs of attention share."""

    shape: Heads

    arity: ClassVar[tuple[int, int]] = (1, 2)
    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    matrix: ClassVar[bool] = True

    def work(self, site: Site) -> Work:
        """2·n_q·d FLOPs a pair; K (or V) is read once per KV head: half of a token's cache."""
        return Work(
            matmul_flops=self.pair_flops() * self.shape.useful_pairs(site.load),
            cache_read_bytes=self.cache_bytes(site.load, site.formats),
        )

    def executed(self, site: Site, tiling: Tiling | None) -> Work:
        """On its own the whole rectangle, masked afterwards; tiled, whole tiles and KV re-reads."""
        shape, load = self.shape, site.load
        cache = self.cache_bytes(load, site.formats)
        if tiling is None:
            pairs = shape.rectangle_pairs(load)
        else:
            pairs = shape.tiled_pairs(load, tiling.query_tile)
            again = shape.reread_bytes(
                load, tiling.query_tile, tiling.l2_bytes, site.formats.kv_cache
            )
            cache = cache + again / 2
        return Work(matmul_flops=self.pair_flops() * pairs, cache_read_bytes=cache)

    def pair_flops(self) -> int:
        """FLOPs of one query-key pair over all heads."""
        return 2 * self.shape.heads * self.shape.head_dim

    def cache_bytes(self, load: Load, formats: Formats) -> Number:
        """Bytes of K (or V) read from the cache; where there is none, an edge shows them."""
        if not self.shape.cached:
            return 0
        return self.shape.cache_tokens(load) * self.shape.kv_bytes_per_token(formats.kv_cache) / 2


@dataclass(frozen=True)
class AttentionScores(AttentionPart):
    """Scores = Q·Kᵀ per head: a batched GEMM whose output is O(S²) and kept in FP32."""

    about: ClassVar[str] = "Q·Kᵀ per head (part of attention)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        width = self.shape.heads * self.shape.head_dim
        if static(inputs[0][-1]) != width:
            raise ValueError(
                f"Q is {show_shape(inputs[0])}, but {self.shape.heads} heads of "
                f"{self.shape.head_dim} need a last side of {width}"
            )
        return ((as_dim(self.shape.heads), Dim(symbols=(self._pairs(),))),)

    def _pairs(self) -> Pairs:
        shape = self.shape
        if shape.span == "all":
            return Pairs(shape.window, shape.chunk)
        return SpanPairs(shape.window, shape.chunk, shape.span, shape.ranks)

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        del inputs, formats
        return "fp32"


@dataclass(frozen=True)
class AttentionMask(Operator):
    """Scale, optional soft cap and causal mask of the scores."""

    softcap: bool = False

    op_class: ClassVar[OpClass] = OpClass.POINTWISE
    about: ClassVar[str] = "scale and mask the scores (part of attention)"

    def work(self, site: Site) -> Work:
        flops = 2 + (2 + EXP_FLOPS if self.softcap else 0)
        return Work(vector_flops=flops * site.elements())

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        del inputs, formats
        return "fp32"


@dataclass(frozen=True)
class AttentionSoftmax(Softmax):
    """Row softmax of the scores, in FP32, written in the activations' format.

    A sink is a learned logit per head: one more column of every row, which takes part in the sum
    and has no value (gpt-oss). Engines keep them in the activations' format.
    """

    sinks: int = field(default=0, metadata={"zero": True})
    """Heads that have one."""

    about: ClassVar[str] = "softmax of the scores (part of attention)"

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        del inputs
        return (Parameters(self.sinks, formats.activations),) if self.sinks else ()

    def work(self, site: Site) -> Work:
        scores = Softmax.work(self, site)
        column = (3 + EXP_FLOPS) * site.load.tokens * self.sinks
        return (
            scores
            if not self.sinks
            else replace(
                scores, vector_flops=scores.vector_flops + column, weight_bytes=site.weight_bytes()
            )
        )


@dataclass(frozen=True)
class AttentionValues(AttentionPart):
    """O = P·V per head."""

    about: ClassVar[str] = "P·V per head (part of attention)"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        del inputs
        rows = "context_tokens" if self.shape.span == "past" else "tokens"
        return ((Dim(symbols=(rows,)), as_dim(self.shape.heads * self.shape.head_dim)),)


@operator("attention")
@dataclass(frozen=True)
class Attention(Operator):
    """Multi-head attention with grouped KV heads: Q is [tokens, heads·head_dim], the second input
    is the handle of a ``kv_cache_write``; no second input where the cache is another layer's.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    """Keys a query may look back on, itself included; none for all."""
    causal: bool = True
    softcap: bool = False
    sinks: bool = False
    """Whether each head has a learned logit that joins every softmax (gpt-oss)."""
    chunk: int | None = None
    """Chunked-local: a query looks only within its chunk of so many positions (Llama 4)."""
    cached: bool = True
    """False for an encoder: K and V come in as tensors, and nothing is kept of them."""
    shared: bool = False
    """Reads Q alone, and the cache that an earlier layer keeps (Gemma 3n)."""

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    arity: ClassVar[tuple[int, int]] = (1, 3)
    about: ClassVar[str] = "attention over the KV cache: scores, mask, softmax, values"
    matrix: ClassVar[bool] = True

    def layout(self) -> Heads:
        """The layer's shape on this rank."""
        return Heads(
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.window,
            self.causal,
            self.chunk,
            self.cached,
            self.shared,
        )

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads do not share {self.kv_heads} KV heads evenly")
        if self.window and not self.causal:
            raise ValueError("a window needs causal attention: it looks back only")
        if self.window and self.chunk:
            raise ValueError("attention looks back within a window or within chunks, not both")
        self._check_arity(len(inputs))
        width = self.kv_heads * self.head_dim
        need = 2 * width if self.cached else width
        for held in {static(sides[-1]) for sides in inputs[1:]} - {need}:
            what = "the cache holds" if self.cached else "K and V hold"
            raise ValueError(
                f"{what} {held} elements a token, but {self.kv_heads} KV heads of "
                f"{self.head_dim} need {need}"
            )
        return AttentionScores(self.layout()).shapes(inputs) and (inputs[0],)

    def _check_arity(self, count: int) -> None:
        if self.shared and (count != 1 or not self.cached):
            raise ValueError("it reads Q alone: its cache is another layer's")
        if not self.shared and count != (2 if self.cached else 3):
            raise ValueError(f"it reads Q and {'a cache' if self.cached else 'K and V'}")

    def parts(self) -> tuple[Part, ...]:
        layout = self.layout()
        keys, values = (() if self.shared else (at,) for at in (1, 1 if self.cached else 2))
        return (
            Part("scores", AttentionScores(layout), (0, *keys)),
            Part("mask", AttentionMask(self.softcap), ("scores",)),
            Part("softmax", AttentionSoftmax(self.heads if self.sinks else 0), ("mask",)),
            Part("values", AttentionValues(layout), ("softmax", *values)),
        )

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        heads = divide(self.heads, ranks, "attention heads")
        return replace(self, heads=heads, kv_heads=kv_heads_per_rank(self.kv_heads, ranks)), None
