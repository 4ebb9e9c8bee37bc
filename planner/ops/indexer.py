"""The lightning indexer of DeepSeek Sparse Attention: which keys each query attends to.

Its projections, norm and rotation are ordinary nodes. It is not cut by tensor parallelism: each
rank scores with all index heads, since every rank needs the same keys.
Source: DeepSeek-V3.2 report, 2.1; vLLM model_executor/models/deepseek_v2.py, Indexer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from planner.dtypes import is_quantized
from planner.num import Number
from planner.ops.mla import SCALED_TOGETHER
from planner.ops.registry import operator
from planner.ops.types import (
    Dim,
    Formats,
    OpClass,
    Operator,
    Pairs,
    Shape,
    Site,
    Tensor,
    Work,
    as_dim,
    show_shape,
    static,
)


def _key_bytes(dim: int) -> float:
    """An FP8 key with one FP32 scale for 128 elements: 132 bytes for 128."""
    return dim + 4 * dim / SCALED_TOGETHER


@operator("index_cache_write")
@dataclass(frozen=True)
class IndexCacheWrite(Operator):
    """Appends index keys [tokens, dim] to a cache of their own, in FP8 with scales."""

    op_class: ClassVar[OpClass] = OpClass.CACHE
    about: ClassVar[str] = "append index keys to the indexer's cache"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((inputs[0][-1],),)

    def cached_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        del formats
        return _key_bytes(static(inputs[0][-1]))

    def work(self, site: Site) -> Work:
        return Work(cache_write_bytes=site.rows() * _key_bytes(static(site.inputs[0].shape[-1])))

    def handles(self) -> bool:
        return True


@operator("index_scores")
@dataclass(frozen=True)
class IndexScores(Operator):
    """Σ over index heads of weight · ReLU(q·k), for every query and key: FP32 logits.

    Reads index queries [tokens, heads·dim], a weight per head [tokens, heads] and the handle of an
    ``index_cache_write``. 2·heads·dim matrix FLOPs a causal pair and 3·heads vector ones.
    """

    heads: int
    dim: int

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    arity: ClassVar[tuple[int, int]] = (3, 3)
    about: ClassVar[str] = "scores of the lightning indexer"
    matrix: ClassVar[bool] = True
    quantizes: ClassVar[bool] = True

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        wanted = (self.heads * self.dim, self.heads, self.dim)
        if tuple(static(shape[-1]) for shape in inputs) != wanted:
            raise ValueError(
                f"{', '.join(map(show_shape, inputs))} are not queries of {self.heads} heads of "
                f"{self.dim}, their weights and a cache of such keys"
            )
        return ((Dim(symbols=(Pairs(),)),),)

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        del inputs, formats
        return "fp32"

    def matmul_format(self, formats: Formats) -> str:
        return "fp8" if is_quantized(formats.matmul) else formats.activations

    def pairs(self, site: Site) -> Number:
        """Causal query-key pairs."""
        return sum(g.count * g.causal_pairs(None) for g in site.load.groups)

    def work(self, site: Site) -> Work:
        pairs = self.pairs(site)
        return Work(
            matmul_flops=2 * self.heads * self.dim * pairs, vector_flops=3 * self.heads * pairs
        )

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        queries, weights, _ = (tensor.bytes(site.load) for tensor in site.inputs)
        keys = sum(g.count * g.kv_tokens for g in site.load.groups)
        return queries, weights, keys * _key_bytes(self.dim)


@operator("index_select")
@dataclass(frozen=True)
class IndexSelect(Operator):
    """The ``keys`` best keys of each token by its logits: 32-bit indices [tokens, keys].

    One pass over the logits; engines' radix selections take a few more, from the L2.
    """

    keys: int

    op_class: ClassVar[OpClass] = OpClass.ROW_REDUCTION
    about: ClassVar[str] = "top-k keys of each token"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        del inputs
        return ((Dim(symbols=("tokens",)), as_dim(self.keys)),)

    def work(self, site: Site) -> Work:
        return Work(vector_flops=site.elements())

    def output_dtype(self, inputs: tuple[Tensor, ...], formats: Formats) -> str:
        del inputs, formats
        return "fp32"  # indices are 32-bit integers; only their width matters
