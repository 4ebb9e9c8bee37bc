"""The batch sizes an engine captures, from its own rule, and the one a step is padded to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from planner.spec.expr import whole
from planner.spec.types import CaptureSizes


def expand(rule: CaptureSizes, flags: Mapping[str, int]) -> tuple[int, ...]:
    """The sizes a rule gives under whole-number flags, ascending, none above its cap."""
    cap = whole(rule.cap, flags)
    sizes = set(rule.sizes) | {whole(extra, flags) for extra in rule.extra}
    names = {**flags, "cap": cap}
    for span in rule.ranges:
        sizes.update(range(whole(span.first, names), whole(span.last, names) + 1, span.step))
    size = rule.powers_of_two_from
    while size is not None and size <= cap:
        sizes.add(size)
        size *= 2
    return tuple(sorted(size for size in sizes if size <= cap))


def padded(size: int, sizes: tuple[int, ...]) -> int | None:
    """The smallest captured size that holds ``size``, or None above the largest."""
    place = bisect_left(sizes, size)
    return sizes[place] if place < len(sizes) else None
