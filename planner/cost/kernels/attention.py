"""What attention kernels are asked to do, for prefill and decode alike."""

from __future__ import annotations

from dataclasses import dataclass

from planner.num import Number, minimum, where

BOTH_WAYS = 1.5
"""Attention that sees keys on both sides is priced as causal attention over half as many keys
more: n·n/2 + n²/2 pairs, the same n². Left out: that it reads no more keys than n."""
ELEMENT_BYTES = {"bf16": 2.0, "fp8": 1.0}
"""Bytes of a KV element by the format that ends a variant's name."""
ACTIVATION_BYTES = 2.0
"""Queries and outputs are 16 bits wide."""


@dataclass(frozen=True)
class AttentionShape:
    """``batch`` like sequences on one GPU, each with ``new_tokens`` queries over ``kv_tokens``.

    ``kv_tokens`` counts the new tokens too. Heads are those of one rank. Prefill of several
    unlike sequences is priced as one call per group of like ones.
    """

    batch: Number
    new_tokens: Number
    kv_tokens: Number
    heads: Number
    kv_heads: Number
    head_dim: Number
    value_dim: Number = 0
    """0: as wide as the keys."""
    window: Number = 0
    """Keys that a query sees at most; 0: all before it."""
    kv_bytes: float = 0.0
    """Of an element of the cache; 0: as the variant of the kernel says."""


def windowed(shape: AttentionShape) -> Number:
    """Whether the window hides some of the context."""
    return (shape.window > 0) & (shape.window < shape.kv_tokens)


def visible_tokens(shape: AttentionShape) -> Number:
    """Keys that the last query sees."""
    return where(windowed(shape), minimum(shape.window, shape.kv_tokens), shape.kv_tokens)


def dims(shape: AttentionShape) -> Number:
    """Elements of a key and a value of one head."""
    value = where(shape.value_dim > 0, shape.value_dim, shape.head_dim)
    return shape.head_dim + value


def split_name(variant: str) -> tuple[str, float]:
    """Kernel and bytes per KV element of a variant, ``<kernel>.<format>``. Raises KeyError."""
    kernel, _, dtype = variant.rpartition(".")
    return kernel, ELEMENT_BYTES[dtype]
