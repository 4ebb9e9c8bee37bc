"""From which operators of an export each node of its plan comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from planner.importers.exported.emission import Made
from planner.importers.exported.graph import Graph
from planner.importers.exported.read import Options, emitted, model_data
from planner.importers.exported.repeats import Piece
from planner.importers.exported.spec import Blocks
from planner.importers.exported.types import Export

BLOCK = "whole"


@dataclass(frozen=True)
class Traced:
    """A model spec of one block, and where its nodes come from."""

    data: dict[str, Any]
    steps: Mapping[str, tuple[str, ...]]
    """By node: names of the export's operators that it stands for, in order."""


def traced(export: Export, name: str) -> Traced:
    """The spec of an exported graph with nothing written once for several layers.

    Raises UsageError with every operator that no node of a plan is for.
    """
    emission, _, written = emitted(export, name, Options())
    piece = Piece(tuple(emission.nodes), tuple(emission.inputs), written)
    blocks = Blocks(emission)
    blocks.use(piece, BLOCK)
    head = {"name": name, "title": name, "source": f"exported {name}"}
    data = model_data(emission, blocks, [{"block": BLOCK}], head)
    names = blocks.written[BLOCK]["nodes"]
    regions = _regions(export, emission.nodes)
    return Traced(data, dict(zip(names, regions, strict=True)))


def _regions(export: Export, nodes: list[Made]) -> Iterator[tuple[str, ...]]:
    """For each node what lies between the tensors it writes and those that other nodes write."""
    graph = Graph(export)
    order = {step.name: place for place, step in enumerate(export.steps)}
    makers = {tensor: step for step in export.steps for tensor in step.outputs}
    borders = {tensor for node in nodes for tensor in (*node.inputs, *node.outputs)}
    for node in nodes:
        found: set[str] = set()
        waiting = [tensor for tensor in node.outputs if tensor in makers]
        while waiting:
            step = makers[waiting.pop()]
            if step.name in found:
                continue
            found.add(step.name)
            waiting += [
                t for t in step.inputs if t in makers and t not in borders and graph.is_stream(t)
            ]
        yield tuple(sorted(found, key=order.__getitem__))
