"""The representative step of a trace: its kernels in order, with the median time of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from planner.importers.boundaries import by_name, by_rhythm
from planner.importers.trace import Span, Steps, kind_of_range
from planner.plan.runs import KernelStep, TracedSteps

_MOSTLY = 0.5
"""The share of steps that must be alike for ranges to be believed."""


@dataclass(frozen=True)
class Found:
    """The steps of a trace as its kernels tell them."""

    traced: TracedSteps | None = None
    walls_s: tuple[float, ...] = ()
    """From the start of a step to the start of the next, both of the commonest kind."""

    def steps(self, named: Steps) -> Steps:
        """Step times: those of named ranges, or else those of kernels."""
        return named if named.times_s else Steps(self.walls_s, named.batch)

    @property
    def note(self) -> str:
        """How steps were found."""
        if self.traced is None:
            return "no step could be told from the kernels"
        count, alike = self.traced.count, self.traced.alike
        share = "" if alike == count else f"; {alike} run the same kernels"
        return f"steps: {count}, by {self.traced.found_by}{share}"


def of_kernels(spans: Iterable[Span], ranges: Sequence[Span] = ()) -> Found:
    """The steps of the device that worked longest.

    Kernels start after the host's range that launched them, or even in the next one: their own
    names come first, ranges second.
    """
    device = _busiest(spans)
    named = by_name(device)
    if named is None and ranges:
        found = _ranged(device, _commonest(ranges), until_next=True)
        if found.traced and found.traced.alike >= _MOSTLY * found.traced.count:
            return found
    cut = named or by_rhythm(device)
    if cut is None:
        return Found()
    edges = [0, *(at for at in cut.cuts if at), len(device)]
    return represented([device[a:b] for a, b in pairwise(edges)], cut.found_by)


def of_ranges(spans: Iterable[Span], ranges: Iterable[Span]) -> Found:
    """The steps of named ranges of one thread; an operator belongs to the range it starts in."""
    ordered = sorted(spans, key=lambda one: one.start_s)
    return _ranged(ordered, _commonest(ranges), until_next=False)


def _ranged(spans: Sequence[Span], ranges: Sequence[Span], *, until_next: bool) -> Found:
    parts: list[list[Span]] = [[] for _ in ranges]
    at = 0
    for one in spans:
        while at + 1 < len(ranges) and one.start_s >= ranges[at + 1].start_s:
            at += 1
        begun = one.start_s >= ranges[at].start_s
        if begun and (until_next or one.start_s < ranges[at].end_s):
            parts[at].append(one)
    return represented(parts, "named ranges") if any(parts) else Found()


def represented(steps: Sequence[Sequence[Span]], found_by: str) -> Found:
    """The commonest step among several (one at least), kernel by kernel.

    First the commonest set of kernels counts, then its commonest order: streams may overlap.
    """
    whole = [step for step in steps if step]
    kinds = [tuple(sorted(_names(step))) for step in whole]
    kind = Counter(kinds).most_common(1)[0][0]
    orders = Counter(_names(step) for step, own in zip(whole, kinds, strict=True) if own == kind)
    order = orders.most_common(1)[0][0]
    alike = [step for step in whole if _names(step) == order]
    walls = tuple(
        b[0].start_s - a[0].start_s for a, b in pairwise(whole) if _names(a) == order == _names(b)
    )
    traced = TracedSteps(
        len(whole),
        len(alike),
        found_by,
        tuple(
            KernelStep(name, median(step[at].length_s for step in alike))
            for at, name in enumerate(order)
        ),
        median(walls) if walls else None,
        median(covered_s(step) for step in alike),
    )
    return Found(traced, walls)


def covered_s(spans: Iterable[Span]) -> float:
    """How long some kernel ran, overlaps counted once."""
    covered, end = 0.0, float("-inf")
    for one in sorted(spans, key=lambda one: one.start_s):
        # from lengths, since differences of clocks from 1970 would round them
        covered += one.length_s if one.start_s >= end else max(0.0, one.end_s - end)
        end = max(end, one.end_s)
    return covered


def _names(step: Sequence[Span]) -> tuple[str, ...]:
    return tuple(one.name for one in step)


def _busiest(spans: Iterable[Span]) -> list[Span]:
    lanes: dict[str, list[Span]] = defaultdict(list)
    for one in spans:
        lanes[one.lane].append(one)
    lane = min(lanes, key=lambda lane: (-sum(one.length_s for one in lanes[lane]), lane))
    return sorted(lanes[lane], key=lambda one: one.start_s)


def _commonest(ranges: Iterable[Span]) -> list[Span]:
    """The ranges of that thread and kind that has the most, in order."""
    kinds: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for one in ranges:
        kinds[one.lane, kind_of_range(one.name)[0]].append(one)
    own = max(kinds.values(), key=len, default=[])
    return sorted(own, key=lambda one: one.start_s)
