"""Whether tensor parallelism cuts weights between their blocks of scales."""

from __future__ import annotations

from planner.ops.linear import Linear
from planner.ops.moe import Moe
from planner.ops.types import Formats, Operator, Shape, static

BLOCK = 128
"""Rows and columns of FP8 weights that share a scale in DeepSeek's scheme."""


def check_cut(op: Operator, inputs: tuple[Shape, ...], formats: Formats) -> None:
    """Refuse one rank's share of weights where it ends inside a block. Raises ValueError.

    Source: vLLM model_executor/layers/quantization/fp8.py create_weights, which SGLang follows:
    a partition that is no multiple of the block raises.
    """
    if formats.weights != "fp8_block" or not getattr(op, "quantizable", False):
        return
    side = _cut(op, inputs)
    if side % BLOCK:
        raise ValueError(
            f"a rank's share of {side} is no whole number of the blocks of {BLOCK} that FP8 scales "
            "are of"
        )


def _cut(op: Operator, inputs: tuple[Shape, ...]) -> int:
    """The side of the weights that ranks share out."""
    if isinstance(op, Moe):
        return op.intermediate
    if isinstance(op, Linear):
        rows = op.shard in {"row", "partial"}
        return static(inputs[0][-1]) if rows else op.features if op.shard != "none" else 0
    return 0
