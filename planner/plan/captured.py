"""Which batch sizes to capture: the engine's own lists and the best ones, for batches as they come.

Every batch is priced in every size that could hold it, as the planner prices a step padded so far;
`planner.capture.best_sizes` finds the best lists among those sizes. These are the batches
themselves, all sizes of the engine's lists, and the batches' even grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from planner.capture.best_sizes import SizeCosts
from planner.capture.decide import Offer, Offers, offers
from planner.capture.sizes import padded
from planner.capture.types import MODE_WORDS, MODES, Mode
from planner.cost.engine import Engine
from planner.errors import SpecError, UsageError
from planner.plan.captured_types import CaptureList, CaptureSearch
from planner.plan.load import decode, step_load
from planner.plan.memory import changed
from planner.plan.prepare import Prepared, prepare
from planner.plan.steps import captured_s
from planner.spec.conditions import first
from planner.spec.question import Question

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]
    Places = npt.NDArray[np.int64]

MOST_SIZES = 64
"""Graphs that a list holds at most: engines capture about as many."""
_GRID = 64
MOST_PAIRS = 4_000_000
"""Of a batch and a size: more would take minutes."""


def capture_search(
    question: Question, batches: Mapping[int, float], graphs: int | None = None
) -> CaptureSearch:
    """The best capture sizes of one replica for batches that come as often as their weights.

    ``graphs`` sizes are chosen where asked for. Raises UsageError where steps of the deployment
    aren't captured, and where there is too much to price.
    """
    return _Search(question, dict(sorted(batches.items()))).answer(graphs)


@dataclass(eq=False)
class _Search:
    question: Question
    weights: dict[int, float]

    @cached_property
    def prepared(self) -> Prepared:
        deployment = self.question.deployment
        if deployment.parallel.pipeline > 1 or deployment.speculation:
            raise UsageError("capture sizes are searched without pipelines and without drafts")
        return prepare(self.question, decode(self.batches[-1], self.context))

    @cached_property
    def batches(self) -> tuple[int, ...]:
        return tuple(self.weights)

    @cached_property
    def context(self) -> int:
        step = step_load(self.question.deployment)
        if step.kind != "decode":
            raise UsageError("captured sizes are of decode steps", "give step.decode or a workload")
        return int(step.load.groups[0].kv_tokens)

    @cached_property
    def engine(self) -> Engine:
        return self.prepared.engine("decode")

    @cached_property
    def offers(self) -> Offers:
        found = offers(self.engine)
        if found.wanted == "none" or not found.sizes:
            raise UsageError("the engine captures no decode step with these flags")
        return found

    @cached_property
    def lists(self) -> dict[str, Offers]:
        """What the engine's versions capture; neighbours with the same list under one name."""
        found: list[tuple[str, str, Offers]] = []
        for version in self.question.backend.versions:
            offered = self._offers_of(version)
            if offered and found and found[-1][2].sizes == offered.sizes:
                found[-1] = found[-1][0], version, offered
            elif offered:
                found.append((version, version, offered))
        return {_span(first, last): offered for first, last, offered in found}

    def _offers_of(self, version: str) -> Offers | None:
        try:
            other = changed(self.question, backend={"version": version})
            found = offers(prepare(other, decode(1, self.context)).engine("decode"))
        except SpecError:
            return None
        return found if found.wanted != "none" and found.sizes else None

    @cached_property
    def candidates(self) -> tuple[int, ...]:
        """Sizes that a list may hold, and those of the engine's lists that hold a batch."""
        largest = self.batches[-1]
        step = -(-largest // _GRID)
        found = {*self.batches, *range(step, largest + step, step)}
        for offered in (self.offers, *self.lists.values()):
            last = padded(largest, offered.sizes) or largest
            found.update(size for size in offered.sizes if size <= last)
        return tuple(sorted(found))

    def _mode_of(self, size: int) -> Mode:
        """The best mode, up to the wanted one, that may run at a size."""
        wanted = MODES.index(self.offers.wanted)
        for offer in reversed(self.offers.modes[: wanted + 1]):
            if offer.offered and (offer.mode == "none" or size <= self._most(offer)):
                return offer.mode
        return "none"

    def _most(self, offer: Offer) -> float:
        """The largest size that a mode takes: its list is cut only where it ends early."""
        sizes = offer.sizes or ()
        whole = len(sizes) == len(self.offers.sizes)
        flag = self.engine.whole_flags.get("max_num_seqs", self.offers.sizes[-1])
        return float("inf") if whole else flag

    @cached_property
    def costs(self) -> SizeCosts:
        """Every batch in every size, priced."""
        import numpy as np

        sizes = np.array(self.candidates, dtype=float)
        counts = np.array(self.batches, dtype=float)
        if len(sizes) * len(counts) > MOST_PAIRS:
            pairs = f"{len(counts):,} batches in {len(sizes):,} sizes"
            raise UsageError(f"{pairs} are too many to price", "round the batches")
        modes = np.array([MODES.index(self._mode_of(size)) for size in self.candidates])
        without = self._times_s(counts, np.zeros(len(counts), dtype=int), np.zeros(len(counts)))
        paid = np.tile(without[:, None], (1, len(sizes)))
        pads = self.offers.modes[MODES.index(self.offers.wanted)].pads
        row, column = np.nonzero(
            counts[:, None] <= sizes if pads else counts[:, None] == sizes[None, :]
        )
        paid[row, column] = self._times_s(
            counts[row], modes[column], np.where(modes[column] > 0, sizes[column] - counts[row], 0)
        )
        shares = np.array(list(self.weights.values()), dtype=float)
        return SizeCosts(self.batches, shares / shares.sum(), self.candidates, paid, without)

    def _times_s(self, counts: Array, modes: Places, padding: Array) -> Array:
        step = decode(counts, counts * 0 + self.context)
        return captured_s(self.prepared, step, modes, padding)

    @cached_property
    def exact_s(self) -> float:
        return self.costs.cost(self.batches)

    def named(self, name: str, sizes: tuple[int, ...], graphs: int) -> CaptureList:
        """A list with what it costs."""
        known = tuple(size for size in sizes if size <= self.candidates[-1])
        step_s = self.costs.cost(known)
        rows = padding = lost = total = 0.0
        for batch, weight in self.weights.items():
            size = padded(batch, sizes)
            total += weight
            if size is None:
                lost += weight
            else:
                rows, padding = rows + weight * batch, padding + weight * (size - batch)
        rules, facts = self.engine.spec.capture, self.engine.as_asked.facts
        each, times = first(rules.graph_memory, facts), first(rules.graph_time, facts)
        return CaptureList(
            name,
            sizes,
            graphs,
            step_s,
            step_s / self.exact_s - 1,
            padding / rows if rows else 0.0,
            lost / total,
            each.value * graphs if each else None,
            times.value * graphs if times else None,
        )

    def _graphs(self, sizes: tuple[int, ...]) -> int:
        """Graphs that the engine captures of a list of ours."""
        return sum(
            sum(size <= self._most(each) for size in sizes) for each in _captured(self.offers)
        )

    def answer(self, graphs: int | None) -> CaptureSearch:
        """All lists, and the chosen one."""
        title, offered = self.engine.spec.title, self.offers
        default = self.named(f"{title} {self.engine.version}", offered.sizes, _graphs(offered))
        found = [
            self.named(f"best {len(each.sizes)}", each.sizes, self._graphs(each.sizes))
            for each in self.costs.best(graphs or MOST_SIZES, whole=True)
        ]
        chosen = found[-1]
        if graphs is None:
            limit_s = min(default.step_s * (1 + _SAME), found[-1].step_s * (1 + _NEAR))
            chosen = next((each for each in found if each.step_s <= limit_s), found[-1])
        return CaptureSearch(
            self.question.gpu.title,
            self.question.model.title,
            title,
            self.engine.version,
            MODE_WORDS[self.offers.wanted],
            self.context,
            len(self.batches),
            self.batches[0],
            self.batches[-1],
            self.exact_s,
            self.costs.cost(()),
            default,
            tuple(
                self.named(f"{title} {name}", each.sizes, _graphs(each))
                for name, each in self.lists.items()
            ),
            tuple(found),
            chosen,
            self._paste(chosen.sizes),
            tuple(self._notes(default, chosen)),
        )

    def _paste(self, sizes: tuple[int, ...]) -> str | None:
        rule = first(self.engine.spec.capture.spelling, self.engine.as_asked.facts)
        return rule.text % rule.separator.join(map(str, sizes)) if rule else None

    def _notes(self, default: CaptureList, chosen: CaptureList) -> Iterator[str]:
        last = default.sizes[-1]
        if default.uncaptured_share:
            above = min(batch for batch in self.batches if batch > last)
            yield (
                f"the engine's list ends at {last:,}: {default.uncaptured_share:.1%} of steps hold "
                f"more, from {above:,} on, and run without a graph"
            )
        if (
            self.offers.wanted == "full"
            and self.offers.modes[1].offered
            and chosen.sizes[-1] < last
        ):
            yield (
                f"the same list captures the pieces of steps with prompts: those of more than "
                f"{chosen.sizes[-1]:,} tokens then run without graphs, of more than {last:,} before"
            )
        if not self.offers.modes[MODES.index(self.offers.wanted)].pads:
            yield "padding is off: a batch that is no captured size runs without a graph"


_SAME = 1e-9
_NEAR = 1e-3
"""A thousandth more than the best that many sizes reach is as good."""


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _captured(offered: Offers) -> list[Offer]:
    """The modes that an engine captures graphs for."""
    last = MODES.index(offered.wanted)
    return [each for each in offered.modes[1 : last + 1] if each.offered]


def _graphs(offered: Offers) -> int:
    """Graphs that an engine captures by itself."""
    return sum(len(each.sizes or ()) for each in _captured(offered))
