"""Kernels that run every node of a block once, whatever their order: the relaxed window.

The first node that is not covered must be covered by some kernel; trying all of them, node by node,
finds every partition. What is known of a partial one is the set of later nodes it covers: few sets
where kernels are local, far fewer than downsets. Costs are those beyond the worth of the nodes, so
none is negative, and a partial partition may be dropped at any time if the least cost dropped is
remembered: nothing that was dropped can lead to less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.fusion.windows import Window

Level = dict[int, tuple[int, int, int]]
"""By the later nodes covered, from the node at hand on: (cost, state before, move or -1)."""


@dataclass
class Room:
    """How far to look."""

    width: int
    """Partial partitions kept at each node."""
    limit: int | None = None
    """What costs more than this is not wanted."""
    dropped: int | None = None
    """The least cost of what was dropped for want of room; None where nothing was."""

    def kept(self, level: Level) -> Level:
        """As many of the cheapest as there is room for."""
        if len(level) <= self.width:
            return level
        order = sorted(level, key=lambda state: level[state][0])
        least = level[order[self.width]][0]
        self.dropped = least if self.dropped is None else min(self.dropped, least)
        return {state: level[state] for state in order[: self.width]}


@dataclass(frozen=True)
class Cover:
    """A window as the relaxed search sees it."""

    window: Window
    moves: tuple[tuple[tuple[int, int], ...], ...]
    """By the first node of each: (its nodes from there on, index of the move)."""

    def levels(self, entries: Mapping[int, int], beyond: Sequence[int], room: Room) -> list[Level]:
        """The partial partitions at each node; the last holds the boundary states reached.

        ``entries`` are the costs of the boundary states before.
        """
        level: Level = {entry: (cost, 0, -1) for entry, cost in entries.items()}
        found = [level]
        for options in self.moves:
            level = room.kept(_next(level, options, beyond, room.limit))
            found.append(level)
        return found


def cover_of(window: Window, usable: Sequence[bool]) -> Cover:
    """The cover of a window by the slots that are usable. What may run ahead is left to its own."""
    moves: list[list[tuple[int, int]]] = [[] for _ in range(window.size)]
    for index, move in enumerate(window.moves):
        if not move.ahead and usable[move.slot]:
            first = (move.mask & -move.mask).bit_length() - 1
            moves[first].append((move.mask >> first, index))
    return Cover(window, tuple(map(tuple, moves)))


def _next(
    level: Level, options: Sequence[tuple[int, int]], beyond: Sequence[int], limit: int | None
) -> Level:
    found: Level = {}
    for state, (cost, _, _) in level.items():
        if state & 1:
            known = found.get(state >> 1)
            if known is None or cost < known[0]:
                found[state >> 1] = (cost, state, -1)
            continue
        for nodes, move in options:
            if nodes & state:
                continue
            total = cost + beyond[move]
            if limit is not None and total > limit:
                continue
            after = (state | nodes) >> 1
            known = found.get(after)
            if known is None or total < known[0]:
                found[after] = (total, state, move)
    return found


def moves_to(levels: list[Level], out: int) -> tuple[tuple[int, ...], int]:
    """The moves of the cheapest partition to a boundary state, and the one that it began in."""
    found: list[int] = []
    state = out
    for level in reversed(levels[1:]):
        _, state, move = level[state]
        if move >= 0:
            found.append(move)
    return tuple(reversed(found)), state
