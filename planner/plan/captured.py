"""Which batch sizes to capture: the engine's own lists and the best ones, for batches as they come.

Every batch is priced in every size that could hold it, as the planner prices a step padded so far
(`planner.plan.captured_steps`); `planner.capture.best_sizes` finds the best lists among those
sizes. These are what the batches need, the sizes of the engine's list, and an even grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from planner.capture.best_sizes import SizeCosts
from planner.capture.decide import Offers, offers
from planner.capture.sizes import padded
from planner.capture.types import MODE_WORDS, MODES
from planner.cost.engine import Engine
from planner.errors import SpecError, UsageError
from planner.plan.captured_steps import Parts
from planner.plan.captured_types import CaptureList, CaptureSearch
from planner.plan.load import decode, drafted, step_load
from planner.plan.memory import changed
from planner.plan.prepare import Prepared, prepare
from planner.spec.conditions import first
from planner.spec.question import Question

MOST_SIZES = 64
"""Graphs that a list holds at most: engines capture about as many."""


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
        return prepare(self.question, decode(self.batches[-1], self.context, self.drafts))

    @cached_property
    def parts(self) -> Parts:
        return Parts(self.prepared, self.weights, self.context)

    @cached_property
    def batches(self) -> tuple[int, ...]:
        return tuple(self.weights)

    @cached_property
    def drafts(self) -> int:
        return drafted(self.question.deployment)

    @cached_property
    def context(self) -> int:
        step = step_load(self.question.deployment)
        if step.kind != "decode":
            raise UsageError("captured sizes are of decode steps", "give step.decode or a workload")
        return int(step.load.groups[0].kv_tokens) - self.drafts

    @cached_property
    def engine(self) -> Engine:
        return self.prepared.engine("decode")

    @cached_property
    def offers(self) -> Offers:
        found = self.parts.main.offers
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
            found = offers(prepare(other, decode(1, self.context, self.drafts)).engine("decode"))
        except SpecError:
            return None
        return found if found.wanted != "none" and found.sizes else None

    def _known(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Those of an engine's sizes that hold a batch or are passed over by all."""
        last = padded(self.parts.largest, sizes) or self.parts.largest
        return tuple(size for size in sizes if size <= last)

    @cached_property
    def own(self) -> tuple[int, ...]:
        """Sizes that a list of ours may hold."""
        return tuple(sorted({*self.parts.sizes, *self._known(self.offers.sizes)}))

    @cached_property
    def costs(self) -> SizeCosts:
        """Every batch in every size, priced: those of a list of ours and of other versions'."""
        others = (self._known(each.sizes) for each in self.lists.values())
        exact = (rows for part in self.parts.all for rows in part.rows)
        return self.parts.costs(sorted({*self.own, *exact}.union(*others)))

    @cached_property
    def exact_s(self) -> float:
        return self.costs.cost(sorted(set(self.costs.rows)))

    def named(
        self, name: str, sizes: tuple[int, ...], offered: Offers | None = None
    ) -> CaptureList:
        """A list of ours, or of what a version offers, with what it costs."""
        graphs, unit = self.parts.graphs(sizes, offered), (offered or self.offers).unit
        step_s = self.costs.cost(self._known(sizes))
        rows = padding = lost = 0.0
        for needed, weight in zip(self.parts.main.rows, self.weights.values(), strict=True):
            size = padded(needed, sizes)
            if size is None:
                lost += weight
            else:
                rows, padding = rows + weight * needed, padding + weight * (size - needed)
        rules, facts = self.engine.spec.capture, self.engine.as_asked.facts
        each, times = first(rules.graph_memory, facts), first(rules.graph_time, facts)
        return CaptureList(
            name,
            tuple(size // unit for size in sizes),
            graphs,
            step_s,
            step_s / self.exact_s - 1,
            padding / rows if rows else 0.0,
            lost / sum(self.weights.values()),
            each.value * graphs if each else None,
            times.value * graphs if times else None,
        )

    def answer(self, graphs: int | None) -> CaptureSearch:
        """All lists, and the chosen one."""
        title, offered, deployment = self.engine.spec.title, self.offers, self.question.deployment
        default = self.named(f"{title} {self.engine.version}", offered.sizes, offered)
        found = [
            self.named(f"best {len(each.sizes)}", each.sizes)
            for each in self.costs.among(self.own).best(graphs or MOST_SIZES, whole=True)
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
            deployment.parallel.pipeline,
            self.drafts,
            self.question.draft.model.title if self.question.draft else None,
            len(self.batches),
            self.batches[0],
            self.batches[-1],
            self.exact_s,
            self.costs.cost(()),
            default,
            tuple(
                self.named(f"{title} {name}", each.sizes, each) for name, each in self.lists.items()
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
            needs = zip(self.batches, self.parts.main.rows, strict=True)
            above = min(batch for batch, rows in needs if rows > self.offers.sizes[-1])
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
