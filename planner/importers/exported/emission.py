"""Steps of an export as nodes of a plan, with every weight accounted for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.importers.exported.graph import Graph, Role
from planner.importers.exported.layout import Layout, NoShape, Shape
from planner.importers.exported.naming import short_name
from planner.importers.exported.types import Step

Emit = Callable[["Emission", Step], None]


@dataclass(frozen=True)
class Made:
    """A node of the plan. ``hint`` is what it would like to be called."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    hint: str
    format: str = ""
    """What its weights are stored in, where that is narrower than 16 bits."""


_SAID = {"Attend": "attention", "Core": "attention", "AddThird": "Add"}
"""What steps that patterns made are called in refusals."""


@dataclass
class Emission:
    """Nodes so far, the shapes of their tensors, and what could not be said."""

    graph: Graph
    layout: Layout
    nodes: list[Made] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    inputs: dict[str, Shape] = field(default_factory=dict)
    """What enters the model, by the export's names."""
    taken: dict[str, int] = field(default_factory=dict)
    """Elements of every stored tensor that a node owns."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """By operator, with the reason if there is one: names of the steps."""
    same: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """What refused steps would have written."""

    def run(self, steps: Sequence[Step], emitters: dict[str, Emit]) -> None:
        """Emit every step; what has no emitter, or no shape, is noted as refused."""
        for step in steps:
            emit = emitters.get(step.op)
            if emit is None:
                self._refuse(step, "")
                continue
            try:
                emit(self, step)
            except NoShape as reason:
                self._refuse(step, str(reason))

    def _refuse(self, step: Step, reason: str) -> None:
        """Note it; one that only reads what was refused before is no further fault."""
        follows = reason and any(self.known(tensor) in self.broken for tensor in step.inputs)
        op = _SAID.get(step.op, step.op)
        key = f"{op}: {reason}" if reason else op
        if not follows:
            self.refused.setdefault(key, []).append(step.name)
        self.broken |= set(step.outputs)

    def known(self, tensor: str) -> str:
        """The tensor under which its elements are known."""
        while tensor in self.same:
            tensor = self.same[tensor]
        return tensor

    def shape(self, tensor: str) -> Shape:
        """The shape of a tensor in the plan; a model input is opened where it is first read."""
        tensor = self.known(tensor)
        if tensor not in self.shapes:
            if tensor not in self.graph.export.inputs:
                raise NoShape("reads what could not be planned")
            self.inputs[tensor] = self.shapes[tensor] = self.layout.of(self.graph.sides(tensor))
        return self.shapes[tensor]

    def shape_of(self, step: Step) -> Shape:
        """The shape of a step's first output, as the export says."""
        return self.layout.of(self.graph.sides(step.outputs[0]))

    def alias(self, output: str, source: str) -> None:
        """Let a tensor be another one under a new name."""
        self.shape(source)
        self.same[output] = self.known(source)

    def node(
        self, op: str, step: Step, inputs: Sequence[str], after: Shape, /, **attributes: Any
    ) -> None:
        """One node with one output; attributes that are None are left out."""
        self.wide_node(op, step, inputs, {step.outputs[0]: after}, **attributes)

    def wide_node(
        self,
        op: str,
        step: Step,
        inputs: Sequence[str],
        outputs: dict[str, Shape],
        **attributes: Any,
    ) -> None:
        """One node with outputs of these shapes."""
        for tensor in inputs:
            self.shape(tensor)
        weights = [base for tensor in step.inputs for base in self.graph.bases(tensor)]
        said = {key: value for key, value in attributes.items() if value is not None}
        named = [*weights[:1], step.name] if weights or step.op == "Linear" else []
        hint = short_name(*named, otherwise=op)
        read = tuple(self.known(tensor) for tensor in inputs)
        self.nodes.append(Made(op, read, tuple(outputs), said, hint))
        self.shapes |= outputs

    def take(self, tensor: str) -> tuple[int, bool]:
        """Elements of a weight that a node reads, and whether another node has them already."""
        bases = list(dict.fromkeys(self.graph.bases(tensor)))
        tied = all(base in self.taken for base in bases)
        weights = [self.graph.export.weights[base] for base in bases]
        fresh = [weight for weight in weights if weight.name not in self.taken]
        for weight in fresh:
            self.taken[weight.name] = weight.elements if weight.parameter else 0
        counted = weights if tied else fresh
        return sum(weight.elements for weight in counted if weight.parameter), tied

    def weights_of(self, step: Step) -> tuple[int, bool | None]:
        """Elements of all weights among a step's operands, and whether they are held elsewhere."""
        found = [self.take(t) for t in step.inputs if t and self.graph.role(t) == Role.WEIGHT]
        own = sum(elements for elements, tied in found if not tied)
        if own:
            return own, None
        return sum(elements for elements, _ in found), True if any(e for e, _ in found) else None


def last(shape: Shape) -> int:
    """The last side. Raises NoShape where it is not fixed."""
    if not shape or not isinstance(shape[-1], int):
        raise NoShape("its last side is not fixed")
    return shape[-1]


def times(side: int | str, count: int) -> int | str:
    """A side ``count`` times."""
    if count == 1:
        return side
    return side * count if isinstance(side, int) else f"{count} * {side}"
