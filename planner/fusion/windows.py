"""A block and the next one as bit masks: the local view in which the search runs.

Bit i is node i of the block, bit ``size + j`` node j of the next block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planner.fusion.types import Block, Edge, NodeKey, NoSchedule, Pair, Problem, Seam
from planner.records import dataclass


@dataclass(frozen=True)
class Move:
    """A kernel as the search sees it."""

    slot: int
    """Its place in ``Problem.candidates``."""
    mask: int
    """The nodes it runs."""
    need: int
    """The nodes that must be done before."""
    ahead: bool
    """It lies in the next block and may run early."""


@dataclass(frozen=True)
class Window:
    """One block with what may run while it is in progress."""

    pair: Pair
    size: int
    """Number of nodes of the block."""
    moves: tuple[Move, ...]

    @property
    def name(self) -> str:
        """``kind → next kind`` for messages."""
        return " → ".join(kind or "end" for kind in self.pair)

    @property
    def full(self) -> int:
        """The mask of all nodes of the block."""
        return (1 << self.size) - 1


def windows_of(problem: Problem) -> dict[Pair, Window]:
    """The windows that the sequence passes through.

    Raises NoSchedule when a node is in no candidate, ValueError when the problem is malformed.
    """
    if not problem.sequence or any(times < 1 for _, times in problem.sequence):
        raise ValueError(f"not a sequence of blocks: {problem.sequence}")
    _check_covered(problem)
    for block in problem.blocks:
        _check_order(block)
    blocks = {block.kind: block for block in problem.blocks}
    seams = {(seam.kind, seam.next_kind): seam for seam in problem.seams}
    first_slots = _first_slots(problem)
    return {
        pair: _window(blocks[pair[0]], _next_of(pair, blocks, seams), first_slots)
        for pair, _ in problem.passes
    }


def boundary_states(
    window: Window, most: int, usable: Sequence[bool] | None = None
) -> set[int] | None:
    """What kernels across the seam may have done of the next block; None if more than ``most``."""
    found = {0}
    for move in window.moves:
        beyond = move.mask >> window.size
        if beyond and not move.ahead and (usable is None or usable[move.slot]):
            found |= {state | beyond for state in found if not state & beyond}
            if len(found) > most:
                return None
    return found


def _next_of(
    pair: Pair, blocks: dict[str, Block], seams: dict[tuple[str, str], Seam]
) -> tuple[Block, Seam] | None:
    kind, next_kind = pair
    if next_kind is None:
        return None
    if (kind, next_kind) not in seams:
        raise ValueError(f"no seam from {kind} to {next_kind}")
    return blocks[next_kind], seams[kind, next_kind]


def _first_slots(problem: Problem) -> dict[int, int]:
    """The slot of the first candidate of each block and seam, by identity of the owner."""
    slots: dict[int, int] = {}
    count = 0
    owners: tuple[Block | Seam, ...] = (*problem.blocks, *problem.seams)
    for owner in owners:
        slots[id(owner)] = count
        count += len(owner.candidates)
    return slots


def _window(
    block: Block, following: tuple[Block, Seam] | None, first_slots: dict[int, int]
) -> Window:
    size = len(block.nodes)
    before = _before(block.nodes, block.nodes, block.edges)
    place = {(0, node): index for index, node in enumerate(block.nodes)}
    next_kind = None
    ahead: list[Move] = []
    across: list[Move] = []
    own = _moves(block, place, before, first_slots)
    if following is not None:
        after, seam = following
        next_kind = after.kind
        place_after = {(0, node): size + index for index, node in enumerate(after.nodes)}
        place |= {(1, node): bit for (_, node), bit in place_after.items()}
        inside = _before(after.nodes, after.nodes, after.edges)
        over = _before(block.nodes, after.nodes, seam.edges)
        before += [(own << size) | cross for own, cross in zip(inside, over, strict=True)]
        across = _moves(seam, place, before, first_slots)
        _check_across(seam, across, size)
        ahead = _waited_for(
            across, _moves(after, place_after, before, first_slots, ahead=True), size
        )
    return Window((block.kind, next_kind), size, (*own, *across, *ahead))


def _before(producers: Sequence[str], consumers: Sequence[str], edges: Iterable[Edge]) -> list[int]:
    """For each consumer the mask of producers it reads."""
    bit = {node: index for index, node in enumerate(producers)}
    row = {node: index for index, node in enumerate(consumers)}
    masks = [0] * len(consumers)
    for producer, consumer in edges:
        masks[row[consumer]] |= 1 << bit[producer]
    return masks


def _moves(
    owner: Block | Seam,
    place: dict[NodeKey, int],
    before: list[int],
    first_slots: dict[int, int],
    *,
    ahead: bool = False,
) -> list[Move]:
    moves = []
    for slot, candidate in enumerate(owner.candidates, first_slots[id(owner)]):
        if not candidate.nodes or not candidate.nodes <= place.keys():
            raise ValueError(f"candidate {candidate.name} covers no or unknown nodes")
        mask = need = 0
        for node in candidate.nodes:
            mask |= 1 << place[node]
            need |= before[place[node]]
        moves.append(Move(slot, mask, need & ~mask, ahead))
    return moves


def _check_across(seam: Seam, across: list[Move], size: int) -> None:
    for move, candidate in zip(across, seam.candidates, strict=True):
        if not move.mask >> size or not move.mask & ((1 << size) - 1):
            raise ValueError(f"candidate {candidate.name} does not cross the seam it belongs to")


def _waited_for(across: list[Move], inside: list[Move], size: int) -> list[Move]:
    """Kernels of the next block that one across the seam may have to wait for, the least set."""
    wanted = 0
    for move in across:
        wanted |= move.need >> size << size
    found: list[Move] = []
    rest = inside
    while True:
        added = [move for move in rest if move.mask & wanted]
        if not added:
            return found
        found += added
        rest = [move for move in rest if not move.mask & wanted]
        for move in added:
            wanted |= move.need >> size << size


def _check_order(block: Block) -> None:
    place = {node: index for index, node in enumerate(block.nodes)}
    for producer, consumer in block.edges:
        if place[producer] >= place[consumer]:
            raise ValueError(f"block {block.kind}: {producer} must stand before {consumer}")


def _check_covered(problem: Problem) -> None:
    for block in problem.blocks:
        covered = {node for candidate in block.candidates for _, node in candidate.nodes}
        for seam in problem.seams:
            for side, node in (key for candidate in seam.candidates for key in candidate.nodes):
                if block.kind == (seam.next_kind if side else seam.kind):
                    covered.add(node)
        for node in block.nodes:
            if node not in covered:
                raise NoSchedule(f"fusion: no kernel runs node {node} of block {block.kind}")
