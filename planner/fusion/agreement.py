"""Two groupings of the same operators compared: which edges lie inside a kernel of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Edge = tuple[str, str]
"""(producer, consumer)."""
Verdict = Literal["both", "ours", "theirs", "neither"]


@dataclass(frozen=True)
class Homes:
    """Where operators run in a compiled program."""

    first: Mapping[str, tuple[int, ...]]
    """By operator: kernels that compute some of it for the first time."""
    again: Mapping[str, tuple[int, ...]]
    """Kernels that only repeat what others computed before: values recomputed, not stored."""


@dataclass(frozen=True)
class Counts:
    """Edges by who fuses them."""

    both: int = 0
    ours: int = 0
    theirs: int = 0
    neither: int = 0

    def __add__(self, other: Counts) -> Counts:
        """Of several models together."""
        both, neither = self.both + other.both, self.neither + other.neither
        return Counts(both, self.ours + other.ours, self.theirs + other.theirs, neither)

    @property
    def precision(self) -> float:
        """The share of our fused edges that theirs fuses; 1 where we fuse none."""
        return _share(self.both, self.both + self.ours)

    @property
    def recall(self) -> float:
        """The share of their fused edges that ours fuses; 1 where they fuse none."""
        return _share(self.both, self.both + self.theirs)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return _share(2 * self.both, 2 * self.both + self.ours + self.theirs)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def homes(kernels: Sequence[Iterable[str]], steps: Mapping[str, Iterable[str]]) -> Homes:
    """Kernels of each operator. ``kernels`` in order, each the steps it computes; ``steps`` by
    operator, those it is made of.
    """
    first: dict[str, tuple[int, ...]] = {}
    again: dict[str, tuple[int, ...]] = {}
    held = [frozenset(kernel) for kernel in kernels]
    for operator, own in steps.items():
        wanted, seen = set(own), set[str]()
        new: list[int] = []
        repeated: list[int] = []
        for number, kernel in enumerate(held):
            found = kernel & wanted
            if found:
                (new if found - seen else repeated).append(number)
                seen |= found
        first[operator], again[operator] = tuple(new), tuple(repeated)
    return Homes(first, again)


def contracted(edges: Iterable[Edge], without: Iterable[str]) -> tuple[Edge, ...]:
    """Edges with some operators left out: who feeds one of them feeds those it feeds."""
    after: dict[str, list[str]] = {}
    for producer, consumer in edges:
        after.setdefault(producer, []).append(consumer)
    gone = set(without)

    def reached(operator: str, seen: set[str]) -> Iterable[str]:
        for consumer in after.get(operator, ()):
            if consumer not in gone:
                yield consumer
            elif consumer not in seen:
                yield from reached(consumer, seen | {consumer})

    return tuple(
        (producer, consumer)
        for producer in after
        if producer not in gone
        for consumer in dict.fromkeys(reached(producer, set()))
    )


def reached(edges: Collection[Edge], start: str, through: Collection[str]) -> set[str]:
    """Operators that one feeds, directly or through some that pass on what they read."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        operator = waiting.pop()
        fed = {consumer for producer, consumer in edges if producer == operator} - found - {start}
        found |= fed
        waiting += [each for each in fed if each in through]
    return found


def judged(
    edges: Iterable[Edge],
    ours: Mapping[str, int],
    theirs: Homes,
    again: Collection[Edge] | None = None,
) -> dict[Edge, Verdict]:
    """Who fuses each edge. ``ours`` is the kernel that each operator is in.

    ``again`` are edges into kernels that we say compute the producer again; with None such edges
    count for nobody, and groupings alone are compared.
    """
    return {edge: _verdict(edge, ours, theirs, again) for edge in edges}


def _verdict(
    edge: Edge, ours: Mapping[str, int], theirs: Homes, again: Collection[Edge] | None
) -> Verdict:
    producer, consumer = edge
    own = ours[producer] == ours[consumer] or (again is not None and edge in again)
    held = set(theirs.first[producer])
    if again is not None:
        held |= set(theirs.again[producer])
    if held & set(theirs.first[consumer]):
        return "both" if own else "theirs"
    return "ours" if own else "neither"


def counted(verdicts: Iterable[Verdict]) -> Counts:
    """How many edges of each verdict."""
    found = Counter(verdicts)
    return Counts(found["both"], found["ours"], found["theirs"], found["neither"])
