"""What attention moves, by the way it runs: apart, fused, with its keys read again, split.

For a layer of H query and G key-value heads of d elements of b bytes, n new tokens over k keys:

    Q, O      2·n·H·d·b
    K, V      2·k·G·d·b
    apart     Q, O + K, V + H·n·k·(4·4 + 2·2)   scores and masked scores in FP32, probabilities in
                                                16 bit: written by one kernel, read by the next
    resident  Q, O + K, V                       K and V of one head stay in the L2
    re-read   Q, O + 2·G·d·b·Σ of the keys that each tile row sees
    split     resident + 2·H·n·(d + 1)·4·parts  partial outputs and their sums in FP32

Tile rows of T queries read the keys up to their last query. FlashAttention-2 (Dao 2023), algorithm
1; split KV: Flash-Decoding (Dao et al. 2023). The square is computed apart, the causal half fused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

from planner.cost.annotate import annotate
from planner.cost.types import Device, device
from planner.dtypes import bytes_per_element
from planner.errors import UsageError
from planner.graph.build import model_graph
from planner.graph.totals import weights_bytes
from planner.graph.types import Block, ModelGraph
from planner.ops.attention import AttentionScores
from planner.ops.heads import Heads
from planner.ops.types import Formats, Load, SequenceGroup
from planner.spec.types import BlockSpec, GpuSpec, ModelSpec

SCORE_BYTES = 4
"""Scores are kept in FP32."""
_PAIR_BYTES = 4 * SCORE_BYTES + 2 * 2
"""Of a pair and head apart: two tensors in FP32 and one in 16 bit, written and read."""
_PARTIAL_BYTES = 4


@dataclass(frozen=True)
class LedgerRow:
    """Bytes of one layer's attention for one sequence."""

    new_tokens: int
    """Tokens of the prompt, or one."""
    kv_tokens: int
    """Keys that the last of them attends to."""
    tile: int
    """Query rows of a tile."""
    splits: int
    """Parts that the keys are cut into."""
    flops: float
    """Causal pairs."""
    apart_bytes: float
    """As separate kernels."""
    resident_bytes: float
    """Fused, keys and values read once."""
    reread_bytes: float
    """Fused, keys and values read again by every tile row."""
    split_bytes: float
    """Fused, and the keys of each head cut into ``splits`` parts."""


@dataclass(frozen=True)
class Affordable:
    """From where on attention as separate kernels is out of reach on one GPU."""

    gpu: str
    """As the catalogue calls it."""
    slower_than_layer: int
    """Tokens from which its bytes take longer than the layer's matrix products compute."""
    slower_than_fused: float
    """By how much its bytes outlast the causal FLOPs at the matrix peak, at any length."""
    largest: int
    """Tokens whose scores, written and being read, fit beside the weights; the whole memory's where
    these don't fit."""
    weights_fit: bool
    """Whether the GPU holds the weights."""


@dataclass(frozen=True)
class AttentionLedger:
    """The answer of ``planner attention``."""

    model: str
    """Its title."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Heads of keys and values."""
    head_dim: int
    """Elements of a head."""
    rows: tuple[LedgerRow, ...]
    """Prompts by length and tile, then decode steps by length."""
    gpus: tuple[Affordable, ...]
    """Those asked for."""


def attention_ledger(
    model: ModelSpec,
    blocks: dict[str, BlockSpec],
    gpus: Sequence[GpuSpec],
    *,
    lengths: Sequence[int],
    tiles: Sequence[int],
    splits: int,
) -> AttentionLedger:
    """The bytes of a model's attention at each length, and where it becomes out of reach.

    Prompts of each length, then a decode step over as many keys. Raises UsageError for a model
    without grouped attention.
    """
    wide = model.weights if bytes_per_element(model.weights) == 2 else "bf16"  # noqa: PLR2004
    graph = model_graph(model, blocks, Formats(wide, wide, wide, wide))
    block, heads = _attention(graph)
    rows = tuple(_rows(heads, lengths, tiles, splits))
    found = tuple(_affordable(graph, block, heads, gpu) for gpu in gpus)
    return AttentionLedger(model.title, heads.heads, heads.kv_heads, heads.head_dim, rows, found)


def _attention(graph: ModelGraph) -> tuple[Block, Heads]:
    for block in graph.kinds:
        for node in block.nodes:
            if isinstance(node.op, AttentionScores) and node.op.shape.window is None:
                return block, node.op.shape
    raise UsageError("the model has no attention over all keys that a cache holds")


def _rows(
    heads: Heads, lengths: Sequence[int], tiles: Sequence[int], splits: int
) -> Iterator[LedgerRow]:
    for length in lengths:
        for tile in tiles:
            yield ledger_row(heads, length, length, tile, 1)
    for length in lengths:
        yield ledger_row(heads, 1, length, 1, splits)


def ledger_row(heads: Heads, new: int, keys: int, tile: int, splits: int) -> LedgerRow:
    """The bytes of one sequence of ``new`` tokens over ``keys`` keys, in 16 bit."""
    each = bytes_per_element("bf16")
    queries = 2 * new * heads.heads * heads.head_dim * each
    cached = 2 * heads.kv_heads * heads.head_dim * each
    seen = [min(keys, keys - new + (row + 1) * tile) for row in range(-(-new // tile))]
    pairs = new * (keys - new) + new * (new + 1) / 2
    partial = 2 * heads.heads * new * (heads.head_dim + 1) * _PARTIAL_BYTES * splits
    resident = queries + cached * keys
    return LedgerRow(
        new,
        keys,
        tile,
        splits,
        4 * heads.heads * heads.head_dim * pairs,
        resident + _PAIR_BYTES * heads.heads * new * keys,
        resident,
        queries + cached * sum(seen),
        resident + (partial if splits > 1 else 0),
    )


def _affordable(graph: ModelGraph, block: Block, heads: Heads, gpu: GpuSpec) -> Affordable:
    target = device(gpu)
    dtype = "bf16" if "bf16" in gpu.matrix else "fp16"
    peak, bandwidth = target.peak(dtype), target.bandwidth_bytes_per_s
    score_s = _PAIR_BYTES * heads.heads / bandwidth
    pair_s = 4 * heads.heads * heads.head_dim / 2 / peak
    token_s = _product_flops(block, target) / peak
    free = target.visible_bytes - weights_bytes(graph)
    room = free if free > 0 else target.visible_bytes
    return Affordable(
        gpu.title,
        int(token_s / score_s),
        score_s / pair_s,
        int(sqrt(room / (2 * heads.heads * SCORE_BYTES))),
        free > 0,
    )


def _product_flops(block: Block, target: Device) -> float:
    """Matrix FLOPs of a layer for one token, attention left out."""
    costs = annotate(block, Load((SequenceGroup(1, 1, 1),)), target)
    return sum(
        float(cost.work.matmul_flops)
        for cost in costs.nodes.values()
        if cost.node.composite is None
    )
