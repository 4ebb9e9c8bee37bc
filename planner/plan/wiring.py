"""Which node reads what of which: the edges that a plan's tables leave out."""

from __future__ import annotations

from dataclasses import dataclass

from planner.plan.prepare import prepare
from planner.spec.question import Question


@dataclass(frozen=True)
class Wire:
    """One tensor from its producer to one reader, inside one kind of block."""

    block: str
    source: str
    target: str
    tensor: str


def wires(question: Question) -> tuple[Wire, ...]:
    """The edges of every kind of block, on one rank."""
    return tuple(
        Wire(block.label, source, target, tensor)
        for block in prepare(question).graph.kinds
        for source, target, tensor in block.graph.edges(keys=True)
    )
