"""Intensity of attention in one layer, and that of latent attention in its two forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from planner.cost.annotate import annotate
from planner.cost.kernel import border, kernel_work
from planner.cost.types import Device
from planner.dtypes import bytes_per_element
from planner.graph.types import Block
from planner.graph.window import Window
from planner.ops.latent_attention import LatentHeads, LatentScores
from planner.ops.types import Load, SequenceGroup

Convention = Literal["exact", "textbook"]


@dataclass(frozen=True)
class AttentionRow:
    """Attention of one layer for one sequence of ``context`` tokens."""

    name: str
    block: str
    context: int
    decode_flops_per_byte: float
    decode_bound: str
    prefill_flops_per_byte: float
    prefill_bound: str
    limit_flops_per_byte: float
    """2·n_q / (n_kv·b): decode with Q and O left out."""
    ridge_flops_per_byte: float


def latent_rows(
    block: Block, context: int, target: Device, convention: Convention
) -> Iterator[AttentionRow]:
    """One row where a block has latent attention: decode absorbed, prompts as the block runs them.

    The limit is 2·n·(2·latent + rope) / ((latent + rope)·b), times how much of the context counts.
    """
    forms = {
        node.op.shape.phase: (node.composite or node.id, node.op.shape, node.matmul_dtype)
        for node in block.nodes
        if isinstance(node.op, LatentScores)
    }
    if not forms:
        return
    name, absorbed, dtype = forms.get("decode") or forms["all"]
    prompts, expanded, _ = forms.get("prefill") or forms["all"]
    ridge = target.ridge(dtype)
    one, whole = SequenceGroup(1, 1, context), SequenceGroup(1, context, context)
    if convention == "textbook":
        kv_cache = block.formats.kv_cache
        decode, prefill = (_textbook(absorbed, one, kv_cache), _textbook(expanded, whole, kv_cache))
    else:
        decode, prefill = (_exact(block, name, one, target), _exact(block, prompts, whole, target))
    each = absorbed.token_bytes(block.formats.kv_cache)
    yield AttentionRow(
        name,
        block.label,
        context,
        decode,
        "compute" if decode >= ridge else "memory",
        prefill,
        "compute" if prefill >= ridge else "memory",
        2 * absorbed.heads * (absorbed.key + absorbed.value) / each,
        ridge,
    )


def _exact(block: Block, name: str, group: SequenceGroup, target: Device) -> float:
    """Useful FLOPs of a composite by the bytes that cross its border."""
    costs = annotate(block, Load((group,)), target)
    parts = block.composites[name]
    work = kernel_work(
        border(Window(block), frozenset((0, part.id) for part in parts)), (costs,), target, None
    )
    flops = sum(costs.nodes[part.id].work.matmul_flops for part in parts)
    return float(flops / work.hbm_bytes)


def _textbook(heads: LatentHeads, group: SequenceGroup, kv_cache: str) -> float:
    """All pairs by what is attended to alone: latents, or expanded keys and values."""
    seen = group.kv_tokens if heads.select is None else min(group.kv_tokens, heads.select)
    flops = 2 * heads.heads * (heads.key + heads.value) * group.new_tokens * seen
    if heads.phase == "prefill":
        each = heads.heads * (heads.key + heads.value) * bytes_per_element(kv_cache)
    else:
        each = heads.token_bytes(kv_cache)
    return float(flops / (seen * each))
