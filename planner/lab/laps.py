"""Passes over the parts, and which of them count.

A virtual machine's pace changes within a minute by more than the models are off: neighbours take
bandwidth of its memory and clock of its cores, often in two states a fifth apart. Products of
constant size, timed all through a lap, tell the laps that saw one and the same pace. The largest
group of such laps counts, for parts and step alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from planner.lab.journal import SAMPLES, Point
from planner.lab.timing import summary

WANTED = 4
"""Laps of one pace, after which the lab is done."""
MOST = 10
LEAST = 2
"""With fewer laps of one pace the lab refuses to report."""
SENTINEL = "sentinel"
_STEADY = 1.1
"""Longest over shortest time of one product within a lap of one pace."""
_ALIKE = 1.07
"""How far the products of two laps of one pace may be apart, as a ratio."""
_Times = dict[str, list[float]]


def _sentinels(points: Iterable[Point]) -> dict[int, _Times]:
    """Times of the sentinels by lap and what bounds them."""
    found: dict[int, _Times] = {}
    for point in points:
        if point.kind == SENTINEL:
            lap = found.setdefault(point.lap, {})
            lap.setdefault(point.sizes["bound"], []).append(point.values["median_s"])
    return found


def steady(points: Iterable[Point]) -> frozenset[int]:
    """The largest group of laps of one pace; of two as large the faster."""
    paces = {
        lap: {bound: median(each) for bound, each in times.items()}
        for lap, times in _sentinels(points).items()
        if all(max(each) <= _STEADY * min(each) for each in times.values())
    }
    groups = [
        (len(group := _alike(pace, paces)), -sum(pace.values()), group) for pace in paces.values()
    ]
    return max(groups)[-1] if groups else frozenset()


def _alike(pace: dict[str, float], paces: dict[int, dict[str, float]]) -> frozenset[int]:
    return frozenset(
        lap
        for lap, other in paces.items()
        if all(1 / _ALIKE <= other[bound] / time_s <= _ALIKE for bound, time_s in pace.items())
    )


def drift(points: Iterable[Point]) -> float:
    """How much longer the slowest sentinel took than the fastest of its kind, as a share."""
    every: _Times = {}
    for times in _sentinels(points).values():
        for bound, each in times.items():
            every.setdefault(bound, []).extend(each)
    return max((max(each) / min(each) - 1 for each in every.values()), default=0.0)


def pooled(points: Iterable[Point]) -> tuple[Point, ...]:
    """One point for those that several laps measured, in the order of the first.

    Only laps of one pace count, where they measured it. Times are medians over the laps;
    samples are laid together, and their median and spread are those of all.
    """
    every = tuple(points)
    good = steady(every)
    laps: dict[str, list[Point]] = {}
    for point in every:
        laps.setdefault(replace(point, lap=0).key, []).append(point)
    return tuple(_pool(_chosen(same, good)) for same in laps.values())


def _chosen(same: list[Point], good: frozenset[int]) -> list[Point]:
    chosen = [point for point in same if point.lap in good] if len(good) >= LEAST else []
    return chosen or same


def _pool(same: list[Point]) -> Point:
    first = same[0]
    found = dict(_joined(first.values, same))
    if SAMPLES in found:
        found |= asdict(summary(found[SAMPLES]))
    return Point(first.kind, first.sizes, found)


def _joined(names: Iterable[str], same: list[Point]) -> Iterator[tuple[str, Any]]:
    for name in names:
        each = [point.values[name] for point in same]
        if name == SAMPLES:
            yield name, [sample for samples in each for sample in samples]
        else:
            yield name, sum(each) if name == "count" else median(each)
