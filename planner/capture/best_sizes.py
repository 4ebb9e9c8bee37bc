"""The best list of so many capture sizes for batches that come as often as they do.

A batch replays the smallest captured size that holds it, so a list cuts the batches, in order, into
runs that share a size. What a run costs depends on the sizes at its two ends alone; hence the best
list of k sizes that ends with a size is the best list of k - 1 sizes that ends with an earlier one,
and the run between them: an exact search over k · S² pairs of sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]
    Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SizeList:
    """Captured sizes, ascending, and what a step costs with them."""

    sizes: tuple[int, ...]
    cost: float
    """Expected over the batches."""


@dataclass(frozen=True, eq=False)
class SizeCosts:
    """What steps cost in every captured size, and without one.

    ``rows`` are what each batch needs of a size; they and ``sizes`` ascend. ``shares`` are how
    often each batch runs; ``captured[i, j]`` is the cost of batch i padded to size j, which counts
    where the size holds it; ``uncaptured[i]`` that of the batch where no captured size does.

    A step of several parts that each replay a size of their own is as many batches.
    """

    rows: tuple[int, ...]
    shares: Array
    sizes: tuple[int, ...]
    captured: Array
    uncaptured: Array

    @cached_property
    def _first(self) -> Places:
        """The place of the smallest size that holds each batch."""
        import numpy as np

        return np.searchsorted(np.array(self.sizes), np.array(self.rows))

    def among(self, sizes: Sequence[int]) -> SizeCosts:
        """The same costs of some of the sizes, which ascend."""
        import numpy as np

        places = np.searchsorted(np.array(self.sizes), np.array(sizes))
        return replace(self, sizes=tuple(sizes), captured=self.captured[:, places])

    def cost(self, sizes: Sequence[int]) -> float:
        """The expected cost of a step with a list of sizes, all of them among ``self.sizes``."""
        import numpy as np

        places = np.searchsorted(np.array(self.sizes), np.array(sorted(sizes), dtype=np.int64))
        chosen = np.searchsorted(places, self._first)
        held = chosen < len(places)
        rows = np.flatnonzero(held)
        paid = self.uncaptured.copy()
        if len(rows):
            paid[rows] = self.captured[rows, places[chosen[rows]]]
        return float(self.shares @ paid)

    @cached_property
    def _runs(self) -> Array:
        """Cost of the batches above the size before (the first row: above nothing) up to each."""
        import numpy as np

        count = len(self.sizes)
        sums = np.zeros((count + 1, count))
        fits = self._first[:, None] <= np.arange(count)
        paid = np.where(fits, self.captured, 0.0) * self.shares[:, None]
        held = self._first < count
        np.add.at(sums, self._first[held] + 1, paid[held])
        above = np.cumsum(sums, axis=0)
        found: Array = np.diagonal(above[1:])[None, :] - above
        return np.where(np.arange(-1, count)[:, None] < np.arange(count), found, np.inf)

    @cached_property
    def _rest(self) -> Array:
        """Cost of the batches above each size, from none on: they run without a graph."""
        import numpy as np

        paid = np.zeros(len(self.sizes) + 1)
        np.add.at(paid, self._first, self.uncaptured * self.shares)
        found: Array = np.cumsum(paid[::-1])[::-1]
        return found

    def best(self, most: int, *, whole: bool = False) -> Iterator[SizeList]:
        """The best lists of at most 0, 1, … ``most`` sizes, but for those that gain nothing.

        Only lists that hold every batch where ``whole``. Of lists that cost the same the one whose
        largest size is smallest.
        """
        import numpy as np

        best, least = SizeList((), self.cost(())), 0
        if whole:
            best, least = SizeList((), np.inf), int(self._first[-1])
        else:
            yield best
        if least == len(self.sizes):
            return
        reached: Array = np.full(len(self.sizes), np.inf)
        before: list[Places] = []
        for number in range(1, min(most, len(self.sizes)) + 1):
            origin: Places = np.zeros(len(self.sizes), dtype=np.int64)
            if number == 1:
                reached = self._runs[0]
            else:
                each = reached[:, None] + self._runs[1:]
                origin = each.argmin(axis=0)
                reached = each[origin, np.arange(len(self.sizes))]
            before.append(origin)
            last = least + int((reached + self._rest[1:])[least:].argmin())
            sizes = self._back(before, last)
            found = SizeList(sizes, self.cost(sizes))
            if found.cost < best.cost * (1 - _SAME):
                best = found
                yield best

    def _back(self, before: Sequence[Places], last: int) -> tuple[int, ...]:
        """The list that ends with a size, from where each of its sizes came."""
        places = [last]
        for origin in reversed(before[1:]):
            places.append(int(origin[places[-1]]))
        return tuple(self.sizes[place] for place in reversed(places))


_SAME = 1e-12
"""Sums in another order differ by less."""
