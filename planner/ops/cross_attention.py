"""Attention of a decoder to what its encoder wrote: keys that are computed once a request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from planner.dtypes import bytes_per_element
from planner.num import Number, ceil_div
from planner.ops.pointwise import EXP_FLOPS
from planner.ops.recurrent import Stateful
from planner.ops.registry import operator
from planner.ops.types import (
    Formats,
    OpClass,
    Operator,
    Shape,
    Site,
    Work,
    divide,
    kv_heads_per_rank,
    show_shape,
    static,
)


@operator("cross_attention")
@dataclass(frozen=True)
class CrossAttention(Stateful):
    """Q is [tokens, heads·head_dim]; every query sees all ``keys`` of its sequence.

    4·heads·head_dim FLOPs a pair. K and V are a state of the sequence: as many bytes in every
    step, read once a sequence, written by the encoder. Scores stay on the chip, as every engine's
    kernel keeps them.
    """

    heads: int
    kv_heads: int
    head_dim: int
    keys: int
    """Rows the encoder left of one item: 1500 frames of Whisper."""

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    about: ClassVar[str] = "attention to an encoder's output, whose K and V are kept"
    matrix: ClassVar[bool] = True
    recurrent: ClassVar[bool] = False

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        width = self.heads * self.head_dim
        if static(inputs[0][-1]) != width:
            raise ValueError(
                f"Q is {show_shape(inputs[0])}, but {self.heads} heads of {self.head_dim} need a "
                f"last side of {width}"
            )
        return (inputs[0],)

    def work(self, site: Site) -> Work:
        scores = site.rows() * self.heads * self.keys
        return Work(
            matmul_flops=4 * self.head_dim * scores,
            vector_flops=(4 + EXP_FLOPS) * scores,
            cache_read_bytes=self.state_bytes((), site.formats) * site.load.sequences,
        )

    def pieces(self, site: Site) -> Number:
        """KV heads of each sequence, in splits of 256 keys (recalled: FlashAttention's)."""
        return self.kv_heads * ceil_div(self.keys, 256) * site.load.sequences

    def state_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        del inputs
        width = 2 * self.kv_heads * self.head_dim
        return self.keys * width * bytes_per_element(formats.kv_cache)

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        heads = divide(self.heads, ranks, "attention heads")
        return replace(self, heads=heads, kv_heads=kv_heads_per_rank(self.kv_heads, ranks)), None
