"""What captured sizes hold: the parts of a decode step that replay a graph, priced in every size.

In a pipeline a batch is cut into micro-batches, and every stage replays a graph of its own at the
micro-batch's size: padding is paid in all of them. With drafts a step is the one that verifies,
which brings all drafts of every sequence, and the draft model's own, of one token a sequence. Both
replay graphs of the same list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from planner.capture.best_sizes import SizeCosts
from planner.capture.decide import Offer, Offers, offers
from planner.capture.types import MODES, Mode
from planner.errors import UsageError
from planner.num import ceil_div
from planner.plan.load import StepLoad, decode, drafted
from planner.plan.prepare import Prepared
from planner.plan.speculation import drafting
from planner.plan.steps import captured_s

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]
    Places = npt.NDArray[np.int64]

GRID = 64
MOST_PAIRS = 4_000_000
"""Of a batch and a size: more would take minutes."""


@dataclass(frozen=True, eq=False)
class Part:
    """A part of every step: what each batch needs of a size, and how it is priced."""

    prepared: Prepared
    step: StepLoad
    """One step for each batch."""
    times: int
    """How often it runs a step."""
    rows: tuple[int, ...]
    """Tokens that each batch needs of a size as the verifying step counts them."""
    each: int
    """Such tokens for one of its own."""

    @cached_property
    def offers(self) -> Offers:
        """What the engine captures of it."""
        return offers(self.prepared.engine("decode"))

    def mode_of(self, size: int) -> Mode:
        """The best mode, up to the wanted one, that may run at a size."""
        wanted = MODES.index(self.offers.wanted)
        for offer in reversed(self.offers.modes[: wanted + 1]):
            if offer.offered and (offer.mode == "none" or size <= largest(offer) * self.each):
                return offer.mode
        return "none"

    def priced(self, sizes: Sequence[int]) -> tuple[Array, Array]:
        """Seconds a step of every batch in every size, where it fits, and without a graph."""
        import numpy as np

        rows, column_sizes = np.array(self.rows, float), np.array(sizes, float)
        modes = np.array([MODES.index(self.mode_of(size)) for size in sizes])
        every = np.arange(len(rows))
        without = self._times_s(every, np.zeros(len(rows), dtype=int), np.zeros(len(rows)))
        paid = np.tile(without[:, None], (1, len(sizes)))
        pads = self.offers.modes[MODES.index(self.offers.wanted)].pads
        held = rows[:, None] <= column_sizes if pads else rows[:, None] == column_sizes
        row, column = np.nonzero(held)
        padding = np.where(modes[column] > 0, (column_sizes[column] - rows[row]) // self.each, 0.0)
        paid[row, column] = self._times_s(row, modes[column], padding)
        return paid, without

    def _times_s(self, places: Places, modes: Places, padding: Array) -> Array:
        (group,) = self.step.load.groups
        drafts = int(group.new_tokens) - 1
        count, context = group.count[places], group.kv_tokens[places] - drafts
        return self.times * captured_s(
            self.prepared, decode(count, context, drafts), modes, padding
        )


@dataclass(frozen=True, eq=False)
class Parts:
    """All parts of the steps of some batches."""

    prepared: Prepared
    weights: Mapping[int, float]
    """How often each batch runs; batches ascend."""
    context: int

    @cached_property
    def main(self) -> Part:
        """The model's own steps, which verify what was drafted."""
        deployment = self.prepared.question.deployment
        drafts, stages = drafted(deployment), deployment.parallel.pipeline
        rows = tuple(_micro(batch, stages) * (1 + drafts) for batch in self.weights)
        return Part(self.prepared, decode(self._batches, self._contexts, drafts), 1, rows, 1)

    @cached_property
    def draft(self) -> Part | None:
        """The draft model's steps; None where drafting takes none."""
        found = drafting(self.prepared, self._batches, self._contexts)
        if found is None:
            return None
        stages, each = self.prepared.question.deployment.parallel.pipeline, self.main.offers.unit
        rows = tuple(_micro(batch, stages) * each for batch in self.weights)
        return Part(found.prepared, found.step, found.times, rows, each)

    @property
    def all(self) -> Iterator[Part]:
        """Both."""
        yield self.main
        if self.draft:
            yield self.draft

    @cached_property
    def _batches(self) -> Array:
        import numpy as np

        return np.array(list(self.weights), float)

    @cached_property
    def _contexts(self) -> Array:
        return self._batches * 0 + self.context

    @cached_property
    def largest(self) -> int:
        """Tokens of the largest size that is needed."""
        return max(part.rows[-1] for part in self.all)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes that a list of the engine may hold: what batches need, and an even grid."""
        multiple, step = self.main.offers.multiple, -(-self.largest // GRID)
        needed = {*range(step, self.largest + step, step)}.union(*(part.rows for part in self.all))
        return tuple(sorted({-(-size // multiple) * multiple for size in needed}))

    def costs(self, sizes: Sequence[int]) -> SizeCosts:
        """Every part of every batch in every size; ``sizes`` ascend."""
        import numpy as np

        parts = list(self.all)
        pairs = len(parts) * len(self.weights) * len(sizes)
        if pairs > MOST_PAIRS:
            said = f"{len(self.weights):,} batches in {len(sizes):,} sizes"
            raise UsageError(f"{said} are too many to price", "round the batches")
        priced = [part.priced(sizes) for part in parts]
        rows = np.concatenate([part.rows for part in parts])
        order = np.argsort(rows, kind="stable")
        shares = np.array(list(self.weights.values()), float)
        return SizeCosts(
            tuple(rows[order].tolist()),
            np.tile(shares / shares.sum(), len(parts))[order],
            tuple(sizes),
            np.concatenate([captured for captured, _ in priced])[order],
            np.concatenate([without for _, without in priced])[order],
        )

    def graphs(self, sizes: Sequence[int], offered: Offers | None = None) -> int:
        """Graphs that a rank captures of a list: by what its engine offers, or another version of
        it does.
        """
        offered = offered or self.main.offers
        found = sum(size <= largest(each) for each in captured(offered) for size in sizes)
        drafts = captured(self.draft.offers) if self.draft else []
        return found + len(drafts) * len(sizes)


def _micro(batch: int, stages: int) -> int:
    """Sequences of the fullest micro-batch: as many are in flight as there are stages."""
    return int(ceil_div(batch, min(batch, stages)))


def largest(offer: Offer) -> float:
    """The largest size that a mode takes of any list."""
    return float("inf") if offer.most is None else offer.most


def captured(offered: Offers) -> list[Offer]:
    """The modes that an engine captures graphs for."""
    last = MODES.index(offered.wanted)
    return [each for each in offered.modes[1 : last + 1] if each.offered]
