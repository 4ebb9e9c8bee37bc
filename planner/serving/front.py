"""Pareto fronts: what nothing else beats in two things at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def front(things: Iterable[T], first: Callable[[T], float], then: Callable[[T], float]) -> list[T]:
    """Those that no other is as good as in both and better in one; less is better, ``first``
    first. Of equals one is kept.
    """
    found: list[T] = []
    for thing in sorted(things, key=lambda each: (first(each), then(each))):
        if not found or then(thing) < then(found[-1]):
            found.append(thing)
    return found
