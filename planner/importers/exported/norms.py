"""Layer and root-mean-square norms, whole or written out in means and roots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.importers.exported.graph import Graph, Role
from planner.importers.exported.types import Step

_FUSED = {
    "LayerNormalization": "LayerNorm",
    "RMSNormalization": "RmsNorm",
    "SimplifiedLayerNormalization": "RmsNorm",
}
_SKIPPING = {
    "SkipLayerNormalization": "LayerNorm",
    "SkipSimplifiedLayerNormalization": "RmsNorm",
}
_THIN = frozenset({"Cast", "Identity"})
_ROOTS = frozenset({"Sqrt", "Rsqrt", "Pow"})


def join_norms(graph: Graph) -> None:
    """Make ``LayerNorm`` and ``RmsNorm`` steps: (x, weight, bias)."""
    for step in graph.ordered():
        if step.op in _FUSED:
            made = Step(step.name, _FUSED[step.op], step.inputs[:3], step.outputs[:1])
            graph.swap([step], made)
        elif step.op in _SKIPPING:
            _skipping(graph, step)
        elif step.op in _ROOTS and step.name in graph.steps:
            _written_out(graph, step)


def _skipping(graph: Graph, step: Step) -> None:
    """com.microsoft.SkipLayerNormalization: (x, skip, gamma, beta, bias) to the norm and the sum.

    Simplified there is no beta: (x, skip, gamma, bias).
    """
    plain = step.op == "SkipSimplifiedLayerNormalization"
    bias = step.read(3) if plain else step.read(4)
    total = next(iter(step.outputs[3:4]), "") or f"{step.outputs[0]}.sum"
    added = total if not bias else f"{total}.unbiased"
    made = [Step(f"{step.name}/add", "Add", step.inputs[:2], (added,))]
    if bias:
        made.append(Step(f"{step.name}/bias", "Add", (added, bias), (total,)))
    own = step.inputs[2:3] if plain else step.inputs[2:4]
    made.append(Step(step.name, _SKIPPING[step.op], (total, *own), step.outputs[:1]))
    graph.swap([step], *made)


@dataclass(frozen=True)
class _Found:
    source: str
    centred: bool
    steps: tuple[Step, ...]
    output: str
    operands: tuple[str, ...] = ()


def _written_out(graph: Graph, root: Step) -> None:
    if root.op == "Pow" and graph.number(root.read(1)) != -0.5:  # noqa: PLR2004 - 1 / √x
        return
    found = _statistics(graph, root)
    found = found and _applied(graph, root, found)
    if found is None:
        return
    kind = "LayerNorm" if found.centred else "RmsNorm"
    made = Step(root.name, kind, (found.source, *found.operands), (found.output,))
    graph.swap(found.steps, made)


def _statistics(graph: Graph, root: Step) -> _Found | None:
    """From the root up to what is normalised: √(mean x² + ε), or of x less its mean."""
    gone = [root]
    mean = _up(graph, root.inputs[0], gone)
    if mean is not None and mean.op == "Add":
        gone.append(mean)
        mean = next((s for t in graph.streams(mean) if (s := _up(graph, t, gone))), None)
    if mean is None or mean.op != "ReduceMean":
        return None
    square = _up(graph, mean.inputs[0], [])
    if square is None or not _is_square(graph, square):
        return None
    gone += [mean, square]
    source = _thin(graph, square.inputs[0])
    centre = graph.maker(source)
    if centre is not None and centre.op == "Sub" and (by := _up(graph, centre.inputs[1], gone)):
        whole = _thin(graph, centre.inputs[0])
        if by.op == "ReduceMean" and _thin(graph, by.inputs[0]) == whole:
            return _Found(whole, centred=True, steps=(*gone, centre, by), output=source)
    return _Found(source, centred=False, steps=tuple(gone), output=source)


def _is_square(graph: Graph, step: Step) -> bool:
    if step.op == "Pow":
        return graph.number(step.read(1)) == 2  # noqa: PLR2004 - a square
    return step.op == "Mul" and step.inputs[0] == step.inputs[1]


def _applied(graph: Graph, root: Step, found: _Found) -> _Found | None:
    """From the root down: the division, and the weight and bias behind it."""
    gone, scaled = list(found.steps), found.output
    step = graph.reader(root.outputs[0])
    while step is not None and step.op in _THIN | {"Reciprocal", "Div"}:
        if step.op == "Div" and graph.is_stream(step.inputs[0]) and len(graph.streams(step)) > 1:
            break
        gone.append(step)
        step = graph.reader(step.outputs[0])
    if step is None or step.op not in {"Mul", "Div"}:
        return None
    if scaled not in [_thin(graph, tensor) for tensor in step.inputs]:
        return None
    gone.append(step)
    output, operands = step.outputs[0], []
    for op in ("Mul", "Add") if found.centred else ("Mul",):
        taken = _operand(graph, output, op)
        if taken is None:
            break
        output, weight, steps = taken
        operands.append(weight)
        gone += steps
    kept = dict.fromkeys(step.name for step in gone)
    steps = [graph.steps[name] for name in kept]
    steps = [s for s in steps if s.op not in _THIN or _only_inside(graph, s, kept)]
    return _Found(found.source, found.centred, tuple(steps), output, tuple(operands))


def _only_inside(graph: Graph, step: Step, kept: dict[str, None]) -> bool:
    return all(reader.name in kept for reader in graph.readers(step.outputs[0]))


def _operand(graph: Graph, tensor: str, op: str) -> tuple[str, str, list[Step]] | None:
    """The weight that the one reader multiplies or adds, and what it writes."""
    gone = []
    step = graph.reader(tensor)
    while step is not None and step.op in _THIN:
        gone.append(step)
        step = graph.reader(step.outputs[0])
    if step is None or step.op != op:
        return None
    weights = [name for name in step.inputs if graph.role(name) == Role.WEIGHT]
    if len(weights) != 1 or len(_wide(graph, weights[0])) > 1:
        return None
    return step.outputs[0], weights[0], [*gone, step]


def _wide(graph: Graph, tensor: str) -> tuple[int | str, ...]:
    return tuple(side for side in graph.sides(tensor) or () if side != 1)


def _thin(graph: Graph, tensor: str) -> str:
    return graph.source(tensor, _THIN)


def _up(graph: Graph, tensor: str, gone: list[Step]) -> Step | None:
    """The step behind casts that makes a tensor; the casts are noted."""
    for step in _casts(graph, tensor):
        gone.append(step)
        tensor = step.inputs[0]
    return graph.maker(tensor)


def _casts(graph: Graph, tensor: str) -> Iterator[Step]:
    step = graph.maker(tensor)
    while step is not None and step.op in _THIN:
        yield step
        step = graph.maker(step.inputs[0])
