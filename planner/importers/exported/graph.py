"""An exported graph to be rewritten: who makes and who reads each tensor, what it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum

from planner.importers.exported.types import Export, Sides, Step

MOVES = frozenset(
    [
        "Reshape",
        "Transpose",
        "Cast",
        "Identity",
        "Unsqueeze",
        "Squeeze",
        "Flatten",
        "Expand",
        "Slice",
        "Split",
        "Concat",
        "Tile",
        "Gather",
        "Contiguous",
        "Dropout",
        "CastLike",
    ]
)
"""Operators that keep a weight a weight, whatever sizes steer them."""
ALIASES = frozenset(
    [
        "Reshape",
        "Transpose",
        "Cast",
        "Identity",
        "Unsqueeze",
        "Squeeze",
        "Flatten",
        "Contiguous",
        "Dropout",
        "CastLike",
    ]
)
"""Operators behind which the same elements stand."""
_SHAPES = frozenset({"Shape", "Size"})


_BESIDE = 2.0**-10
"""How far apart steps stand that one step was replaced by: some of a thousand, at most."""


def _reaching(export: Export) -> list[Step]:
    """The steps that some output follows from; exporters leave others behind."""
    wanted, kept = set(export.outputs), []
    for step in reversed(export.steps):
        if wanted & set(step.outputs):
            wanted |= set(step.inputs)
            kept.append(step)
    return kept[::-1]


def _without_effect(export: Export, step: Step) -> Step:
    """A slice or an expansion to the sides that are there already, as what it is."""
    if step.op not in {"Slice", "Expand", "Tile", "Concat", "Pad"} or len(step.outputs) != 1:
        return step
    before, after = export.sides(step.inputs[0]), export.sides(step.outputs[0])
    if before is None or before != after:
        return step
    return replace(step, op="Identity", inputs=step.inputs[:1])


class Role(StrEnum):
    """What a tensor is to the plan."""

    WEIGHT = "weight"
    SIDE = "side"
    """Shapes, positions, masks: known from sizes and indices, without any weight product."""
    STREAM = "stream"


class Graph:
    """The steps of an export in order, which patterns replace by fewer."""

    def __init__(self, export: Export) -> None:
        self.export = export
        self.steps: dict[str, Step] = {}
        self.rank: dict[str, float] = {}
        self._maker: dict[str, Step] = {}
        self._readers: dict[str, dict[str, None]] = {}
        for position, step in enumerate(_reaching(export)):
            self._add(_without_effect(export, step), position)
        self.roles = self._roles()

    def _add(self, step: Step, rank: float) -> None:
        self.steps[step.name], self.rank[step.name] = step, rank
        self._maker |= dict.fromkeys(filter(None, step.outputs), step)
        for tensor in filter(None, step.inputs):
            self._readers.setdefault(tensor, {})[step.name] = None

    def swap(self, gone: Iterable[Step], *made: Step) -> None:
        """Put steps in the place of others: where the last of them stood."""
        ranks = []
        for step in gone:
            ranks.append(self.rank.pop(step.name))
            del self.steps[step.name]
            for tensor in filter(None, step.inputs):
                self._readers[tensor].pop(step.name, None)
            for tensor in step.outputs:
                self._maker.pop(tensor, None)
        for place, step in enumerate(made):
            self._add(step, max(ranks) + place * _BESIDE)

    def ordered(self) -> list[Step]:
        """The steps, makers ahead of readers."""
        return sorted(self.steps.values(), key=lambda step: self.rank[step.name])

    def maker(self, tensor: str) -> Step | None:
        """The step that writes a tensor."""
        return self._maker.get(tensor)

    def readers(self, tensor: str) -> list[Step]:
        """The steps that read a tensor, in order."""
        found = [self.steps[name] for name in self._readers.get(tensor, ())]
        return sorted(found, key=lambda step: self.rank[step.name])

    def reader(self, tensor: str) -> Step | None:
        """The only step that computes on a tensor, if it is no output of the whole."""
        found = [step for step in self.readers(tensor) if self.is_stream(step.outputs[0])]
        return found[0] if len(found) == 1 and tensor not in self.export.outputs else None

    def sides(self, tensor: str) -> Sides | None:
        """Sides of a tensor, where the export says."""
        return self.export.sides(tensor)

    def role(self, tensor: str) -> Role:
        """What a tensor is to the plan."""
        return self.roles.get(tensor, Role.STREAM)

    def is_stream(self, tensor: str) -> bool:
        """Whether it carries what the model computes."""
        return bool(tensor) and self.role(tensor) == Role.STREAM

    def streams(self, step: Step) -> list[str]:
        """Inputs of a step that carry what the model computes."""
        return [tensor for tensor in step.inputs if self.is_stream(tensor)]

    def number(self, tensor: str) -> float | None:
        """The number a tensor of one element holds, where the export shows it."""
        numbers = self.numbers(tensor)
        return numbers[0] if numbers is not None and len(numbers) == 1 else None

    def numbers(self, tensor: str) -> tuple[float, ...] | None:
        """What a small stored tensor holds, through casts."""
        step = self.maker(tensor)
        while step and step.op in ALIASES and len(list(filter(None, step.inputs))) >= 1:
            tensor = step.inputs[0]
            step = self.maker(tensor)
        weight = self.export.weights.get(tensor)
        return weight.numbers if weight else None

    def source(self, tensor: str, through: frozenset[str] = ALIASES) -> str:
        """The tensor whose elements stand here, ahead of casts and views."""
        step = self.maker(tensor)
        while step and step.op in through and self.is_stream(step.inputs[0]):
            tensor = step.inputs[0]
            step = self.maker(tensor)
        return tensor

    def bases(self, tensor: str) -> Iterator[str]:
        """The stored tensors that a weight is made of: of a quantised one, without its scales."""
        if self.role(tensor) != Role.WEIGHT:
            return
        if tensor in self.export.weights:
            yield tensor
            return
        step = self.maker(tensor)
        inputs = step.inputs if step else ()
        for name in inputs[:1] if step and step.op == "DequantizeLinear" else inputs:
            if self.role(name) == Role.WEIGHT:
                yield from self.bases(name)

    def _roles(self) -> dict[str, Role]:
        roles: dict[str, Role] = {}
        for name, weight in self.export.weights.items():
            held = weight.dtype not in {"int", "bool"} and weight.elements > 1
            roles[name] = Role.WEIGHT if held or self._is_bias(name) else Role.SIDE
        for name in self.export.inputs:
            value = self.export.values.get(name)
            index = value is not None and value.dtype in {"int", "bool"}
            roles[name] = Role.SIDE if index else Role.STREAM
        for step in self.export.steps:
            role = self._role_of(step, roles)
            roles |= dict.fromkeys(filter(None, step.outputs), role)
        return roles

    def _is_bias(self, name: str) -> bool:
        """Whether a float of one element is a bias or a gain: an operand no formula would have."""
        weight = self.export.weights[name]
        if weight.dtype in {"int", "bool"} or not weight.sides:
            return False
        places = {"Gemm": 2, "Linear": 2, "Conv": 2, "LayerNormalization": 2}
        return any(
            name == step.read(places[step.op]) for step in self.readers(name) if step.op in places
        )

    def _role_of(self, step: Step, roles: dict[str, Role]) -> Role:
        given = [roles.get(name, Role.STREAM) for name in step.inputs if name]
        if step.op in _SHAPES:
            return Role.SIDE
        if step.op == "Gather" and given[0] == Role.WEIGHT:
            stored = step.inputs[1] in self.export.weights
            return Role.WEIGHT if stored else Role.STREAM
        if Role.STREAM in given:
            return Role.STREAM
        if Role.WEIGHT not in given:
            return Role.SIDE
        kept = step.op in MOVES and given[0] == Role.WEIGHT
        constant = all(
            role == Role.WEIGHT or self._is_constant(name)
            for name, role in zip(filter(None, step.inputs), given, strict=True)
        )
        return Role.WEIGHT if kept or constant else Role.SIDE

    def _is_constant(self, tensor: str) -> bool:
        step = self.maker(tensor)
        if step is None:
            return tensor in self.export.weights
        return all(self._is_constant(name) for name in step.inputs if name)
