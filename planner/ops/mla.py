"""Multi-head latent attention around its kernels: the cache of latents, expansion and absorption.

A token leaves one latent and one rotated key for all heads. Prompts *expand* the latents to keys
and values per head and are plain multi-head attention; decoding sequences *absorb* the expansion
into queries and outputs, and attend to the latents themselves. Both stand in a block's graph. What
a step has no sequences for has no rows and does not run (`planner.graph.active`).
Source: DeepSeek-V2 (arXiv 2405.04434), 2.1 and appendix C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number, where
from planner.ops.dims import ROWS, Phase
from planner.ops.linear import Linear
from planner.ops.registry import operator
from planner.ops.types import (
    Dim,
    Formats,
    OpClass,
    Operator,
    Parameters,
    Shape,
    Site,
    Work,
    as_dim,
    divide,
    show_shape,
    static,
)

SCALED_TOGETHER = 128
"""Elements that share one FP32 scale in caches with scales inside."""


def latent_bytes(latent: int, rope: int, kv_cache: str, *, packed: bool) -> float:
    """Bytes that one token takes in the cache of one layer, whatever the number of heads.

    ``packed``: the layout that sparse kernels read in FP8, with one FP32 scale for 128 elements
    of the latent and the rotated key in 16 bit, 656 bytes for DeepSeek-V3.2.
    Source: FlashMLA README, "FP8 sparse decoding"; vLLM's fp8_ds_mla.
    """
    if packed and kv_cache == "fp8":
        return latent + 4 * latent / SCALED_TOGETHER + 2 * rope
    return (latent + rope) * bytes_per_element(kv_cache)


@operator("mla_cache_write")
@dataclass(frozen=True)
class MlaCacheWrite(Operator):
    """Appends latents and rotated keys, [tokens, latent] and [tokens, rope], to the cache.

    All heads share what it holds, so every tensor-parallel rank holds all of it.
    """

    packed: bool = False
    """For sparse attention, whose FP8 cache holds scales and 16-bit keys."""

    op_class: ClassVar[OpClass] = OpClass.CACHE
    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "append latents and rotated keys to the latent cache"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((as_dim(static(inputs[0][-1]) + static(inputs[1][-1])),),)

    def cached_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        latent, rope = (static(shape[-1]) for shape in inputs)
        return latent_bytes(latent, rope, formats.kv_cache, packed=self.packed)

    def work(self, site: Site) -> Work:
        shapes = tuple(tensor.shape for tensor in site.inputs)
        each = self.cached_bytes(shapes, site.formats)
        return Work(cache_write_bytes=site.rows() * each)

    def handles(self) -> bool:
        return True


@operator("mla_expand")
@dataclass(frozen=True)
class MlaExpand(Linear):
    """Keys and values of all heads from latents (kv_b_proj), for every key that prompts attend to.

    Latents of new tokens come from the first input; of those before them from the cache, the
    second. Source: vLLM v1/attention/backends/mla/common.py, _forward_prefill.
    """

    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "expand latents to keys and values per head, for prompts"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        del inputs
        return ((Dim(symbols=("prefill_keys",)), as_dim(self.features)),)

    def work(self, site: Site) -> Work:
        rows, depth = site.load.size("prefill_keys"), static(site.inputs[0].shape[-1])
        return Work(
            matmul_flops=2 * rows * depth * self.features,
            weight_bytes=where(rows > 0, site.weight_bytes(), 0),
        )

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        latents, cache = site.inputs
        new, keys = site.load.size("prefill_tokens"), site.load.size("prefill_keys")
        cached = static(cache.shape[0]) * bytes_per_element(site.formats.kv_cache)
        each = static(latents.shape[-1]) * bytes_per_element(latents.dtype)
        return new * each, (keys - new) * cached


@operator("mla_keys")
@dataclass(frozen=True)
class MlaKeys(Operator):
    """Joins each head's expanded key with the rotated key that all heads share: a copy.

    Reads the keys' half of the expansion, and the rotated keys of new tokens.
    """

    heads: int
    nope: int
    """Elements of a head's key without its position."""
    rope: int
    """Elements of the rotated key."""

    op_class: ClassVar[OpClass] = OpClass.GATHER
    arity: ClassVar[tuple[int, int]] = (2, 2)
    about: ClassVar[str] = "join expanded and rotated keys, for prompts"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((inputs[0][0], as_dim(self.heads * (self.nope + self.rope))),)

    def work(self, site: Site) -> Work:
        del site
        return Work()

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        width = bytes_per_element(site.formats.activations)
        keys, new = site.load.size("prefill_keys"), site.load.size("prefill_tokens")
        return keys * self.heads * self.nope * width, new * self.rope * width

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        return replace(self, heads=divide(self.heads, ranks, "attention heads")), None


@operator("head_linear")
@dataclass(frozen=True)
class HeadLinear(Operator):
    """One projection per head, [rows, heads·depth] -> [rows, heads·features]: a batched GEMM.

    W_UK on the queries and W_UV on the outputs of absorbed latent attention. FLOPs =
    2·rows·heads·depth·features. Weights stay in 16 bit.
    Source: vLLM v1/attention/backends/mla/common.py, _forward_decode and _v_up_proj.
    """

    heads: int
    depth: int
    features: int
    phase: Phase = "all"
    """The sequences whose tokens it runs for."""
    tied: bool = False
    """Its weights are another node's, read but counted once."""

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    about: ClassVar[str] = "projection of each head by weights of its own"
    matrix: ClassVar[bool] = True

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if static(inputs[0][-1]) != self.heads * self.depth:
            raise ValueError(
                f"{show_shape(inputs[0])} is not {self.heads} heads of {self.depth} elements"
            )
        return ((Dim(symbols=(ROWS[self.phase],)), as_dim(self.heads * self.features)),)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        del inputs
        elements = self.heads * self.depth * self.features
        return (Parameters(elements, formats.activations, shared=self.tied),)

    def work(self, site: Site) -> Work:
        rows = site.load.size(ROWS[self.phase])
        flops = 2 * rows * self.heads * self.depth * self.features
        return Work(matmul_flops=flops, weight_bytes=where(rows > 0, site.weight_bytes(), 0))

    def input_bytes(self, site: Site) -> tuple[Number, ...]:
        rows = site.load.size(ROWS[self.phase])
        return (rows * self.heads * self.depth * bytes_per_element(site.inputs[0].dtype),)

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        return replace(self, heads=divide(self.heads, ranks, "attention heads")), None
