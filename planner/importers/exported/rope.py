"""Rotary position embeddings: q·cos + rotate_half(q)·sin, or one step of a contrib operator."""

from __future__ import annotations

from planner.importers.exported.graph import Graph, Role
from planner.importers.exported.types import Step

_PARTS = frozenset({"Slice", "Split", "Gather"})
_VIEWS = frozenset(
    {"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Contiguous"}
)


def join_ropes(graph: Graph) -> None:
    """Make ``Rope`` steps (x) with ``head_dim`` and ``rotary``."""
    for step in graph.ordered():
        if step.name not in graph.steps:
            continue
        if step.op == "RotaryEmbedding":
            _contrib(graph, step)
        elif step.op == "Add":
            _written_out(graph, step)
    for step in graph.ordered():
        if step.op == "Concat" and step.name in graph.steps:
            _partial(graph, step)


def _contrib(graph: Graph, step: Step) -> None:
    sides = graph.sides(step.inputs[0])
    rotary = int(step.attributes.get("rotary_embedding_dim", 0))
    heads = int(step.attributes.get("num_heads", 0))
    last = sides[-1] if sides else 0
    four = sides is not None and len(sides) == 4  # noqa: PLR2004 - batch, heads, length, dim
    head_dim = last if four or not heads else int(last) // heads
    attributes = {"head_dim": head_dim, "rotary": rotary}
    graph.swap([step], Step(step.name, "Rope", step.inputs[:1], step.outputs[:1], attributes))


def _written_out(graph: Graph, add: Step) -> None:
    sides = graph.sides(add.outputs[0])
    makers = [graph.maker(tensor) for tensor in add.inputs]
    products = [maker for maker in makers if maker is not None and maker.op == "Mul"]
    if len(products) != 2 or not sides or not isinstance(sides[-1], int):  # noqa: PLR2004
        return
    for plain, turned in (products, products[::-1]):
        source, rotated = _table_product(graph, plain), _table_product(graph, turned)
        halves = rotated and _rotated(graph, rotated)
        if source and halves and _origin(graph, source) == halves[0]:
            gone = [*halves[1], plain, turned, add]
            attributes = {"head_dim": sides[-1], "rotary": 0}
            made = Step(add.name, "Rope", (source,), add.outputs, attributes)
            graph.swap({step.name: step for step in gone}.values(), made)
            return


def _origin(graph: Graph, tensor: str) -> str:
    return graph.source(tensor, frozenset({"Cast", "Identity", "Contiguous"}))


def _table_product(graph: Graph, product: Step) -> str | None:
    """The factor that is no table of sines or cosines, if the other one is."""
    left, right = product.inputs
    if _is_table(graph, right) and not _is_table(graph, left):
        return left
    if _is_table(graph, left) and not _is_table(graph, right):
        return right
    return None


def _is_table(graph: Graph, tensor: str) -> bool:
    """Whether a tensor follows from positions alone: computed of them, or looked up in a buffer."""
    step = graph.maker(tensor)
    while step is not None and step.op in _VIEWS | _PARTS and graph.is_stream(tensor):
        if step.op == "Gather" and graph.role(step.inputs[0]) == Role.WEIGHT:
            return True
        tensor = step.inputs[0]
        step = graph.maker(tensor)
    if graph.role(tensor) == Role.WEIGHT:
        return not any(graph.export.weights[name].parameter for name in graph.bases(tensor)) or (
            graph.export.format == "onnx"
        )
    return graph.role(tensor) == Role.SIDE


def _rotated(graph: Graph, tensor: str) -> tuple[str, list[Step]] | None:
    """What (−x₂, x₁) is made of, with the steps that make it."""
    concat = graph.maker(_origin(graph, tensor))
    if concat is None or concat.op != "Concat":
        return None
    gone, sources = [concat], set()
    negated = False
    for part in concat.inputs:
        step = graph.maker(part)
        if step is not None and step.op == "Neg":
            negated = True
            gone.append(step)
            step = graph.maker(step.inputs[0])
        if step is None or step.op not in _PARTS:
            return None
        gone.append(step)
        sources.add(_origin(graph, step.inputs[0]))
    if len(sources) != 1 or not negated:
        return None
    return sources.pop(), gone


def _partial(graph: Graph, concat: Step) -> None:
    """A rotated part beside the rest of the same heads: one rotation of some dims."""
    sides = graph.sides(concat.outputs[0])
    makers = [graph.maker(tensor) for tensor in concat.inputs]
    if not sides or len(makers) != 2:  # noqa: PLR2004 - the rotated part and the rest
        return
    rope, rest = makers
    if rope is None or rest is None or rope.op != "Rope" or rest.op not in _PARTS:
        return
    part = graph.maker(rope.inputs[0])
    if part is None or part.op not in _PARTS or part.inputs[0] != rest.inputs[0]:
        return
    attributes = {"head_dim": sides[-1], "rotary": rope.attributes["head_dim"]}
    made = Step(concat.name, "Rope", part.inputs[:1], concat.outputs, attributes)
    graph.swap({s.name: s for s in (part, rest, rope, concat)}.values(), made)
