"""GELU and SiLU, written out in error functions, tangents and sigmoids, as one step."""

from __future__ import annotations

from planner.importers.exported.graph import Graph
from planner.importers.exported.types import Step

_ONE_OPERAND = frozenset(
    [
        "Mul",
        "Div",
        "Add",
        "Sub",
        "Pow",
        "Erf",
        "Tanh",
        "Sigmoid",
        "Cast",
        "Identity",
        "Neg",
        "Reciprocal",
    ]
)
_ANCHORS = {"Erf": "Gelu", "Tanh": "Gelu", "Sigmoid": "Silu"}
_LONGEST = 12


def join_activations(graph: Graph) -> None:
    """Make ``Gelu`` and ``Silu`` steps of the regions around Erf, Tanh and Sigmoid."""
    for step in graph.ordered():
        if step.op in _ANCHORS and step.name in graph.steps:
            _join(graph, step)


def _join(graph: Graph, anchor: Step) -> None:
    source = _argument(graph, anchor)
    last, product = anchor, None
    for _ in range(_LONGEST):
        step = graph.reader(last.outputs[0])
        if step is None or step.op not in _ONE_OPERAND:
            break
        others = [t for t in graph.streams(step) if t != last.outputs[0]]
        if others and (product is not None or not _same(graph, others[0], source)):
            break
        if not others and product is not None and not _halves(graph, step):
            break
        last, product = step, step if others else product
    if product is None:
        return
    region = _region(graph, last, source)
    if region is not None:
        made = Step(anchor.name, _kind(graph, anchor), (source,), last.outputs)
        graph.swap(region, made)


def _kind(graph: Graph, anchor: Step) -> str:
    scaled = anchor.op == "Sigmoid" and graph.maker(anchor.inputs[0])
    quick = scaled and scaled.op == "Mul" and len(graph.streams(scaled)) == 1
    return "Gelu" if quick else _ANCHORS[anchor.op]


def _halves(graph: Graph, step: Step) -> bool:
    return step.op in {"Mul", "Cast", "Identity"} and len(graph.streams(step)) == 1


def _argument(graph: Graph, anchor: Step) -> str:
    """The one tensor that the anchor's argument is computed of."""
    tensor = anchor.inputs[0]
    for _ in range(_LONGEST):
        step = graph.maker(tensor)
        if step is None or step.op not in _ONE_OPERAND or not graph.streams(step):
            return tensor
        tensors = dict.fromkeys(graph.streams(step))
        if len(tensors) > 1:  # x + c·x³: the shorter way leads to x
            makers = [graph.maker(name) for name in tensors]
            return next(
                (
                    n
                    for n, m in zip(tensors, makers, strict=True)
                    if not _powered(graph, m, tensors)
                ),
                tensor,
            )
        if len(graph.readers(tensor)) > 1 and tensor != anchor.inputs[0]:
            return tensor
        constant = any(graph.number(t) is not None for t in step.inputs if not graph.is_stream(t))
        if not constant and step.op not in {"Cast", "Identity", "Neg"}:
            return tensor
        tensor = next(iter(tensors))
    return tensor


def _powered(graph: Graph, maker: Step | None, among: dict[str, None]) -> bool:
    """Whether a tensor is computed of another one of these."""
    for _ in range(_LONGEST):
        if maker is None or maker.op not in _ONE_OPERAND:
            return False
        streams = graph.streams(maker)
        if any(tensor in among for tensor in streams):
            return True
        maker = graph.maker(streams[0]) if streams else None
    return False


def _same(graph: Graph, tensor: str, source: str) -> bool:
    """Whether a tensor is the source, cast or halved."""
    for _ in range(_LONGEST):
        if tensor == source:
            return True
        step = graph.maker(tensor)
        if step is None or step.op not in {"Mul", "Div", "Cast", "Identity"}:
            return False
        if len(graph.streams(step)) != 1:
            return False
        tensor = graph.streams(step)[0]
    return False


def _region(graph: Graph, last: Step, source: str) -> list[Step] | None:
    """All steps between the source and the last, if nothing else goes in or comes out."""
    found: dict[str, Step] = {}
    waiting = [last]
    while waiting:
        step = waiting.pop()
        if step.name in found:
            continue
        if step.op not in _ONE_OPERAND or len(found) > 2 * _LONGEST:
            return None
        found[step.name] = step
        makers = [graph.maker(t) for t in graph.streams(step) if t != source]
        if None in makers:
            return None
        waiting += [maker for maker in makers if maker is not None]
    inner = [step for step in found.values() if step is not last]
    closed = all(r.name in found for s in inner for r in graph.readers(s.outputs[0]))
    return list(found.values()) if closed else None
