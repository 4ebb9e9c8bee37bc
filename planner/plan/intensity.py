"""Arithmetic intensity of a model's operators: exact, and as the lesson's table counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from planner.cost.annotate import annotate
from planner.cost.types import Device, NodeCost, device
from planner.dtypes import bytes_per_element
from planner.graph.active import active, idle_symbols
from planner.graph.build import model_graph
from planner.graph.types import Block, ModelGraph
from planner.ops.attention import AttentionScores
from planner.ops.heads import Heads
from planner.ops.linear import Linear
from planner.ops.moe import Moe, MoeRouter
from planner.ops.types import Formats, Load, SequenceGroup, static
from planner.plan.attention_rows import AttentionRow, Convention, latent_rows
from planner.spec.types import BlockSpec, GpuSpec, ModelSpec


@dataclass(frozen=True)
class GemmRow:
    """A projection at M tokens in flight."""

    name: str
    block: str
    tokens: int
    depth: int
    """K."""
    features: int
    """N."""
    flops_per_byte: float
    ridge_flops_per_byte: float
    bound: str
    crossing_tokens: float | None
    experts: int | None = None
    """Routed experts that share the tokens; K and N are those of one's first matrix."""
    top_k: int | None = None
    """Experts that a token goes to."""


@dataclass(frozen=True)
class Intensity:
    """The table of ``planner intensity``."""

    model: str
    gpu: str
    convention: Convention
    dtype: str
    ridge_flops_per_byte: float
    gemms: tuple[GemmRow, ...]
    attention: tuple[AttentionRow, ...]


def intensity(
    model: ModelSpec,
    blocks: dict[str, BlockSpec],
    gpu: GpuSpec,
    tokens: tuple[int, ...],
    contexts: tuple[int, ...],
    *,
    convention: Convention = "exact",
    precision: str | None = None,
) -> Intensity:
    """Intensity of every GEMM at each count of tokens, of attention at each context.

    ``precision`` is the width of weights and activations, by default that of the model's weights.

    ``exact`` counts what the graph counts: biases, Q and O, causal work. ``textbook`` counts as
    the lesson on operator rooflines does: GEMMs without bias, attention by KV bytes alone and the
    full square in prefill. Routed experts are counted exactly in both: the lesson has none.
    """
    wide = precision or model.weights
    graph = model_graph(model, blocks, Formats(wide, wide, wide, wide))
    target = device(gpu)
    decoding = _decoding(graph).kinds
    gemms = (_gemms(kind, n, target, convention) for n in tokens for kind in decoding)
    rows = (_attention(kind, n, target, convention) for kind in graph.kinds for n in contexts)
    return Intensity(
        model.title,
        gpu.title,
        convention,
        wide,
        target.ridge(wide),
        tuple(chain.from_iterable(gemms)),
        tuple(chain.from_iterable(rows)),
    )


def _decoding(graph: ModelGraph) -> ModelGraph:
    """What decode runs: a projection for prompts alone has no tokens in flight there."""
    return active(graph, idle_symbols(graph, Load((SequenceGroup(1, 1, 1),))))


def _gemms(block: Block, tokens: int, target: Device, convention: Convention) -> list[GemmRow]:
    load = Load((SequenceGroup(tokens, 1, 1),))
    rows = []
    for cost in annotate(block, load, target).nodes.values():
        op = cost.node.op
        if isinstance(op, Linear):
            row = _gemm(block, tokens, cost, op.features)
            rows.append(row if convention == "exact" else _textbook(row, cost))
        elif isinstance(op, MoeRouter):
            rows.append(_gemm(block, tokens, cost, op.experts))
        elif isinstance(op, Moe):
            row = _gemm(block, tokens, cost, op.intermediate)
            rows.append(replace(row, experts=op.experts, top_k=op.top_k))
    return rows


def _gemm(block: Block, tokens: int, cost: NodeCost, features: int) -> GemmRow:
    return GemmRow(
        cost.node.id,
        block.label,
        tokens,
        static(block.tensors[cost.node.inputs[0]].shape[-1]),
        features,
        float(cost.flops_per_byte),
        cost.ridge_flops_per_byte,
        cost.bound,
        cost.crossing_tokens,
    )


def _textbook(row: GemmRow, cost: NodeCost) -> GemmRow:
    """The row as 2MKN / ((MK + KN + MN)·b): no bias, one width for weights and activations."""
    M, K, N, ridge = row.tokens, row.depth, row.features, row.ridge_flops_per_byte
    width = cost.node.parameters[0].bytes / cost.node.parameters[0].elements
    value = 2 * M * K * N / ((M * K + K * N + M * N) * width)
    slope = 2 * K * N - ridge * width * (K + N)
    return replace(
        row,
        flops_per_byte=value,
        bound="compute" if value >= ridge else "memory",
        crossing_tokens=ridge * width * K * N / slope if slope > 0 else None,
    )


def _attention(
    block: Block, context: int, target: Device, convention: Convention
) -> list[AttentionRow]:
    rows = [*latent_rows(block, context, target, convention)]
    for node in block.nodes:
        if not isinstance(node.op, AttentionScores):
            continue
        heads, formats = node.op.shape, block.formats
        limit = 4 * heads.heads * heads.head_dim / heads.kv_bytes_per_token(formats.kv_cache)
        decode = _attention_value(heads, formats, SequenceGroup(1, 1, context), convention)
        prefill = _attention_value(heads, formats, SequenceGroup(1, context, context), convention)
        ridge = target.ridge(node.matmul_dtype)
        rows.append(
            AttentionRow(
                node.composite or node.id,
                block.label,
                context,
                decode,
                "compute" if decode >= ridge else "memory",
                prefill,
                "compute" if prefill >= ridge else "memory",
                limit,
                ridge,
            )
        )
    return rows


def _attention_value(
    heads: Heads, formats: Formats, group: SequenceGroup, convention: Convention
) -> float:
    load = Load((group,))
    pair_flops = 4 * heads.heads * heads.head_dim
    cache = heads.cache_tokens(load) * heads.kv_bytes_per_token(formats.kv_cache)
    if convention == "textbook":
        return float(pair_flops * group.new_tokens * group.kv_tokens / cache)
    width = heads.heads * heads.head_dim * bytes_per_element(formats.activations)
    moved = cache + 2 * group.new_tokens * width
    return float(pair_flops * heads.useful_pairs(load) / moved)
