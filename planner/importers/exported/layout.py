"""How sides of an export become sides of a plan: rows of tokens, or the export's own names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.importers.exported.graph import Graph
from planner.importers.exported.types import Side, Sides

Shape = tuple[Side, ...]
_NUMBERED = re.compile(r"s[0-9]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class NoShape(ValueError):  # noqa: N818 - said of a shape, not of a program
    """A tensor whose shape a plan cannot have; the message says why."""


@dataclass(frozen=True)
class Layout:
    """The batch and the length of the sequences as the export has them; None for neither."""

    batch: Side | None = None
    length: Side | None = None
    given: Mapping[str, Side] = field(default_factory=dict)
    """What the user says an axis is: an expression over the plan's names."""

    @property
    def by_tokens(self) -> bool:
        """Whether rows are tokens of sequences, as attention needs them."""
        return self.length is not None

    def of(self, sides: Sides | None) -> Shape:
        """The shape in a plan. Raises NoShape for one that a plan cannot have."""
        if sides is None:
            raise NoShape("its shape is not known")
        if not self.by_tokens:
            return tuple(self._own(side) for side in sides)
        rest = list(sides)
        batch = self._taken(rest, self.batch)
        if self._taken(rest, self.length, last=len(rest) > 1 or not batch):
            return ("tokens", self._product(rest)) if rest else ("tokens",)
        return tuple(self._fixed(side) for side in (["sequences", *rest] if batch else sides))

    def unfolded(self, sides: Sides | None) -> Shape:
        """The shape with every side apart, as convolutions have it."""
        if sides is None:
            raise NoShape("its shape is not known")
        if not self.by_tokens:
            return self.of(sides)
        head = sides[:1] if sides[:1] != (self.batch,) else ("sequences",)
        return tuple(self._fixed(side) for side in (*head, *sides[1:]))

    def rows(self, sides: Sides | None) -> Shape:
        """Of indices: a row a token where the batch is left to broadcasting, or all is unknown."""
        if self.by_tokens and (sides is None or self.length in sides):
            return ("tokens",)
        return self.of(sides)

    def _taken(self, rest: list[Side], side: Side | None, *, last: bool = True) -> bool:
        among = rest if last else rest[:-1]
        if side is None or side not in among:
            return False
        rest.remove(side)
        return True

    def _product(self, rest: list[Side]) -> int:
        count = 1
        for side in rest:
            fixed = self.given.get(side, side) if isinstance(side, str) else side
            if not isinstance(fixed, int):
                raise NoShape(f"a side '{side}' beside the tokens")
            count *= fixed
        return count

    def _fixed(self, side: Side) -> Side:
        if isinstance(side, int) or side == "sequences":
            return side
        if side in self.given:
            return self.given[side]
        raise NoShape(f"the axis '{side}' is neither the batch nor the length of sequences")

    def _own(self, side: Side) -> Side:
        if isinstance(side, int):
            return side
        if side in self.given:
            return self.given[side]
        if _NAME.fullmatch(side):
            return side
        raise NoShape(f"a side '{side}'")


def found_layout(graph: Graph, given: Mapping[str, Side]) -> Layout:
    """The layout that the export's attention asks for; its own names where it has none.

    ``given`` may say which axis is the ``batch`` and which are the ``tokens`` of a sequence.
    """
    said = {value: axis for axis, value in given.items()}
    rest = {axis: side for axis, side in given.items() if side not in {"batch", "tokens"}}
    attends = [step for step in graph.ordered() if step.op == "Attend"]
    if not attends and "tokens" not in said:
        return Layout(given={**_leading(graph), **given})
    batch, length = _axes(graph, attends[0].inputs[0]) if attends else (None, None)
    for tensor in graph.export.inputs:
        if length is None and len(graph.sides(tensor) or ()) > 1:
            batch, length, *_ = graph.sides(tensor) or ()
    return Layout(said.get("batch", batch), said.get("tokens", length), rest)


def _leading(graph: Graph) -> dict[str, Side]:
    """The batch, where all inputs begin with one side for which torch made up a name."""
    sides = [graph.sides(tensor) or () for tensor in graph.export.inputs]
    first = {found[0] for found in sides if found}
    if len(first) != 1:
        return {}
    (side,) = first
    return {side: "batch"} if isinstance(side, str) and _NUMBERED.fullmatch(side) else {}


def _axes(graph: Graph, query: str) -> tuple[Side | None, Side | None]:
    """Batch and length of Q: the first side, and the one that its projection keeps."""
    tensor = query
    while tensor:
        sides = graph.sides(tensor)
        if sides is not None and len(sides) == 3:  # noqa: PLR2004 - batch, length, features
            return sides[0], sides[1]
        step = graph.maker(tensor)
        streams = graph.streams(step) if step else []
        tensor = streams[0] if streams else ""
    return None, None
