"""The shape of an attention layer: which pairs count, which keys are read, what a token caches."""

from __future__ import annotations

from dataclasses import dataclass

from planner.dtypes import HEAD_SCALE_BYTES, bytes_per_element
from planner.num import Number, minimum, where
from planner.ops.dims import Span
from planner.ops.types import Load, SequenceGroup


@dataclass(frozen=True)
class Heads:
    """The shape of an attention layer on one rank."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    causal: bool = True
    chunk: int | None = None
    cached: bool = True
    """False where K and V are tensors of the step, not of a cache."""
    shared: bool = False
    """Whether the cache is another layer's, which stands for it in memory."""
    span: Span = "all"
    """Keys that it looks at."""
    ranks: int = 1
    """Ranks over which the keys cached before the step are spread evenly."""

    @property
    def reach(self) -> int | None:
        """Tokens of a sequence that its cache must hold at most; None for all."""
        return self.window or self.chunk

    @property
    def keeps(self) -> bool:
        """Whether it stands for the layer's cache: one of two where the keys are in two spans."""
        return self.cached and not self.shared and self.span != "new"

    def kv_bytes_per_token(self, kv_cache: str) -> float:
        """Bytes of K and V one token leaves in this layer's cache, scales of heads included."""
        scale_bytes = HEAD_SCALE_BYTES.get(kv_cache, 0)
        return 2 * self.kv_heads * (self.head_dim * bytes_per_element(kv_cache) + scale_bytes)

    def groups(self, load: Load) -> tuple[SequenceGroup, ...]:
        """The sequences of a load, with the keys that this rank attends to."""
        return load.of_span(self.span, self.ranks, self.chunk)

    def cache_tokens(self, load: Load) -> Number:
        """Cached tokens read, over all sequences, each once."""
        return sum(g.count * g.keys_read(self.window) for g in self.groups(load))

    def useful_pairs(self, load: Load) -> Number:
        """Query-key pairs that count, over all sequences: the causal ones."""
        return sum(
            g.count * (g.causal_pairs(self.window) if self.causal else g.rectangle_pairs(None))
            for g in self.groups(load)
        )

    def rectangle_pairs(self, load: Load) -> Number:
        """Pairs a kernel computes that masks afterwards."""
        return sum(g.count * g.rectangle_pairs(self.window) for g in self.groups(load))

    def tiled_pairs(self, load: Load, tile: int) -> Number:
        """Pairs a tiled causal kernel computes, diagonal tiles whole."""
        if not self.causal:
            return self.rectangle_pairs(load)
        groups = self.groups(load)
        return sum(g.count * g.tiled_pairs(self.window, tile) for g in groups)

    def reread_bytes(self, load: Load, tile: int, l2_bytes: float, kv_cache: str) -> Number:
        """Extra HBM bytes of a tiled kernel: what its tile rows read of K and V beyond once.

        Where what a row reads of one KV head fits the L2 the next row finds it there. The tile
        rows of the query heads that share a KV head run together and share its reads.
        Source: FlashAttention-2 loads K and V once per query block (Dao 2023, algorithm 1).
        """
        per_head = 2 * self.head_dim * bytes_per_element(kv_cache)
        extra: Number = 0
        for g in self.groups(load):
            keys = g.keys_read(self.window)
            row = keys if self.window is None else minimum(keys, self.window + tile - 1)
            whole = g.query_tiles(tile) * keys
            rows = g.tile_keys(self.window, tile) if self.causal else whole
            again = where(row * per_head > l2_bytes, rows - keys, 0)
            extra = extra + g.count * again * self.kv_heads * per_head
        return extra
