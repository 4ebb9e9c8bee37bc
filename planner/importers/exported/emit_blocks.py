"""Nodes of attention, rotation and convolution, and the table of all emitters."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from planner.importers.exported.emission import Emission, Emit, last
from planner.importers.exported.emit_moves import columns, moved, select_last, viewed
from planner.importers.exported.emit_steps import (
    FLOPS,
    NAMED,
    NORMS,
    REDUCTIONS,
    SIZED,
    elementwise,
    named,
    norm,
    product,
    reduction,
    scaled,
    sized,
    softmax,
    wide_norm,
)
from planner.importers.exported.emit_weights import embedding, linear
from planner.importers.exported.graph import ALIASES, Role
from planner.importers.exported.layout import NoShape
from planner.importers.exported.products import weight_sides
from planner.importers.exported.types import Step


def rope(out: Emission, step: Step) -> None:
    """A rotation of Q, or of Q and K."""
    said = {"head_dim": step.attributes["head_dim"], "rotary": step.attributes["rotary"] or None}
    outputs = {
        output: out.shape(tensor) for output, tensor in zip(step.outputs, step.inputs, strict=True)
    }
    out.wide_node("rope", step, step.inputs, outputs, **said)


def attend(out: Emission, step: Step) -> None:
    """Attention over a cache, or in both directions over the tokens of the step."""
    query, key, value = (out.shape(tensor) for tensor in step.inputs)
    if not query[:-1] == key[:-1] == value[:-1] == ("tokens",):
        raise NoShape("keys of other sequences than the queries (cross-attention)")
    heads, kv_heads, head_dim = _heads(step, last(query), last(key), last(value))
    step = _biased(out, step)
    kept = step.attributes
    said: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    said |= {"window": kept["window"], "softcap": kept["softcap"] or None}
    shape = ("tokens", heads * head_dim)
    if not kept["cached"]:
        out.node("attention", step, step.inputs, shape, **said, causal=False, cached=False)
        return
    cache = f"{step.outputs[0]}.cache"
    write = Step("kv_cache_write", "Cache", step.inputs[1:], (cache,))
    out.node("kv_cache_write", write, step.inputs[1:], (last(key) + last(value),))
    out.node("attention", step, [step.inputs[0], cache], shape, **said)


def _biased(out: Emission, step: Step) -> Step:
    """The step with Q behind the learned tables that its scores are shifted by.

    They are no operand of a plan's attention: their weights count, their sums are one FLOP of Q's.
    """
    for place, table in enumerate(step.attributes.get("tables", ())):
        elements, tied = out.take(table)
        if elements and not tied:
            shifted = f"{step.outputs[0]}.q{place}"
            bias = Step(f"{step.name}/bias", "Add", (step.inputs[0], table), (shifted,))
            out.node(
                "elementwise", bias, bias.inputs[:1], out.shape(step.inputs[0]), weights=elements
            )
            step = replace(step, inputs=(shifted, *step.inputs[1:]))
    return step


def _heads(step: Step, query: int, key: int, value: int) -> tuple[int, int, int]:
    """Heads, KV heads and their dim, of what the step says and of the widths of Q, K and V."""
    heads, sides = step.attributes["heads"], step.attributes["sides"]
    head_dim = query // heads if heads else sides[-1] if sides else 0
    if not head_dim or query % head_dim or key % head_dim:
        raise NoShape("heads that do not divide Q, K and V")
    if key != value:
        raise NoShape("keys and values of different widths")
    return query // head_dim, key // head_dim, head_dim


def convolution(out: Emission, step: Step) -> None:
    """A convolution of any rank, written out with its shape."""
    source, kernel = step.inputs[:2]
    sides = weight_sides(out.graph, kernel)
    if sides is None or out.graph.role(kernel) != Role.WEIGHT:
        raise NoShape("a kernel that is not stored")
    if out.take(kernel)[1]:
        raise NoShape("a kernel that another convolution owns")
    bias = bool(step.read(2))
    if bias and out.take(step.read(2))[1]:
        raise NoShape("a bias that another convolution owns")
    groups = int(step.attributes.get("group", 1))
    shape = out.layout.unfolded(out.graph.sides(step.outputs[0]))
    before = out.shape(source)
    if len(before) != len(shape):
        source = _apart(out, step, source)
    out.node(
        "conv", step, [source], shape,
        channels=shape[1], window=prod(sides[2:]), shape=list(shape),
        groups=groups if groups > 1 else None, bias=None if bias else False,
        transposed=True if step.op == "ConvTranspose" else None,
    )  # fmt: skip


def _apart(out: Emission, step: Step, source: str) -> str:
    """Rows of tokens as the image or the sound they are rows of."""
    shape = out.layout.unfolded(out.graph.sides(source))
    made = Step(f"{step.name}/unfold", "Reshape", (source,), (f"{source}.{step.name}.apart",))
    out.node("copy", made, [source], shape, shape=list(shape))
    return made.outputs[0]


def pool(out: Emission, step: Step) -> None:
    """Maxima or means over windows."""
    shape = out.layout.unfolded(out.graph.sides(step.outputs[0]))
    window = prod(step.attributes.get("kernel_shape", (1,)))
    out.node("pool", step, step.inputs[:1], shape, window=window, shape=list(shape))


EMITTERS: dict[str, Emit] = {
    **dict.fromkeys(FLOPS, elementwise),
    **dict.fromkeys(NAMED, named),
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(NORMS, wide_norm),
    **dict.fromkeys(SIZED, sized),
    **dict.fromkeys(ALIASES, viewed),
    **dict.fromkeys(("Expand", "Tile", "Slice", "Split", "Concat", "Pad"), moved),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth", "Roll"), moved),
    **dict.fromkeys(("Conv", "ConvTranspose", "FusedConv"), convolution),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), pool),
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    **dict.fromkeys(("LayerNorm", "RmsNorm"), norm),
    "BatchNormalization": scaled,
    "Columns": columns,
    "SelectLast": select_last,
    "Gather": embedding,
    "Linear": linear,
    "MatMul": product,
    "Rope": rope,
    "Attend": attend,
}
"""What becomes of each operator of an export; what is not here is refused by name."""
