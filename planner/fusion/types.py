"""The words of the fusion search: blocks, seams, candidates, prices, schedules and its refusals."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property

from planner.errors import PlannerError
from planner.records import dataclass

NodeKey = tuple[int, str]
"""(0, id) is a node of this block, (1, id) one of the next block."""

Pair = tuple[str, str | None]
"""A kind of block and the kind that follows it; None after the last block."""

Edge = tuple[str, str]
"""(producer, consumer), both by node id."""


@dataclass(frozen=True)
class Price:
    """What one kernel costs. ``inf`` in a time marks a kernel that cannot run."""

    uncovered: int
    """How many of its nodes stay unfused though an engine rule covers them; compared first."""
    launch_s: float
    """Time the host spends to launch it."""
    device_s: float
    """Time the device spends on it."""

    def __post_init__(self) -> None:
        """Refuse negative and undefined prices: they are bugs of a cost model."""
        if not (self.uncovered >= 0 and self.launch_s >= 0 and self.device_s >= 0):
            raise ValueError(f"a kernel has the impossible price {self}")


UNPRICED = Price(0, 0.0, 0.0)
"""Of a candidate whose price comes with each search."""


@dataclass(frozen=True)
class Candidate:
    """One kernel that could run: the nodes it covers and its price."""

    name: str
    nodes: frozenset[NodeKey]
    price: Price
    id: int = -1
    """The caller's own index; the search only hands it back."""


@dataclass(frozen=True)
class Block:
    """One kind of block."""

    kind: str
    nodes: tuple[str, ...]
    """In topological order."""
    edges: frozenset[Edge]
    """Between nodes of this block."""
    candidates: tuple[Candidate, ...]
    """Kernels inside this block: all their nodes are (0, id)."""


@dataclass(frozen=True)
class Seam:
    """Where a block of one kind meets a following block of another kind or its own."""

    kind: str
    next_kind: str
    edges: frozenset[Edge]
    """The producer is a node of this block, the consumer one of the next."""
    candidates: tuple[Candidate, ...] = ()
    """Kernels that cover some nodes of both blocks."""


@dataclass(frozen=True)
class Problem:
    """A whole model: its sequence of blocks, and every kernel that could run in it."""

    sequence: tuple[tuple[str, int], ...]
    """(kind, times) in the order of execution."""
    blocks: tuple[Block, ...]
    seams: tuple[Seam, ...]
    """One for each two kinds that meet in the sequence."""

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every candidate, those of blocks first; its place here is its slot."""
        owners: tuple[Block | Seam, ...] = (*self.blocks, *self.seams)
        return tuple(candidate for owner in owners for candidate in owner.candidates)

    @cached_property
    def passes(self) -> tuple[tuple[Pair, int], ...]:
        """The sequence as runs of (kind, next kind): 80 layers are 79 inner ones and a last one."""
        found: list[tuple[Pair, int]] = []
        following = [kind for kind, _ in self.sequence[1:]]
        for (kind, times), next_kind in zip(self.sequence, [*following, None], strict=True):
            if times > 1:
                found.append(((kind, kind), times - 1))
            found.append(((kind, next_kind), 1))
        return tuple(found)

    @cached_property
    def shape(self) -> Hashable:
        """All that the state graphs depend on: neither prices nor names nor how often kinds repeat.

        Equal shapes may share one ``Space``; use this as the key of a cache.
        """
        blocks = tuple((b.kind, b.nodes, b.edges, _node_sets(b)) for b in self.blocks)
        seams = tuple((s.kind, s.next_kind, s.edges, _node_sets(s)) for s in self.seams)
        return _interned((tuple(pair for pair, _ in self.passes), blocks, seams))


_shapes: dict[Hashable, Hashable] = {}
_SHAPES_MOST = 512


def _interned(shape: Hashable) -> Hashable:
    """The first of equal shapes: to see that two are the same takes longer than a search."""
    if len(_shapes) >= _SHAPES_MOST:
        _shapes.clear()
    return _shapes.setdefault(shape, shape)


def _node_sets(owner: Block | Seam) -> tuple[frozenset[NodeKey], ...]:
    return tuple(candidate.nodes for candidate in owner.candidates)


@dataclass(frozen=True)
class Launch:
    """One kernel of a schedule."""

    candidate: Candidate
    ahead: bool = False
    """True: its (0, id) nodes lie in the next block, run early for a kernel across the seam."""


@dataclass(frozen=True)
class Run:
    """Equal neighbouring blocks that run the same kernels in the same order."""

    kind: str
    times: int
    launches: tuple[Launch, ...]
    """In order. A kernel across a seam stands with the block it starts in."""


@dataclass(frozen=True)
class Total:
    """What a whole schedule costs."""

    uncovered: int
    time_s: float


@dataclass(frozen=True)
class Schedule:
    """The cheapest way to run the model."""

    total: Total
    runs: tuple[Run, ...]
    least: Total | None = None
    """No schedule costs less; None where ``total`` is the least cost itself."""

    @property
    def gap_s(self) -> float:
        """By how much the cheapest schedule could be quicker at most."""
        if self.least is None:
            return 0.0
        if self.least.uncovered < self.total.uncovered:
            return self.total.time_s
        return max(0.0, self.total.time_s - self.least.time_s)


class SearchTooLarge(PlannerError):  # noqa: N818 – reads as what happened
    """The exact search would need more states or labels than allowed."""

    def __init__(self, window: str, count: int, limit: int, what: str = "states") -> None:
        self.window = window
        self.count = count
        self.limit = limit
        super().__init__(
            f"fusion search: window {window} needs {count} {what} or more, the limit is {limit} "
            "(use fewer rules, or raise the limit)"
        )


class NoSchedule(PlannerError):  # noqa: N818 – reads as what happened
    """No order of the given kernels runs every node."""
