"""Pieces of a graph as the blocks and the sequence of a model spec."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from planner.importers.exported.emission import Emission
from planner.importers.exported.naming import short_name, unique
from planner.importers.exported.repeats import Piece, Repeat, compressed, pieces, shape_key


@dataclass
class Blocks:
    """Blocks so far, each kind once."""

    emission: Emission
    written: dict[str, dict[str, Any]] = field(default_factory=dict)
    formats: dict[str, set[str]] = field(default_factory=dict)
    """Nodes by the narrow format of their weights, as ``block.node``."""
    _known: dict[Hashable, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def use(self, piece: Piece, wanted: str) -> str:
        """The name of the block that a piece is, written where it is new."""
        key = shape_key(piece, self.emission.shapes)
        if key not in self._known:
            name = unique(wanted, self._taken).replace("_", "-")
            self._known[key] = name
            self.written[name] = self._block(name, piece)
        return self._known[key]

    def _block(self, name: str, piece: Piece) -> dict[str, Any]:
        taken: set[str] = set()
        names: dict[str, str] = {}
        for tensor in piece.inputs:
            own = tensor in self.emission.inputs
            names[tensor] = unique(input_name(tensor) if own else "x", taken)
        nodes: dict[str, Any] = {}
        for made in piece.nodes:
            called = unique(made.hint, taken)
            if made.format:
                self.formats.setdefault(made.format, set()).add(f"{name}.{called}")
            for place, tensor in enumerate(made.outputs):
                names[tensor] = unique(f"{called}_{place + 1}", taken) if place else called
            nodes[called] = _node(made.op, made, names)
        return {
            "name": name,
            "inputs": {names[t]: list(self.emission.shapes[t]) for t in piece.inputs},
            "nodes": nodes,
            "outputs": [names[tensor] for tensor in piece.outputs],
        }


def input_name(tensor: str) -> str:
    """What a model input is called: token_ids of whatever a tokenizer gives."""
    name = short_name(tensor, otherwise="x")
    return "token_ids" if name in {"input_ids", "tokens", "ids"} else name


def _node(op: str, made: Any, names: dict[str, str]) -> dict[str, Any]:
    read = [names[tensor] for tensor in made.inputs]
    node: dict[str, Any] = {"op": op, "in": read[0] if len(read) == 1 else read}
    if len(made.outputs) > 1:
        node["out"] = [names[tensor] for tensor in made.outputs]
    return {**node, **made.attributes}


def sequence_of(
    emission: Emission, outputs: tuple[str, ...]
) -> tuple[Blocks, list[dict[str, Any]]]:
    """The blocks of a graph, and the sequence that runs them."""
    cut = pieces(emission.nodes, tuple(emission.inputs), outputs)
    keys = [shape_key(piece, emission.shapes) for piece in cut]
    items = compressed(cut, keys)
    blocks, sequence = Blocks(emission), []
    repeated = [position for position, item in enumerate(items) if isinstance(item, Repeat)]
    for position, item in enumerate(items):
        wanted = _wanted(position, repeated)
        sequence.append(_item(blocks, item, wanted))
    return blocks, sequence


def _wanted(position: int, repeated: list[int]) -> str:
    if not repeated:
        return "whole"
    if position in repeated:
        return "layer"
    if position < repeated[0]:
        return "begin"
    return "end" if position > repeated[-1] else "between"


def _item(blocks: Blocks, item: Piece | Repeat, wanted: str) -> dict[str, Any]:
    if isinstance(item, Piece):
        return {"block": blocks.use(item, wanted)}
    if len(item.items) == 1 and isinstance(item.items[0], Piece):
        return {"block": blocks.use(item.items[0], wanted), "times": item.times}
    return {"repeat": item.times, "blocks": [_item(blocks, each, wanted) for each in item.items]}
