"""Latent attention of a step as kernel models see it: one shape for each group of sequences."""

from __future__ import annotations

from planner.cost.kernels import mla
from planner.cost.kernels.mla import MlaShape
from planner.cost.kernels.types import KernelModel
from planner.num import any_nonzero, as_float
from planner.ops.latent_attention import LatentHeads
from planner.ops.types import Load


def latent_shapes(
    heads: LatentHeads, load: Load
) -> tuple[KernelModel[MlaShape], tuple[MlaShape, ...]]:
    """The model of the form a kernel is in, and what it is asked to do.

    Sparse attention is absorbed for prompts too: each of their tokens reads keys of its own, as a
    sequence by itself would, and as many as the mean token selects.
    """
    groups = [g for g in load.of_phase(heads.phase) if any_nonzero(g.count * g.new_tokens)]
    key, rope = heads.key - heads.rope, heads.rope
    if heads.phase == "prefill":
        return mla.PREFILL, tuple(
            MlaShape(
                as_float(g.count),
                as_float(g.new_tokens),
                as_float(g.kv_tokens),
                heads.heads,
                rope_dim=rope,
                head_dim=key,
                value_dim=heads.value,
            )
            for g in groups
        )
    asked = (
        (g.count, g.new_tokens, g.kv_tokens / heads.ranks)
        if heads.select is None
        else (g.count * g.new_tokens, 1, g.causal_pairs(heads.select) / g.new_tokens)
        for g in groups
    )
    return mla.DECODE, tuple(
        MlaShape(
            as_float(count),
            as_float(new),
            as_float(keys),
            heads.heads,
            latent_dim=key,
            rope_dim=rope,
        )
        for count, new, keys in asked
    )
