"""What sides of tensors follow from those of others, whatever the operator is called."""

from __future__ import annotations

from collections.abc import Sequence

from planner.importers.exported.types import Side, Sides

BROADCAST = frozenset(
    {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Max",
        "Min",
        "Where",
        "And",
        "Or",
        "Xor",
        "Equal",
        "Greater",
        "Less",
        "GreaterOrEqual",
        "LessOrEqual",
        "Mod",
        "PRelu",
        "Sum",
        "Mean",
    }
)
"""Operators whose output has the sides that their inputs broadcast to."""
UNCHANGED = frozenset(
    {
        "Cast",
        "Identity",
        "Dropout",
        "Relu",
        "Silu",
        "Swish",
        "Gelu",
        "FastGelu",
        "QuickGelu",
        "BiasGelu",
        "Sigmoid",
        "Tanh",
        "Erf",
        "Exp",
        "Log",
        "Sqrt",
        "Rsqrt",
        "Neg",
        "Abs",
        "Reciprocal",
        "Sin",
        "Cos",
        "Floor",
        "Ceil",
        "Round",
        "Clip",
        "LeakyRelu",
        "Elu",
        "Softplus",
        "HardSwish",
        "HardSigmoid",
        "Softmax",
        "LogSoftmax",
        "CumSum",
        "Not",
        "LayerNormalization",
        "RMSNormalization",
        "SimplifiedLayerNormalization",
        "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
        "GroupNormalization",
        "InstanceNormalization",
        "BatchNormalization",
        "RotaryEmbedding",
        "IsNaN",
        "Trilu",
        "ScatterND",
        "ScatterElements",
    }
)
"""Operators whose first output has the sides of the first input."""


def together(parts: list[Sides]) -> Sides | None:
    """NumPy's rule; of a named side and one not known the named one."""
    longest = max(map(len, parts))
    padded = [(1,) * (longest - len(part)) + part for part in parts]
    found: list[Side] = []
    for sides in zip(*padded, strict=True):
        wide = sorted({side for side in sides if side != 1}, key=lambda s: str(s).startswith("?"))
        named = [side for side in wide if not str(side).startswith("?")]
        if len(named) > 1:
            return None
        found.append(wide[0] if wide else 1)
    return tuple(found)


def quotient(before: Sides, rest: Sequence[Side]) -> Side | None:
    """What is left of a product of sides when others are divided out; None where it does not."""
    names = [side for side in before if isinstance(side, str)]
    top = bottom = 1
    for side in before:
        top *= side if isinstance(side, int) else 1
    for side in rest:
        if isinstance(side, int):
            bottom *= side
        elif side in names:
            names.remove(side)
        else:
            return None
    if top % bottom or len(names) > 1 or (names and top != bottom):
        return None
    return names[0] if names else top // bottom
