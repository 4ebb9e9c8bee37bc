"""Attention operators of ONNX and its contrib domain as ``Attend`` steps and what goes before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.importers.exported.attention import attend
from planner.importers.exported.graph import Graph
from planner.importers.exported.types import Step

_HEADED = 4
"""Sides of Q, K and V that come by heads: batch, heads, length, dim."""


def join_fused(graph: Graph) -> set[str]:
    """Replace fused attention operators; returns the tensors that hold the cache after a step."""
    caches: set[str] = set()
    for step in graph.ordered():
        make = _FUSED.get(step.op)
        if make is not None:
            caches |= make(graph, step)
    return caches


@dataclass
class _Parts:
    operands: tuple[str, str, str]
    made: list[Step]
    """Steps ahead of the attention."""


def _finish(
    graph: Graph, step: Step, parts: _Parts, known: dict[str, object], *, cached: bool
) -> set[str]:
    core = Step(f"{step.name}/core", "Core", parts.operands, step.outputs)
    graph.swap([step], *parts.made, core)
    known = {**known, "causal": known.get("causal") or cached}
    caches = attend(graph, [core], parts.operands, known)
    return caches | set(filter(None, step.outputs[1:3]))


def _columns(step: Step, tensor: str, widths: dict[str, int]) -> list[Step]:
    return [
        Step(
            f"{step.name}/{part}", "Columns", (tensor,), (f"{tensor}.{part}",), {"features": width}
        )
        for part, width in widths.items()
    ]


def _grouped(graph: Graph, step: Step) -> set[str]:
    """com.microsoft.GroupQueryAttention, with Q, K and V apart or packed, rotated or not."""
    heads, kv_heads = step.attributes["num_heads"], step.attributes["kv_num_heads"]
    query, key, value = (step.read(position) for position in range(3))
    made: list[Step] = []
    sides = graph.sides(query)
    width = sides[-1] if sides and isinstance(sides[-1], int) else 0
    head_dim = width // (heads if key else heads + 2 * kv_heads)
    if not key:
        widths = {"q": heads * head_dim, "k": kv_heads * head_dim, "v": kv_heads * head_dim}
        made += _columns(step, query, widths)
        query, key, value = (part.outputs[0] for part in made)
    if step.attributes.get("do_rotary", 0):
        for part in (query, key):
            rotated = {"head_dim": head_dim, "rotary": 0}
            made.append(
                Step(f"{step.name}/rope/{part}", "Rope", (part,), (f"{part}.rotated",), rotated)
            )
        query, key = made[-2].outputs[0], made[-1].outputs[0]
    window = step.attributes.get("local_window_size", -1)
    known = {
        "heads": heads,
        "kv_heads": kv_heads,
        "causal": True,
        "softcap": bool(step.attributes.get("softcap", 0)),
        "window": window if window > 0 else None,
    }
    return _finish(graph, step, _Parts((query, key, value), made), known, cached=True)


def _multi_head(graph: Graph, step: Step) -> set[str]:
    """com.microsoft.MultiHeadAttention: Q, K and V, one bias for all three, a past."""
    heads = step.attributes["num_heads"]
    operands = [step.read(position) for position in range(3)]
    made: list[Step] = []
    if not operands[1]:  # packed as [batch, length, heads, 3, dim]
        sides = graph.sides(operands[0]) or (0,)
        width = heads * int(sides[-1])
        made = _columns(step, operands[0], dict.fromkeys(("q", "k", "v"), width))
        operands = [part.outputs[0] for part in made]
    if bias := step.read(3):
        made += _biases(step, operands, bias)
        operands = [part.outputs[0] for part in made[-3:]]
    known = {
        "heads": heads,
        "kv_heads": heads,
        "causal": bool(step.attributes.get("unidirectional")),
    }
    return _finish(
        graph,
        step,
        _Parts((operands[0], operands[1], operands[2]), made),
        known,
        cached=bool(step.read(6)),
    )


def _biases(step: Step, operands: list[str], bias: str) -> list[Step]:
    """Thirds of one bias, added to Q, K and V each."""
    return [
        Step(f"{step.name}/bias/{place}", "AddThird", (tensor, bias), (f"{tensor}.biased",))
        for place, tensor in enumerate(operands)
    ]


def _packed(graph: Graph, step: Step) -> set[str]:
    """com.microsoft.Attention: one projection to Q, K and V, and attention."""
    heads = step.attributes["num_heads"]
    sides = graph.sides(step.inputs[1]) or (0, 0)
    depth, features = (int(side) for side in sides)
    inputs = tuple(filter(None, step.inputs[:3]))
    joined = f"{step.outputs[0]}.qkv"
    attributes = {"depth": depth, "features": features}
    made = [Step(f"{step.name}/qkv", "Linear", inputs, (joined,), attributes)]
    widths = step.attributes.get("qkv_hidden_sizes") or (features // 3,) * 3
    made += _columns(step, joined, dict(zip(("q", "k", "v"), widths, strict=True)))
    operands = [part.outputs[0] for part in made[1:]]
    known = {
        "heads": heads,
        "kv_heads": heads,
        "causal": bool(step.attributes.get("unidirectional")),
    }
    return _finish(
        graph,
        step,
        _Parts((operands[0], operands[1], operands[2]), made),
        known,
        cached=bool(step.read(4)),
    )


def _plain(graph: Graph, step: Step) -> set[str]:
    """ONNX's Attention (opset 23), which aten's scaled_dot_product_attention is read as, too."""
    operands = [step.read(position) for position in range(3)]
    sides = [graph.sides(tensor) for tensor in operands]
    heads = step.attributes.get("q_num_heads") or _heads(sides[0])
    kv_heads = step.attributes.get("kv_num_heads") or _heads(sides[1])
    mask = step.read(3)
    known = {
        "heads": heads,
        "kv_heads": kv_heads,
        "causal": bool(step.attributes.get("is_causal")),
        "softcap": bool(step.attributes.get("softcap")),
        "masks": (mask,) if mask else (),
    }
    if graph.maker(operands[0]) is None and not graph.is_stream(operands[0]):
        return set()
    return _finish(
        graph,
        step,
        _Parts((operands[0], operands[1], operands[2]), []),
        known,
        cached=bool(step.read(4)),
    )


def _heads(sides: tuple[int | str, ...] | None) -> int | None:
    if sides is None or len(sides) != _HEADED or not isinstance(sides[1], int):
        return None
    return sides[1]


_FUSED: dict[str, Callable[[Graph, Step], set[str]]] = {
    "GroupQueryAttention": _grouped,
    "MultiHeadAttention": _multi_head,
    "PackedAttention": _packed,
    "Attention": _plain,
}
