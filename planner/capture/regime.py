"""What loads share that branch alike: which kernels may run at all, and which a search may choose.

A search compares the nodes that a schedule leaves uncovered first, and that depends on structure
and refusals alone. So the kernels that lie on a schedule of least ``uncovered`` are found once for
a layout, and no others need a price.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from planner.capture.layout import Layout, Place, Slot
from planner.capture.types import Mode
from planner.fusion.explore import Space
from planner.fusion.least import LeastPaths, known_least
from planner.fusion.objective import IMPOSSIBLE, Additive, Objective, TwoClock
from planner.fusion.types import Price


def objective_of(mode: Mode) -> Objective:
    """What the search minimises in a mode."""
    return Additive() if mode == "full" else TwoClock()


@dataclass(frozen=True, eq=False)
class Regime:
    """What loads share: a layout, a mode, and the groups that are too large to run."""

    layout: Layout
    mode: Mode
    refused: frozenset[int]
    weights: tuple[int, ...]
    """Nodes each slot leaves uncovered."""
    paths: LeastPaths
    space: Space
    """The states that least paths pass through: all that a search needs to look at."""
    growing: set[int] = field(default_factory=set)
    """Slots whose kernels were seen to look at the context."""

    @property
    def objective(self) -> Objective:
        """What the search minimises in this mode."""
        return objective_of(self.mode)

    @cached_property
    def unasked(self) -> tuple[Price | None, ...]:
        """By slot, what the search is told of one that needs no price: it cannot run, or no least
        path runs it.
        """
        return tuple(
            Price(weight, 0.0, math.inf)
            if slot in self.refused
            else None
            if slot in self.paths.kernels
            else Price(weight, 0.0, 0.0)
            for slot, weight in enumerate(self.weights)
        )


def known_regime(layout: Layout, mode: Mode, refused: frozenset[int]) -> Regime:
    """The regime of a mode in which the slots ``refused`` cannot run, found once for all GPUs."""
    if (mode, refused) not in layout.kept:
        layout.kept[mode, refused] = regime(layout, mode, refused)
    found: Regime = layout.kept[mode, refused]
    return found


def regime(layout: Layout, mode: Mode, refused: frozenset[int]) -> Regime:
    """As `known_regime`, made anew."""
    refused |= taken(layout, refused)
    weights = uncovered(layout, refused)
    counted = [IMPOSSIBLE if n in refused else weight for n, weight in enumerate(weights)]
    space = layout.space(order_free=mode == "full")
    return Regime(layout, mode, refused, weights, *known_least(layout.problem, space, counted))


def taken(layout: Layout, refused: Collection[int]) -> frozenset[int]:
    """Slots that hold a node which an earlier pass of the engine fuses: they find it gone.

    Across a seam only what that very seam takes is gone, as the last layer's end is not taken by
    what joins one layer to the next.
    """
    if all(slot.order == math.inf for slot in layout.slots):
        return frozenset()
    passes: dict[Place, list[tuple[float, Seam]]] = {}
    for number, slot in enumerate(layout.slots):
        if slot.fuses and number not in refused and slot.order < math.inf:
            for place, seam in _seams(slot):
                passes.setdefault(place, []).append((slot.order, seam))
    return frozenset(
        number
        for number, slot in enumerate(layout.slots)
        if slot.fuses
        and any(_gone(slot.order, seam, passes.get(p, ())) for p, seam in _seams(slot))
    )


Seam = tuple[int, int] | None
"""Which side of a seam a node is on, 0 or 1, and the kind of block on the other; None within."""


def _seams(slot: Slot) -> Iterator[tuple[Place, Seam]]:
    """Each node of a slot, and how it lies at the seam that the slot crosses."""
    for offset, name in slot.group.nodes:
        across = (offset, slot.kinds[1 - offset]) if len(slot.kinds) > 1 else None
        yield (slot.kinds[offset], name), across


def _gone(order: float, seam: Seam, passes: Iterable[tuple[float, Seam]]) -> bool:
    """Whether an earlier pass takes a node where a slot has it."""
    return any(
        earlier < order and (seam is None or other is None or other[0] != seam[0] or other == seam)
        for earlier, other in passes
    )


def uncovered(layout: Layout, refused: Collection[int]) -> tuple[int, ...]:
    """By slot, whether it runs a node on its own that a rule of the engine fuses here."""
    slots = layout.slots
    running = (slot.fuses for number, slot in enumerate(slots) if number not in refused)
    covered = frozenset[Place]().union(*running)
    return tuple(int(slot.alone in covered) for slot in slots)
