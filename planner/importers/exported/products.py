"""Products with stored weights as one step, ``Linear``: MatMul, Gemm and their biases."""

from __future__ import annotations

from dataclasses import replace

from planner.importers.exported.graph import ALIASES, Graph, Role
from planner.importers.exported.types import Step

_PRODUCTS = frozenset({"MatMul", "Gemm", "FusedMatMul", "Linear", "MatMulNBits"})
_MATRIX = 2


def join_products(graph: Graph) -> None:
    """Make ``Linear`` steps (x, weight, bias) with ``features`` and ``depth``."""
    for step in graph.ordered():
        if step.op in _PRODUCTS and step.name in graph.steps:
            made = _linear(graph, step)
            if made is not None:
                graph.swap([step], made)
                _take_bias(graph, made)


def _linear(graph: Graph, step: Step) -> Step | None:
    if step.op == "MatMulNBits":
        return _few_bits(step)
    if graph.role(step.read(1)) != Role.WEIGHT or not graph.is_stream(step.inputs[0]):
        return None
    sides = weight_sides(graph, step.inputs[1])
    if sides is None or len(sides) != _MATRIX or step.attributes.get("transA", 0):
        return None
    turned = step.op == "Linear" or bool(step.attributes.get("transB", 0))
    depth, features = reversed(sides) if turned else sides
    bias = step.read(2) if graph.role(step.read(2)) == Role.WEIGHT else ""
    inputs = (step.inputs[0], step.inputs[1], *filter(None, [bias]))
    return Step(step.name, "Linear", inputs, step.outputs, {"features": features, "depth": depth})


def _few_bits(step: Step) -> Step:
    """com.microsoft.MatMulNBits: weights packed in groups, by its attributes K, N and so on."""
    kept = step.attributes
    bits, group = kept.get("bits", 4), kept.get("block_size", 32)
    attributes = {"features": kept["N"], "depth": kept["K"], "bits": bits, "group": group}
    bias = step.read(5)
    inputs = (step.inputs[0], step.inputs[1], *filter(None, [bias]))
    return Step(step.name, "Linear", inputs, step.outputs, attributes)


def weight_sides(graph: Graph, tensor: str) -> tuple[int, ...] | None:
    """Sides of a weight or of what views make of one."""
    sides = graph.sides(tensor)
    if sides is None:
        step = graph.maker(tensor)
        if step is None or not step.inputs:
            return None
        sides = weight_sides(graph, step.inputs[0])
        if sides is not None and step.op == "Transpose":
            order = step.attributes.get("perm") or tuple(reversed(range(len(sides))))
            sides = tuple(sides[axis] for axis in order)
    if sides is None or not all(isinstance(side, int) for side in sides):
        return None
    return tuple(int(side) for side in sides)


def _take_bias(graph: Graph, linear: Step) -> None:
    """Fold the one addition behind a product that adds a weight of one row."""
    if len(linear.inputs) > _MATRIX:
        return
    adder, gone = graph.reader(linear.outputs[0]), [linear]
    while adder is not None and adder.op in {"Cast", "Identity"} & ALIASES:
        gone.append(adder)
        adder = graph.reader(adder.outputs[0])
    if adder is None or adder.op != "Add":
        return
    for tensor in adder.inputs:
        sides = weight_sides(graph, tensor) if graph.role(tensor) == Role.WEIGHT else None
        if sides and sides[-1] == linear.attributes["features"] and len(sides) == 1:
            made = replace(linear, inputs=(*linear.inputs, tensor), outputs=adder.outputs)
            graph.swap([*gone, adder], made)
            return
