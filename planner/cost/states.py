"""Places for the states of sequences, where an engine sets them aside before its KV cache.

A running sequence takes several: its own, and those that the prefix cache keeps for it. How many,
and how memory is shared, is the engine's: ``StatesSpec`` of the catalogue.
"""

from __future__ import annotations

from fractions import Fraction

from planner.cost.reserve import Reserve
from planner.graph.totals import recurrent_bytes_per_sequence
from planner.graph.types import ModelGraph
from planner.num import Number, maximum
from planner.records import dataclass


@dataclass(frozen=True)
class States:
    """What is set aside for states on one GPU."""

    slots: int
    """Places in all."""
    each: int
    """Places that a running sequence takes."""
    drafted: int
    """States held beside, behind drafts not yet accepted."""
    state_bytes: float
    """Recurrent states of one sequence."""

    @property
    def sequences(self) -> int:
        """Most sequences that run at once."""
        return self.slots // self.each

    @property
    def bytes(self) -> float:
        """What all of them take."""
        return (self.slots + self.drafted) * self.state_bytes

    def missing_bytes(self, sequences: Number) -> Number:
        """Bytes by which the places are too few for so many sequences at once."""
        return maximum(0.0, (sequences * self.each - self.slots) * self.state_bytes)


def states(graph: ModelGraph, reserve: Reserve, rest_bytes: float) -> States | None:
    """The places that an engine sets aside of what is left for states and KV cache.

    None for a graph without recurrent states, or an engine that sets none aside.
    """
    spec, each_bytes = reserve.spec.states, recurrent_bytes_per_sequence(graph)
    if spec is None or not each_bytes:
        return None
    found = {"rest_bytes": Fraction(max(0.0, rest_bytes)), "state_bytes": Fraction(each_bytes)}
    each = max(1, reserve.count(spec.each, found))
    known = {**found, "each": Fraction(each)}
    slots = reserve.count(spec.slots, known)
    drafted = reserve.count(spec.drafted, {**known, "slots": Fraction(slots)})
    return States(slots, each, drafted, each_bytes)
