"""Nodes that move or rename what is there: views, slices, tensors joined."""

from __future__ import annotations

from typing import Any

from planner.importers.exported.emission import Emission, last
from planner.importers.exported.layout import NoShape, Shape
from planner.importers.exported.types import Step


def moved(out: Emission, step: Step) -> None:
    """A part of a tensor, or several as one: a view of columns where rows stay, else a copy."""
    streams = out.graph.streams(step)
    weights, tied = out.weights_of(step)
    for output in filter(None, step.outputs):
        single = Step(step.name, step.op, step.inputs, (output,))
        shape = out.shape_of(single)
        before = out.shape(streams[0]) if streams else shape
        _moved(out, single, streams, (before, shape), weights=weights or None, tied=tied)


def _moved(
    out: Emission, step: Step, streams: list[str], shapes: tuple[Shape, Shape], **own: Any
) -> None:
    before, after = shapes
    alone = len(streams) == 1 and own["weights"] is None
    rows = before[:-1] == after[:-1] and isinstance(after[-1], int)
    if alone and before == after:
        out.alias(step.outputs[0], streams[0])
    elif alone and rows and last(before) > last(after):
        out.node("columns", step, streams, after, features=after[-1])
    elif alone and before[:1] == ("tokens",) and after == ("sequences", *before[1:]):
        out.node("select_last", step, streams, after)
    elif len(streams) == 2 and _beside(out, streams, after) and own["weights"] is None:  # noqa: PLR2004
        out.node("concat", step, streams, after)
    else:
        out.node("copy", step, streams or _nothing(), after, shape=list(after), **own)


def _nothing() -> list[str]:
    raise NoShape("a weight that nothing but a shape changes")


def _beside(out: Emission, streams: list[str], after: Shape) -> bool:
    left, right = (out.shape(tensor) for tensor in streams)
    if not left[:-1] == right[:-1] == after[:-1]:
        return False
    return last(left) + last(right) == last(after)


def viewed(out: Emission, step: Step) -> None:
    """Other sides for the same elements: nothing where a plan sees none, else a view or a copy."""
    source = step.inputs[0]
    before = out.shape(source)
    sides = out.graph.sides(step.outputs[0])
    try:
        after = out.layout.of(sides)
    except NoShape:
        if not out.layout.by_tokens:
            raise
        after = before  # what is not known of a view's sides changes none of its elements
    if before == after:
        out.alias(step.outputs[0], source)
    elif step.op == "Transpose":
        out.node("copy", step, [source], after, shape=list(after))
    else:
        out.node("reshape", step, [source], after, shape=list(after))


def columns(out: Emission, step: Step) -> None:
    """Q, K or V of a projection that gives all three."""
    features = step.attributes["features"]
    shape = (*out.shape(step.inputs[0])[:-1], features)
    out.node("columns", step, step.inputs[:1], shape, features=features)


def select_last(out: Emission, step: Step) -> None:
    """The last token of each sequence."""
    shape = out.shape(step.inputs[0])
    if shape[:1] != ("tokens",):
        raise NoShape("rows that are no tokens have no last one")
    out.node("select_last", step, step.inputs[:1], ("sequences", *shape[1:]))
