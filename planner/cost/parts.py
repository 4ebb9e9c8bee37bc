"""What an estimate of a kernel is put together from."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.constants import Fitted
from planner.cost.kernels import attention_decode, attention_prefill
from planner.cost.kernels.attention import AttentionShape
from planner.cost.kernels.types import KernelModel
from planner.graph.types import Node
from planner.ops.heads import Heads
from planner.ops.types import OpClass, SequenceGroup, Site


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
    """The model that prices attention of a group of sequences, and what it is asked."""
    model = attention_decode.MODEL if group.new_tokens == 1 else attention_prefill.MODEL
    return model, AttentionShape(
        float(group.count),
        float(group.new_tokens),
        float(group.kv_tokens),
        heads.heads,
        heads.kv_heads,
        heads.head_dim,
        window=heads.window or 0,
    )


def walked_rows(node: Node, site: Site) -> float:
    """Rows a streaming kernel walks: of its first node's input or output, whichever has more.

    A look-up reads one list of ids and writes a row for each; sampling reads rows and writes ids.
    """
    if node.op.op_class == OpClass.CACHE:
        return float(site.load.tokens)
    shapes = [site.inputs[0].shape, *(tensor.shape for tensor in site.outputs)]
    return max(float(site.load.elements(shape[:-1])) for shape in shapes)
