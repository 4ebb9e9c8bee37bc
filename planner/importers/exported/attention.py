"""Attention written out as product, softmax and product, as one ``Attend`` step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from planner.importers.exported.graph import ALIASES, Graph, Role
from planner.importers.exported.types import Step

_SCALES = frozenset({"Mul", "Div"})
_AFTER = frozenset({"Cast", "Identity", "Dropout", "Where"})
_COMPARE = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
_COMPUTED = frozenset({"Linear", "MatMul", "Softmax", "LayerNorm", "RmsNorm", "Attend", "Conv"})
"""Steps that no mask is made by: behind them is the model itself."""
_LONGEST = 16


@dataclass
class Operand:
    """One of Q, K and V ahead of views, scales, repeated heads and the cache of earlier tokens."""

    tensor: str
    cached: bool = False
    past: str = ""
    """What the export calls the cache after this step."""


@dataclass
class _Scores:
    query: str
    key: str
    product: Step
    softcap: bool = False
    masks: list[str] = field(default_factory=list)


def join_attention(graph: Graph) -> set[str]:
    """Make ``Attend`` steps (q, k, v); returns the tensors that hold the cache after a step.

    Attributes: heads, kv_heads, head_dim, causal, cached, softcap, window.
    """
    caches: set[str] = set()
    for step in graph.ordered():
        if step.op == "Softmax" and step.name in graph.steps:
            caches |= _written_out(graph, step)
    return caches


def _written_out(graph: Graph, softmax: Step) -> set[str]:
    scores = _scores(graph, softmax.inputs[0])
    values = _values(graph, softmax.outputs[0])
    if scores is None or values is None:
        return set()
    sides = graph.sides(values.outputs[0])
    if sides is None or len(sides) < 3 or not isinstance(sides[-1], int):  # noqa: PLR2004
        return set()
    return attend(
        graph,
        [scores.product, softmax, values],
        (scores.query, scores.key, values.inputs[1]),
        {"value_sides": sides, "softcap": scores.softcap, "masks": tuple(scores.masks)},
    )


def _scores(graph: Graph, tensor: str) -> _Scores | None:
    """From the softmax up to Q·Kᵀ, through scale, mask and soft cap."""
    softcap = False
    masks: list[str] = []
    for _ in range(_LONGEST):
        step = graph.maker(tensor)
        if step is None:
            return None
        streams = graph.streams(step)
        if step.op == "MatMul" and len(streams) == 2:  # noqa: PLR2004 - Q and K
            return _Scores(step.inputs[0], step.inputs[1], step, softcap, masks)
        if step.op not in {"Add", "Sub", "Where", "Tanh", "Cast", "Identity", "Reshape", *_SCALES}:
            return None
        masked = step.op in {"Add", "Where"}
        masks += [name for name in step.inputs if masked and name and name not in streams[:1]]
        softcap = softcap or step.op == "Tanh"
        if not streams:
            return None
        tensor = _main(graph, streams)
    return None


def _main(graph: Graph, streams: list[str]) -> str:
    """Of a sum's operands the one that is computed, the other being a mask that came in."""
    made = [tensor for tensor in streams if tensor not in graph.export.inputs]
    return (made or streams)[0]


def _values(graph: Graph, tensor: str) -> Step | None:
    """From the softmax down to the product with V."""
    for _ in range(_LONGEST):
        readers = [r for r in graph.readers(tensor) if r.op not in {"IsNaN", "Shape"}]
        if not readers:
            return None
        step = next((r for r in readers if r.op == "MatMul"), readers[0])
        if step.op == "MatMul":
            return step if graph.is_stream(step.inputs[1]) and step.inputs[0] == tensor else None
        if step.op not in _AFTER | {"Reshape"}:
            return None
        tensor = step.outputs[0]
    return None


def operand(graph: Graph, tensor: str) -> Operand:
    """Where one of Q, K, V comes from."""
    found = Operand(tensor)
    for _ in range(_LONGEST):
        step = graph.maker(found.tensor)
        if step is None:
            break
        streams = graph.streams(step)
        if step.op == "Concat" and (past := [t for t in streams if _is_past(graph, t)]):
            new = [tensor for tensor in streams if tensor not in past]
            if len(new) != 1:
                break
            found = Operand(new[0], cached=True, past=step.outputs[0])
        elif (step.op in ALIASES | {"Expand", "Tile"} and len(streams) == 1) or (
            step.op in _SCALES and len(streams) == 1 and _is_scalar(graph, step)
        ):
            found.tensor = streams[0]
        else:
            break
    return found


def _is_past(graph: Graph, tensor: str) -> bool:
    return graph.source(tensor, ALIASES | {"Gather", "Slice"}) in graph.export.inputs


def _is_scalar(graph: Graph, step: Step) -> bool:
    others = [tensor for tensor in step.inputs if not graph.is_stream(tensor)]
    return all(graph.sides(name) in {(), (1,), None} for name in others)


def attend(
    graph: Graph, gone: list[Step], operands: tuple[str, str, str], known: dict[str, object]
) -> set[str]:
    """Put one ``Attend`` step in the place of others; returns what holds the cache after it."""
    query, key, value = (operand(graph, tensor) for tensor in operands)
    masked = is_causal(graph, known.get("masks", ()))  # type: ignore[arg-type]
    causal = bool(known.get("causal")) or masked
    cached = key.cached or value.cached or causal
    attributes = {
        "causal": causal or key.cached,
        "masked": masked,
        "cached": cached,
        "softcap": bool(known.get("softcap")),
        "window": known.get("window"),
        "sides": known.get("value_sides"),
        "heads": known.get("heads"),
        "kv_heads": known.get("kv_heads"),
        "tables": tuple(_tables(graph, known.get("masks", ()))),  # type: ignore[arg-type]
    }
    inputs = (query.tensor, key.tensor, value.tensor)
    made = Step(gone[-1].name, "Attend", inputs, gone[-1].outputs[:1], attributes)
    graph.swap(gone, made)
    return {part.past for part in (key, value) if part.past}


def _tables(graph: Graph, masks: tuple[str, ...]) -> Iterator[str]:
    """Learned tables that masks are looked up in, as T5's relative positions."""
    waiting, seen = list(masks), set()
    while waiting:
        step = graph.maker(waiting.pop())
        if step is None or step.name in seen or step.op in _COMPUTED:
            continue
        seen.add(step.name)
        if step.op == "Gather" and graph.role(step.inputs[0]) == Role.WEIGHT:
            yield step.inputs[0]
        waiting += filter(None, step.inputs)


def is_causal(graph: Graph, masks: tuple[str, ...]) -> bool:
    """Whether a mask was made by comparing positions, or as a triangle."""
    waiting, seen = list(masks), set()
    while waiting:
        tensor = waiting.pop()
        stored, step = graph.export.weights.get(tensor), graph.maker(tensor)
        if stored is not None and stored.triangle:
            return True
        if step is None or step.name in seen:
            continue
        seen.add(step.name)
        positions = [name for name in step.inputs if name and graph.maker(name) is not None]
        if step.op == "Trilu" or (step.op in _COMPARE and len(positions) == 2):  # noqa: PLR2004
            return True
        waiting += [name for name in step.inputs if name and not graph.is_stream(name)]
    return False
