"""Partitions of a whole model into kernels, order left aside: the cheapest, or a bound of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from planner.fusion.cover import Cover, Level, Room, cover_of, moves_to
from planner.fusion.objective import IMPOSSIBLE, seconds, ticks
from planner.fusion.types import NoSchedule, Pair, Price, Problem, SearchTooLarge, Total
from planner.fusion.windows import Window, boundary_states
from planner.fusion.worth import Kernels, worths

FIRST_WIDTHS = (8, 64, 512)
"""Partial partitions kept at a node while a first partition is looked for."""
AGAIN_WIDTH = 16
"""The same, where kernels that wait for each other are left out."""
MOST_ENTRIES = 512
"""Boundary states up to which blocks are bounded one by one."""

Weights = tuple[int, int]
"""How often launch and device times count."""
Covers = Mapping[Pair, tuple[Cover, list[int]]]
Found = tuple[int, list[list[int]]]
"""A cost and the slots of each block that make it."""


@dataclass(frozen=True, eq=False)
class Relaxed:
    """A problem under one sum of times."""

    problem: Problem
    windows: dict[Pair, Window]
    prices: Sequence[Price]
    weights: Weights
    most_kept: int
    """Partial partitions kept in all when the bound is proven."""
    loop: bool = False
    """Whether launches and kernels overlap."""

    @cached_property
    def pairs(self) -> list[Pair]:
        """Each block in order."""
        return [pair for pair, times in self.problem.passes for _ in range(times)]

    @cached_property
    def _ticks(self) -> list[tuple[int, int]]:
        launch, device = self.weights
        found = [ticks(price) for price in self.prices]
        return [(u, launch * host + device * work) for u, host, work in found]

    @cached_property
    def _bits(self) -> int:
        """Above so many bits of a cost stands ``uncovered``: no schedule lasts longer."""
        often = self._often
        return sum(n * time for n, (_, time) in zip(often, self._ticks, strict=True)).bit_length()

    @cached_property
    def usable(self) -> list[bool]:
        """Whether each slot can run."""
        return [uncovered < IMPOSSIBLE for uncovered, _ in self._ticks]

    @cached_property
    def costs(self) -> list[int]:
        """Of each slot, ``uncovered`` above the bits of the time."""
        return [(uncovered << self._bits) + time for uncovered, time in self._ticks]

    @cached_property
    def _often(self) -> list[int]:
        """How often each slot could run."""
        kinds, seams = self._times, Counter(self.pairs)
        found = [kinds[block.kind] for block in self.problem.blocks for _ in block.candidates]
        for seam in self.problem.seams:
            found += [seams[seam.kind, seam.next_kind]] * len(seam.candidates)
        return found

    @cached_property
    def _times(self) -> dict[str, int]:
        """How often each kind runs."""
        found = dict.fromkeys((block.kind for block in self.problem.blocks), 0)
        for kind, times in self.problem.sequence:
            found[kind] += times
        return found

    @cached_property
    def _kinds(self) -> list[tuple[str, str]]:
        """The kinds of block that (0, ·) and (1, ·) of each slot's nodes are of."""
        found = [(b.kind, b.kind) for b in self.problem.blocks for _ in b.candidates]
        return found + [(s.kind, s.next_kind) for s in self.problem.seams for _ in s.candidates]

    @cached_property
    def _worth(self) -> tuple[int, list[int]]:
        """The worth of all nodes, and what each slot costs beyond its own."""
        place = {
            (block.kind, node): number
            for number, (block, node) in enumerate(
                (block, node) for block in self.problem.blocks for node in block.nodes
            )
        }
        nodes = [
            [place[kinds[side], node] for side, node in candidate.nodes]
            for candidate, kinds in zip(self.problem.candidates, self._kinds, strict=True)
        ]
        times = [self._times[kind] for kind, _ in place]
        used = [n for n, usable in enumerate(self.usable) if usable]
        worth = worths(
            Kernels(
                [self.costs[n] for n in used],
                [nodes[n] for n in used],
                [self._often[n] for n in used],
                times,
            )
        )
        whole = sum(n * value for n, value in zip(times, worth, strict=True))
        covered = [sum(worth[node] for node in each) for each in nodes]
        return whole, [cost - less for cost, less in zip(self.costs, covered, strict=True)]

    @cached_property
    def _covers(self) -> Covers:
        return self._covers_of(self.usable)

    def _covers_of(self, usable: Sequence[bool]) -> Covers:
        """The cover of each window, and what its moves cost beyond their worth."""
        beyond = self._worth[1]
        return {
            pair: (cover_of(window, usable), [beyond[move.slot] for move in window.moves])
            for pair, window in self.windows.items()
        }

    def without(self, slots: Collection[int], below: int) -> list[list[int]] | None:
        """The slots of a partition that costs less and does without some; None where none was
        found.
        """
        usable = [may and slot not in slots for slot, may in enumerate(self.usable)]
        limit = below - 1 - self._worth[0]
        found, _ = self._chain(AGAIN_WIDTH, self._none, limit, self._covers_of(usable))
        return found[1] if found else None

    @cached_property
    def _none(self) -> dict[Pair, int]:
        return dict.fromkeys(self.windows, 0)

    def solve(self) -> tuple[int, list[list[int]]]:
        """A bound of all schedules' cost, and the slots of a cheap partition for each block.

        Raises NoSchedule where there is none, SearchTooLarge where none was found.
        """
        least, chosen = self._first()
        if least:
            floors = self._floors(least) if len(self.pairs) > 1 else self._none
            found, dropped = self._chain(self._width, floors, least, self._covers)
            least, chosen = found or (least, chosen)
            least = min(least, *dropped) if dropped else least
        return self._worth[0] + least, chosen

    def _first(self) -> Found:
        """Some good partition."""
        for width in FIRST_WIDTHS:
            found, dropped = self._chain(width, self._none, None, self._covers)
            if found is not None:
                return found
            if not dropped:
                raise NoSchedule("fusion: the kernels given cannot complete the model")
        raise SearchTooLarge("of the whole model", width + 1, width, "partitions")

    @cached_property
    def _width(self) -> int:
        return self.most_kept // sum(self.windows[pair].size for pair in self.pairs) + 1

    def cost(self, payloads: Iterable[Iterable[int]]) -> int:
        """What the launches of all blocks cost, as this sum counts."""
        return sum(self.costs[max(each, ~each)] for launched in payloads for each in launched)

    def _floors(self, limit: int) -> dict[Pair, int]:
        """What a block costs beyond its worth at least, whatever was done before."""
        before: dict[Pair, set[int]] = {self.pairs[0]: {0}}
        for pair, after in set(pairwise(self.pairs)):
            states = boundary_states(self.windows[pair], MOST_ENTRIES, self.usable)
            if states is None:
                return dict.fromkeys(self.windows, 0)
            before.setdefault(after, set()).update(states)
        times = Counter(self.pairs)
        floors = dict.fromkeys(self.windows, 0)
        for pair, often in times.most_common():
            # A schedule that beats the limit has a block of this pair no dearer than the mean.
            others = sum(floors[each] * n for each, n in times.items())
            floors[pair] = self._floor(pair, before[pair], max(0, limit - others) // often)
        return floors

    def _floor(self, pair: Pair, entries: set[int], limit: int) -> int:
        cover, beyond = self._covers[pair]
        room = Room(self._width, limit)
        last = cover.levels(dict.fromkeys(entries, 0), beyond, room)[-1]
        least = min((cost for cost, _, _ in last.values()), default=limit)
        return least if room.dropped is None else min(least, room.dropped)

    def _chain(
        self, width: int, floors: Mapping[Pair, int], limit: int | None, covers: Covers
    ) -> tuple[Found | None, list[int]]:
        """The cheapest partition found, and bounds of what was dropped for want of room."""
        rest = sum(floors[pair] for pair in self.pairs)
        levels: list[list[Level]] = []
        dropped: list[int] = []
        row = {0: 0}
        for pair in self.pairs:
            rest -= floors[pair]
            room = Room(width, None if limit is None else limit - rest)
            cover, beyond = covers[pair]
            levels.append(cover.levels(row, beyond, room))
            row = {out: cost for out, (cost, _, _) in levels[-1][-1].items()}
            dropped += [] if room.dropped is None else [room.dropped + rest]
        return (self._read(row, levels) if row else None), dropped

    def _read(self, row: dict[int, int], levels: list[list[Level]]) -> Found:
        """The least end, and the way there."""
        state = min(row, key=lambda out: row[out])
        least, chosen = row[state], []
        for pair, each in zip(reversed(self.pairs), reversed(levels), strict=True):
            ran, state = moves_to(each, state)
            moves = self.windows[pair].moves
            chosen.append([moves[move].slot for move in ran])
        return least, chosen[::-1]

    def total(self, cost: int, times: int) -> Total:
        """A bound of schedules of which so many last at least as long as the sum, and the ends."""
        time = cost & ((1 << self._bits) - 1)
        return Total(cost >> self._bits, seconds(time + self.ends) / times)

    @cached_property
    def ends(self) -> int:
        """Of a launch loop: nothing is at work during the first launch, the host has none left
        during the last kernel.
        """
        if not self.loop:
            return 0
        run = [each for each in map(ticks, self.prices) if each[0] < IMPOSSIBLE]
        first = min((launch for _, launch, device in run if device), default=0)
        last = min((device for _, launch, device in run if launch), default=0)
        return self.weights[1] * first + self.weights[0] * last
