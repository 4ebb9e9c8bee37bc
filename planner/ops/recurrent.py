"""Layers that keep a state per sequence instead of a cache per token.

Every step reads the state of each sequence that has one and writes it back, once, whatever the
context. Useful FLOPs are those of the recurrence, token by token; a prompt is computed in chunks,
with more FLOPs but on matrix units (``executed``). Left out: the decay of the state, a product an
element that rides along while the state passes through registers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from planner.dtypes import bytes_per_element
from planner.num import Number, ceil_div, where
from planner.ops.pointwise import EXP_FLOPS
from planner.ops.registry import operator
from planner.ops.types import (
    Formats,
    OpClass,
    Operator,
    Parameters,
    Shape,
    Site,
    Tiling,
    Work,
    as_dim,
    divide,
    kv_heads_per_rank,
    show_shape,
    static,
)

StateFormat = Literal["fp32", "activations"]
"""What an engine keeps a recurrent state in."""


def _width(state: StateFormat, formats: Formats) -> float:
    """Bytes of a number of a state: as the engine keeps them, else as the operator says."""
    said = "fp32" if state == "fp32" else formats.activations
    return bytes_per_element(formats.states or said)


@dataclass(frozen=True)
class Stateful(Operator):
    """What operators with a state per sequence share: its traffic."""

    recurrent: ClassVar[bool] = True

    def pieces(self, site: Site) -> Number:
        """Parts that a kernel works on side by side; by default one a token."""
        return site.rows()

    def moved(self, site: Site) -> Work:
        """The state read by every sequence that has begun before, and written by every one."""
        size = self.state_bytes(tuple(t.shape for t in site.inputs), site.formats)
        return Work(
            weight_bytes=site.weight_bytes(),
            cache_read_bytes=size * site.load.continued,
            cache_write_bytes=size * site.load.sequences,
        )


@operator("causal_conv1d")
@dataclass(frozen=True)
class CausalConv1d(Stateful):
    """Depthwise convolution along each sequence over its inputs, laid side by side.

    2·kernel vector FLOPs an element. The state is the last kernel − 1 elements of each channel.
    """

    kernel: int
    """Tokens it looks at, the present one included."""
    bias: bool = False

    op_class: ClassVar[OpClass] = OpClass.CACHE
    arity: ClassVar[tuple[int, int]] = (1, 3)
    about: ClassVar[str] = "short depthwise convolution along a sequence, with its state"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return ((*inputs[0][:-1], as_dim(self._channels(inputs))),)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        return (
            Parameters((self.kernel + self.bias) * self._channels(inputs), formats.activations),
        )

    def work(self, site: Site) -> Work:
        flops = 2 * self.kernel * site.load.elements(site.outputs[0].shape)
        return replace(self.moved(site), vector_flops=flops)

    def state_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        width = bytes_per_element(formats.activations)
        return (self.kernel - 1) * self._channels(inputs) * width

    def _channels(self, inputs: tuple[Shape, ...]) -> int:
        return sum(static(sides[-1]) for sides in inputs)


@operator("linear_attention")
@dataclass(frozen=True)
class LinearAttention(Stateful):
    """Attention without softmax: a matrix of key_dim × value_dim per head in place of a cache.

    The first input holds queries, keys and values side by side; any others are gates (decay, β,
    Δ). ``rule: sum`` adds k·vᵀ to the state (Mamba-2, where C, B and x are query, key and value;
    Lightning attention; GLA): 4·d_k·d_v FLOPs a token and head. ``delta`` first takes off what the
    state answers to k (Gated DeltaNet, Kimi Delta Attention): 6·d_k·d_v.

    In chunks of C the state is met once a chunk; within it, per token and head:
    sum 4·d_k·d_v + 2·C·d_v, and 2·C·d_k per key head (Dao and Gu 2024, arXiv:2405.21060, sec. 6);
    delta 6·d_k·d_v + C·(6·d_k + 4·d_v) + C²/3, the last for the triangular inverse (Yang et al.
    2024, arXiv:2406.06484, section 3). Kernels compute squares whole and the last chunk full, and
    hand the state at each chunk's start (and, for delta, W and U) from one to the next through HBM.
    """

    heads: int
    """Value heads: each keeps a state."""
    key_heads: int
    """Heads of queries and keys, each shared by heads / key_heads; Mamba's groups."""
    key_dim: int
    """Rows of a state."""
    value_dim: int
    """Columns of a state."""
    rule: Literal["sum", "delta"] = "sum"
    """Whether a token is added to the state, or what the state has of it taken off first."""
    chunk: int = 64
    """Tokens that a prompt's kernels work on at once."""
    state: StateFormat = "fp32"
    """What the state is kept in."""
    weights: int = 0
    """Learned numbers it owns over all heads (decay, Δ's bias, skip)."""

    op_class: ClassVar[OpClass] = OpClass.CONTRACTION
    arity: ClassVar[tuple[int, int]] = (1, 4)
    about: ClassVar[str] = "linear attention with a state per head (delta rule, SSD, lightning)"
    matrix: ClassVar[bool] = True

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        if self.heads % self.key_heads:
            raise ValueError(f"{self.heads} heads do not share {self.key_heads} key heads evenly")
        need = 2 * self.key_heads * self.key_dim + self.heads * self.value_dim
        if static(inputs[0][-1]) != need:
            raise ValueError(
                f"its first input is {show_shape(inputs[0])}, but queries, keys and values of "
                f"{self.key_heads} × {self.key_dim} and {self.heads} × {self.value_dim} need a "
                f"last side of {need}"
            )
        return ((*inputs[0][:-1], as_dim(self.heads * self.value_dim)),)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        del inputs
        return (Parameters(self.weights, formats.activations),) if self.weights else ()

    def work(self, site: Site) -> Work:
        gates = sum(site.load.elements(tensor.shape) for tensor in site.inputs[1:])
        return replace(
            self.moved(site),
            matmul_flops=site.rows() * self.heads * self._state_flops(),
            vector_flops=(2 + EXP_FLOPS) * gates,
        )

    def executed(self, site: Site, tiling: Tiling | None) -> Work:
        del tiling
        flops = site.load.padding_tokens * self.heads * self._state_flops()
        scratch: Number = 0
        for group in site.load.groups:
            prompt = (group.new_tokens > 1) & (not group.verified)
            chunks = where(prompt, ceil_div(group.new_tokens, self.chunk), 0)
            once = where(prompt, 0, group.new_tokens) * self.heads
            whole = once * self._state_flops() + chunks * self._chunk_flops()
            flops = flops + group.count * whole
            scratch = scratch + group.count * chunks * self._chunk_bytes(site.formats)
        return replace(self.work(site), matmul_flops=flops, scratch_bytes=2 * scratch)

    def pieces(self, site: Site) -> Number:
        """Heads of each sequence, and of each of its chunks."""
        groups = site.load.groups
        return self.heads * sum(g.count * ceil_div(g.new_tokens, self.chunk) for g in groups)

    def state_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        del inputs
        return self._elements() * self._width(formats)

    def sharded(self, ranks: int) -> tuple[Operator, str | None]:
        return replace(
            self,
            heads=divide(self.heads, ranks, "linear-attention heads"),
            key_heads=kv_heads_per_rank(self.key_heads, ranks),
            weights=-(-self.weights // ranks),
        ), None

    def _elements(self) -> int:
        return self.heads * self.key_dim * self.value_dim

    def _width(self, formats: Formats) -> float:
        return _width(self.state, formats)

    def _state_flops(self) -> int:
        """FLOPs of one token and head on the state."""
        return (6 if self.rule == "delta" else 4) * self.key_dim * self.value_dim

    def _chunk_flops(self) -> float:
        """FLOPs of one whole chunk over all heads."""
        c, keys, values = self.chunk, self.key_dim, self.value_dim
        state = c * self.heads * self._state_flops()
        if self.rule == "sum":
            return state + 2 * c * c * (self.heads * values + self.key_heads * keys)
        return state + self.heads * (c * c * (6 * keys + 4 * values) + c**3 / 3)

    def _chunk_bytes(self, formats: Formats) -> float:
        """Bytes that the kernels of one chunk write for each other: each is read once as well."""
        wide = bytes_per_element(formats.activations)
        if self.rule == "sum":
            return self._elements() * self._width(formats) + self.key_heads * self.chunk**2 * wide
        rows = self.heads * self.chunk * (self.key_dim + 2 * self.value_dim + self.chunk)
        return (self._elements() + rows) * wide


@operator("selective_scan")
@dataclass(frozen=True)
class SelectiveScan(Stateful):
    """Mamba-1's scan of [tokens, channels] inputs x and Δ, with B and C of [tokens, state].

    Each channel keeps ``state`` numbers: exp(Δ·A), its product with the state, Δ·B·x added, C·h
    taken: 6 vector FLOPs and an exponential an element of the state, 4 a channel for Δ·x, the skip
    and the softplus (Gu and Dao 2023, arXiv:2312.00752, algorithm 2). A prompt is scanned within
    one kernel, which keeps the state on the chip (section 3.3.2).
    """

    size: int
    """Numbers of state a channel."""
    state: StateFormat = "fp32"
    """What the state is kept in."""

    op_class: ClassVar[OpClass] = OpClass.CACHE
    arity: ClassVar[tuple[int, int]] = (4, 4)
    about: ClassVar[str] = "Mamba-1's selective scan, with its state"

    def shapes(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        x, delta, *projections = inputs
        if delta != x:
            raise ValueError(f"x is {show_shape(x)}, but Δ is {show_shape(delta)}")
        for sides in projections:
            if static(sides[-1]) != self.size:
                raise ValueError(f"B and C need a last side of {self.size}: {show_shape(sides)}")
        return (x,)

    def parameters(self, inputs: tuple[Shape, ...], formats: Formats) -> tuple[Parameters, ...]:
        return (Parameters(static(inputs[0][-1]) * (self.size + 1), formats.activations),)

    def work(self, site: Site) -> Work:
        flops = site.elements() * (self.size * (6 + EXP_FLOPS) + 4 + EXP_FLOPS)
        return replace(self.moved(site), vector_flops=flops)

    def pieces(self, site: Site) -> Number:
        """Channels of each sequence, 64 to a block (recalled: BLOCK_SIZE_M of mamba_ssm)."""
        return ceil_div(static(site.inputs[0].shape[-1]), 64) * site.load.sequences

    def state_bytes(self, inputs: tuple[Shape, ...], formats: Formats) -> float:
        return static(inputs[0][-1]) * self.size * _width(self.state, formats)
