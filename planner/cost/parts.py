"""What an estimate of a kernel is put together from."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.constants import Fitted
from planner.cost.kernels import attention_decode, attention_prefill
from planner.cost.kernels.attention import BOTH_WAYS, AttentionShape
from planner.cost.kernels.types import KernelModel
from planner.ops.heads import Heads
from planner.ops.types import SequenceGroup


@dataclass(frozen=True)
class Part:
    """The time of one main kernel of a group."""

    family: str
    core_s: float
    floor_s: float
    moved_bytes: float
    """What it reads and writes itself; the group may move more."""
    fitted: Fitted


def attention_shape(
    heads: Heads, group: SequenceGroup
) -> tuple[KernelModel[AttentionShape], AttentionShape]:
    """The model that prices attention of a group of sequences, and what it is asked.

    Tokens to be verified are decoded: kernels lay their queries beside those of the heads.
    """
    decodes = group.new_tokens == 1 or group.verified
    model = attention_decode.MODEL if decodes else attention_prefill.MODEL
    return model, AttentionShape(
        float(group.count),
        1.0 if decodes else float(group.new_tokens),
        float(group.kv_tokens * (1 if heads.causal else BOTH_WAYS)),
        heads.heads * (int(group.new_tokens) if decodes else 1),
        heads.kv_heads,
        heads.head_dim,
        window=heads.window or 0,
    )
