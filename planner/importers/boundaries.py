"""Where one step of a trace ends and the next begins, told by kernels that run once a step.

Of the kernels whose names belong to the end of a step (sampling, LM head) or to its start
(embedding), the rarest counts between whose calls mostly the same kernels run; where no name says
so, the rarest of all. A first and a last step may be cut off, and steps of another kind may lie
between.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate, pairwise
from statistics import median

from planner.importers.trace import Span

_START = re.compile(r"(?i)vectorized_gather|indexselect|(?<!rotary_)embedding")
ENDS_STEP = re.compile(r"(?i)argmax|multinomial|top_?k|top_?p|sampl|lm_?head|logits")
"""Names of kernels that run at the end of a step."""
_ALIKE = 0.5
"""The share of stretches that must hold the same kernels."""
_FOLLOW = 8
"""Most kernels after the sampler that still belong to its step: copies of ids."""


@dataclass(frozen=True)
class Boundary:
    """A way to cut a trace."""

    cuts: tuple[int, ...]
    """Positions of kernels that open a step."""
    found_by: str


def by_name(spans: Sequence[Span]) -> Boundary | None:
    """Where a device's kernels, in order of their starts, are cut by what their names say.

    A kernel that opens a step is cut before it, one that ends it after it and the few kernels that
    follow until the longest pause. None where no name tells.
    """
    found = _rarest(spans, lambda name: bool(_START.search(name) or ENDS_STEP.search(name)), 2)
    if found is None:
        return None
    name, at = found
    if _START.search(name):
        return Boundary(tuple(at), f"{name}, which opens a step")
    return _after(spans, at, _FOLLOW, f"{name}, which runs once at the end of a step")


def by_rhythm(spans: Sequence[Span]) -> Boundary | None:
    """Where they are cut by the rarest kernel that comes regularly, at the longest pause."""
    found = _rarest(spans, lambda _: True, 3)
    if found is None:
        return None
    name, at = found
    return _after(spans, at, len(spans), f"{name}, the rarest that comes regularly")


def _rarest(
    spans: Sequence[Span], wanted: Callable[[str], bool], least: int
) -> tuple[str, list[int]] | None:
    """The rarest kernel wanted that ran ``least`` times, stretches between alike; its places."""
    places: dict[str, list[int]] = {}
    for position, one in enumerate(spans):
        places.setdefault(one.name, []).append(position)
    marks = {name: _mark(name) for name in places}
    sums = list(accumulate((marks[one.name] for one in spans), initial=0))
    for name in sorted(places, key=lambda name: (len(places[name]), not _START.search(name))):
        at = places[name]
        if len(at) >= least and wanted(name) and _regular(sums, at):
            return name, at
    return None


def _mark(name: str) -> int:
    """A number for a name, so that sums of them tell which kernels ran, in any order."""
    return int.from_bytes(blake2b(name.encode("utf-8", "replace"), digest_size=16).digest())


def _regular(sums: Sequence[int], at: Sequence[int]) -> bool:
    """Whether the same kernels ran, as often, in most stretches between places."""
    stretches = Counter(sums[end] - sums[begin] for begin, end in pairwise(at))
    return max(stretches.values()) >= _ALIKE * stretches.total()


def _after(spans: Sequence[Span], at: Sequence[int], most: int, words: str) -> Boundary:
    pause = _longest_pause(spans, at, most)
    last = [*at[1:], len(spans)]
    cuts = (min(begin + 1 + pause, end) for begin, end in zip(at, last, strict=True))
    return Boundary(tuple(cut for cut in cuts if cut < len(spans)), words)


def _longest_pause(spans: Sequence[Span], at: Sequence[int], most: int) -> int:
    """How many kernels after the anchor the longest pause lies, by its median."""
    shortest = min(end - begin for begin, end in pairwise(at))
    pauses = [list(_pauses(spans[begin : end + 1])) for begin, end in pairwise(at)]
    return max(
        range(min(most, shortest)), key=lambda after: median(pause[after] for pause in pauses)
    )


def _pauses(spans: Sequence[Span]) -> Iterator[float]:
    """The idle time before each kernel but the first."""
    end = spans[0].end_s
    for one in spans[1:]:
        yield one.start_s - end
        end = max(end, one.end_s)
