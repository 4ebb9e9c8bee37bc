"""Nodes that compute on what is there: elementwise steps, norms, reductions, products."""

from __future__ import annotations

from collections.abc import Sequence

from planner.importers.exported.emission import Emission, last
from planner.importers.exported.graph import Role
from planner.importers.exported.layout import NoShape, Shape
from planner.importers.exported.products import weight_sides
from planner.importers.exported.types import Step

NAMED = {
    "Relu": "relu",
    "Silu": "silu",
    "Swish": "silu",
    "Gelu": "gelu",
    "FastGelu": "gelu",
    "QuickGelu": "gelu",
    "BiasGelu": "gelu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
}
"""Steps of one tensor that have an operator of their own."""
FLOPS = {
    **dict.fromkeys(
        [
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Max",
            "Min",
            "Neg",
            "Abs",
            "Floor",
            "Ceil",
            "Round",
            "Sign",
            "Not",
            "And",
            "Or",
            "Xor",
            "Equal",
            "Greater",
            "Less",
            "GreaterOrEqual",
            "LessOrEqual",
            "Where",
            "Mod",
            "IsNaN",
            "IsInf",
            "Reciprocal",
            "Sum",
            "Mean",
            "AddThird",
            "Trilu",
            "BitwiseAnd",
            "BitwiseOr",
            "Square",
        ],
        1,
    ),
    **dict.fromkeys(["Clip", "LeakyRelu", "PRelu", "ThresholdedRelu", "HardSigmoid", "Shrink"], 2),
    **dict.fromkeys(
        [
            "Exp",
            "Log",
            "Sqrt",
            "Rsqrt",
            "Pow",
            "Erf",
            "Sin",
            "Cos",
            "Tan",
            "Atan",
            "HardSwish",
            "Selu",
            "Elu",
            "Celu",
            "Softplus",
            "Softsign",
            "Mish",
        ],
        4,
    ),
}
"""Vector FLOPs an element: one for an addition, four for what a special-function unit computes."""
SIZED = {"ResizeNearest": 1, "Glu": 7}
"""Likewise, of steps that write other sides: a copy of neighbours; x1 · sigmoid(x2)."""
REDUCTIONS = frozenset(
    [
        "ReduceMean",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSumExp",
        "ArgMax",
        "ArgMin",
        "CumSum",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "LpNormalization",
    ]
)
NORMS = frozenset(
    ["GroupNormalization", "InstanceNormalization", "GroupNorm", "LRN", "MeanVarianceNormalization"]
)


def named(out: Emission, step: Step) -> None:
    """A step of one tensor with an operator of its own; a bias in front is a step of its own."""
    streams = out.graph.streams(step)
    source = streams[0]
    shape = out.shape(source)
    weights, tied = out.weights_of(step)
    if weights:
        biased = Step(step.name, step.op, step.inputs, (f"{step.outputs[0]}.biased",))
        out.node("elementwise", biased, [source], shape, weights=weights, tied=tied)
        source = biased.outputs[0]
    out.node(NAMED[step.op], step, [source], shape)


def elementwise(out: Emission, step: Step) -> None:
    """A step from element to element, whose operands may be weights or constants."""
    streams = list(dict.fromkeys(out.known(t) for t in out.graph.streams(step)))
    shape = _together(out, step, [out.shape(tensor) for tensor in streams])
    weights, tied = _third(out, step) if step.op == "AddThird" else out.weights_of(step)
    operands = [tensor for tensor in step.inputs if tensor]
    twice = len(streams) == 2 and len(operands) == 2  # noqa: PLR2004 - both are computed
    if twice and step.op in {"Add", "Mul"} and out.shape(streams[0]) == out.shape(streams[1]):
        out.node(step.op.lower(), step, streams, shape)
    elif len(streams) == 1 and not weights and step.op in {"Mul", "Div"} and len(operands) > 1:
        out.node("scale", step, streams, shape)
    else:
        inferred = _broadcast([out.shape(tensor) for tensor in streams])
        stated = None if inferred == shape else list(shape)
        flops = FLOPS[step.op] if FLOPS[step.op] != 1 else None
        out.node(
            "elementwise", step, streams, shape, flops=flops, weights=weights or None, tied=tied,
            shape=stated,
        )  # fmt: skip


def sized(out: Emission, step: Step) -> None:
    """A step of one tensor that writes more or fewer elements than it reads."""
    shape = out.shape_of(step)
    flops = SIZED[step.op]
    said = {"flops": flops if flops != 1 else None, "shape": list(shape)}
    out.node("elementwise", step, out.graph.streams(step)[:1], shape, **said)


def _third(out: Emission, step: Step) -> tuple[int, bool | None]:
    """A third of a bias that three steps share; the first takes the stored tensor over."""
    base = next(iter(out.graph.bases(step.inputs[1])))
    elements = out.graph.export.weights[base].elements
    out.taken[base] = elements
    return elements // 3, None


def _together(out: Emission, step: Step, shapes: Sequence[Shape]) -> Shape:
    """The shape that operands come to; as the export says where a weight widens it."""
    found = _broadcast(shapes)
    if found is not None and not any(out.graph.role(t) == Role.WEIGHT for t in step.inputs if t):
        return found
    try:
        stated = out.shape_of(step)
    except NoShape:
        if found is None:
            raise
        return found
    fits = found is not None and len(found) == len(stated)
    return found if fits and found is not None and _widest(found, stated) else stated


def _widest(found: Shape, stated: Shape) -> bool:
    return all(b in {a, 1} or isinstance(a, str) for a, b in zip(found, stated, strict=True))


def _broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """NumPy's rule over written sides; None where it does not hold."""
    longest = max(map(len, shapes))
    padded = [(1,) * (longest - len(shape)) + shape for shape in shapes]
    sides = [list(dict.fromkeys(side for side in each if side != 1)) for each in zip(*padded)]  # noqa: B905
    if any(len(each) > 1 for each in sides):
        return None
    return tuple(each[0] if each else 1 for each in sides)


def norm(out: Emission, step: Step) -> None:
    """A norm over the last side, or over each head's; one whose weights another has is generic."""
    shape = out.shape(step.inputs[0])
    size = _size(out, step)
    held = [out.take(tensor) for tensor in step.inputs[1:] if tensor]
    op = "layer_norm" if step.op == "LayerNorm" else "rms_norm"
    if any(tied for _, tied in held):
        weights = sum(elements for elements, _ in held)
        flops = 7 if op == "layer_norm" else 4
        out.node("reduction", step, step.inputs[:1], shape, flops=flops, weights=weights, tied=True)
        return
    said = {"size": size if size != last(shape) else None, "weight": None if held else False}
    if op == "layer_norm":
        said["bias"] = None if len(held) > 1 else False
    out.node(op, step, step.inputs[:1], shape, **said)


def _size(out: Emission, step: Step) -> int:
    for tensor in step.inputs[1:2]:
        sides = weight_sides(out.graph, tensor)
        if sides:
            return sides[-1]
    whole = out.graph.sides(step.inputs[0])
    if whole and isinstance(whole[-1], int):
        return whole[-1]
    return last(out.shape(step.inputs[0]))


def wide_norm(out: Emission, step: Step) -> None:
    """A norm over other sides than the last: seven FLOPs an element, as a layer norm's."""
    weights, tied = out.weights_of(step)
    shape = out.shape(step.inputs[0])
    out.node("reduction", step, step.inputs[:1], shape, flops=7, weights=weights or None, tied=tied)


def scaled(out: Emission, step: Step) -> None:
    """BatchNormalization at inference: a factor and a summand of each channel."""
    weights, tied = out.weights_of(step)
    shape = out.shape(step.inputs[0])
    out.node(
        "elementwise", step, step.inputs[:1], shape, flops=2, weights=weights or None, tied=tied
    )


def softmax(out: Emission, step: Step) -> None:
    """A softmax over the last side, or over another one as a reduction of the same cost."""
    shape = out.shape(step.inputs[0])
    axis = step.attributes.get("axis", -1)
    if axis in {-1, len(out.graph.sides(step.inputs[0]) or shape) - 1}:
        out.node("softmax", step, step.inputs[:1], shape)
    else:
        out.node("reduction", step, step.inputs[:1], shape, flops=7)


def reduction(out: Emission, step: Step) -> None:
    """A sum, mean or maximum over some sides."""
    shape = out.shape_of(step)
    same = shape == out.shape(step.inputs[0])
    out.node("reduction", step, step.inputs[:1], shape, shape=None if same else list(shape))


def product(out: Emission, step: Step) -> None:
    """A product of two computed tensors, neither of which is stored."""
    if any(out.graph.role(tensor) == Role.WEIGHT for tensor in step.inputs):
        raise NoShape("a product with weights that are no one matrix")
    left, right = (out.shape(tensor) for tensor in step.inputs[:2])
    if out.layout.by_tokens and "tokens" in (left[0], right[0]):
        raise NoShape("a product along the tokens that is no attention")
    if left[:-2] != right[:-2] or left[-1] != right[-2]:
        raise NoShape("leading sides that differ")
    out.node("matmul", step, step.inputs[:2], (*left[:-1], right[-1]))
