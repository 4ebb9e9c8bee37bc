"""The batch sizes an engine captures, and the one a batch is padded to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from planner.errors import UsageError
from planner.spec.expr import whole
from planner.spec.types import CaptureSizes

MOST_SIZES = 65_536
"""A rule that gives more is a slip in a flag or in the catalogue: no engine captures as many."""


def expand(rule: CaptureSizes, flags: Mapping[str, int], multiple: int = 1) -> tuple[int, ...]:
    """The sizes a rule gives under whole-numbered flags, ascending, each once, none above its cap;
    rounded up to a multiple.

    Raises ExpressionError where an expression names no flag or comes to nothing positive, and
    UsageError for a rule that gives more than `MOST_SIZES`.
    """
    cap = whole(rule.cap, flags)
    names = {**flags, "cap": cap}
    ranges = [_range(rule, index, names) for index in range(len(rule.ranges))]
    if sum(len(sizes) for sizes in ranges) > MOST_SIZES:
        raise UsageError(
            f"a largest captured batch of {cap} makes more than {MOST_SIZES} graphs",
            "set the flag that caps captured sizes lower",
        )
    found = {size for size in rule.sizes if size <= cap}
    found.update(*ranges)
    found.update(_powers_of_two(rule.powers_of_two_from, cap))
    found.update(size for size in (whole(each, names) for each in rule.extra) if size <= cap)
    rounded = {-(-size // multiple) * multiple for size in found}
    return tuple(sorted(size for size in rounded if multiple == 1 or size <= cap))


def padded(size: int, sizes: Sequence[int]) -> int | None:
    """The smallest captured size that holds ``size``; None above the largest. ``sizes`` ascend."""
    place = bisect_left(sizes, size)
    return sizes[place] if place < len(sizes) else None


def _range(rule: CaptureSizes, index: int, names: Mapping[str, int]) -> range:
    given = rule.ranges[index]
    last = min(whole(given.last, names), names["cap"])
    return range(whole(given.first, names), last + 1, given.step)


def _powers_of_two(least: int | None, cap: int) -> Iterator[int]:
    if least is None:
        return
    power = 1 << (least - 1).bit_length()
    while power <= cap:
        yield power
        power *= 2
