"""An order for kernels that were chosen without one, and what to split where there is none.

Blocks run in turn. Where a kernel across a seam waits for nodes of the next block, their kernels
run ahead, as in the exact search. Kernels that wait for each other in a ring have no order: the one
that loses least is split into its nodes, which always have one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from planner.fusion.types import NoSchedule, Pair
from planner.fusion.windows import Move, Window

Split = Callable[[int], tuple[tuple[int, ...], tuple[int, ...]]]
"""From a slot to those of its nodes, of the block it starts in and of the next one.

Raises NoSchedule where a node has no kernel of its own."""


@dataclass(frozen=True)
class Moves:
    """The moves of a window by slot."""

    window: Window
    own: Mapping[int, Move]
    ahead: Mapping[int, Move]


def moves_of(window: Window) -> Moves:
    """The moves of a window by slot."""
    own = {move.slot: move for move in window.moves if not move.ahead}
    return Moves(window, own, {move.slot: move for move in window.moves if move.ahead})


@dataclass
class Order:
    """Puts the kernels chosen for each block in order."""

    moves: Mapping[Pair, Moves]
    pairs: Sequence[Pair]
    chosen: list[list[int]]
    """Slots of each block; changed where a kernel is split."""
    split: Split
    loss: Callable[[int], float]
    """What splitting a slot costs."""
    broken: set[int] = field(default_factory=set)
    """Slots that had to be split."""

    def payloads(self) -> list[list[int]]:
        """Slots in order for each block; ``~slot`` where it runs ahead."""
        done, found = 0, []
        for number, pair in enumerate(self.pairs):
            launched, done = self._block(number, self.moves[pair], done)
            found.append(launched)
        return found

    def _block(self, number: int, moves: Moves, done: int) -> tuple[list[int], int]:
        """The launches of one block and what of the next is done after it."""
        launched: list[int] = []
        pending = self._sorted(number, moves)
        while pending:
            waiting: list[int] = []
            for slot in pending:
                move = moves.own[slot]
                if move.need & ~done:
                    waiting.append(slot)
                else:
                    done |= move.mask
                    launched.append(slot)
            if len(waiting) == len(pending):
                ran = self._ahead(number, moves, waiting, done)
                if ran is None:
                    self._break(number, moves, waiting, done)
                    waiting = self._sorted(number, moves, set(launched))
                else:
                    launched.append(~ran)
                    done |= moves.ahead[ran].mask
                    self.chosen[number + 1].remove(ran)
            pending = waiting
        return launched, done >> moves.window.size

    def _sorted(
        self,
        number: int,
        moves: Moves,
        launched: set[int] = frozenset(),  # type: ignore[assignment]
    ) -> list[int]:
        left = [slot for slot in self.chosen[number] if slot not in launched]
        return sorted(left, key=lambda slot: moves.own[slot].mask & -moves.own[slot].mask)

    def _ahead(self, number: int, moves: Moves, waiting: list[int], done: int) -> int | None:
        """A kernel of the next block that a waiting one leads to and that is ready."""
        if number + 1 == len(self.pairs):
            return None
        size = moves.window.size
        wanted = 0
        for slot in waiting:
            wanted |= moves.own[slot].need & ~done
        seen = 0
        while wanted >> size and wanted != seen:
            seen = wanted
            for slot in self.chosen[number + 1]:
                move = moves.ahead.get(slot)
                if move is None or not move.mask & wanted:
                    continue
                if not move.need & ~done:
                    return slot
                wanted |= move.need & ~done
        return None

    def _break(self, number: int, moves: Moves, waiting: list[int], done: int) -> None:
        """Split the kernel of a ring that loses least."""
        ring = _ring(self._held(number, moves, waiting), done)
        slot, at = min(ring, key=lambda each: self.loss(each[0]))
        here, after = self.split(slot)
        self.chosen[at].remove(slot)
        self.chosen[at] += here
        if after:
            self.chosen[at + 1] += after
        self.broken.add(slot)

    def _held(self, number: int, moves: Moves, waiting: list[int]) -> list[_Held]:
        """The kernels that wait, and those of the next block, in the window's own bits."""
        held = [_Held(slot, number, moves.own[slot].mask, moves.own[slot].need) for slot in waiting]
        if number + 1 < len(self.pairs):
            following, size = self.moves[self.pairs[number + 1]], moves.window.size
            inside = (1 << following.window.size) - 1
            for slot in self.chosen[number + 1]:
                move = moves.ahead.get(slot)
                if move is None:
                    # It reaches the block after, or nothing waits for it: it stands for a ring
                    # of its own, as a kernel that may not run ahead.
                    own = following.own[slot].mask
                    mask = (own & inside) << size
                    held.append(_Held(slot, number + 1, mask, mask if own & ~inside else 0))
                else:
                    held.append(_Held(slot, number + 1, move.mask, move.need))
        return held


Node = TypeVar("Node", bound=Hashable)


def in_some_order(kernels: Iterable[frozenset[Node]], edges: Iterable[tuple[Node, Node]]) -> bool:
    """Whether no kernels wait for each other in a ring; ``edges`` lead from nodes to their readers.

    A node that no kernel runs is taken to be done.
    """
    owner = {node: number for number, nodes in enumerate(kernels) for node in nodes}
    waits = dict.fromkeys(owner.values(), 0)
    for producer, reader in edges:
        first, then = owner.get(producer), owner.get(reader)
        if first is not None and then is not None and first != then:
            waits[then] |= 1 << first
    done = 0
    while waits:
        ready = [number for number, before in waits.items() if not before & ~done]
        if not ready:
            return False
        for number in ready:
            done |= 1 << number
            del waits[number]
    return True


@dataclass(frozen=True)
class _Held:
    slot: int
    block: int
    mask: int
    need: int


def _ring(held: list[_Held], done: int) -> list[tuple[int, int]]:
    """Kernels of several nodes that wait for each other in a ring, as (slot, block)."""
    covers: dict[int, _Held] = {}
    for each in held:
        rest = each.mask
        while rest:
            low = rest & -rest
            covers[low] = each
            rest ^= low
    walk: list[_Held] = [next(each for each in held if each.need & ~done)]
    while True:
        lacking = walk[-1].need & ~done
        after = covers.get(lacking & -lacking) if lacking else None
        if after is None:
            raise NoSchedule("fusion: the kernels chosen wait for what nothing runs")
        if after in walk:
            ring = [
                e for e in walk[walk.index(after) :] if e.mask.bit_count() > 1 or e.need & e.mask
            ]
            return [(each.slot, each.block) for each in ring]
        walk.append(after)
