"""Many steps of one deployment as arrays: the formulas of a plan.

A `StepLoad` whose groups hold arrays stands for as many steps. Each row is what `solve_step` says
of it, to the rounding of sums. Rows that share what branches (which phases occur, the capture mode,
the micro-batches of a pipeline, groups too large to run) are priced together, a few thousand at a
time, so that memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner.capture.decide import decide_all, fixed_costs
from planner.capture.layout import Layout
from planner.capture.many import ManyProblem
from planner.capture.regime import Regime, known_regime
from planner.capture.types import MODES
from planner.cost.engine import Engine
from planner.errors import UsageError
from planner.fusion.limits import limits
from planner.fusion.types import SearchTooLarge
from planner.graph.types import ModelGraph
from planner.num import Number, ceil_div, is_array, minimum
from planner.ops.types import Load, Pairs, SequenceGroup
from planner.plan.layout import routing
from planner.plan.load import StepLoad
from planner.plan.pipeline import CUT, MicroBatches, piped
from planner.plan.prepare import Prepared, prepare
from planner.plan.solve import layout_of, running, solve_step
from planner.plan.step_rows import StepLine, StepRows, fill, step_line
from planner.spec.question import Question

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

CHUNK = 16_384
"""Rows priced at a time: their arrays stay in the cache of one core."""


def step_rows(prepared: Prepared, step: StepLoad, chunk: int = CHUNK) -> StepRows:
    """The steps of a deployment that is laid out, row by row, by the rank with most to do.

    Counts of ``step`` are arrays of floats; its sequences and tokens one replica's.
    """
    found = StepRows.unknown(len(step.load.sequences))
    for places in _structures(step, _chunks(prepared.graph)):
        part = _Alike(prepared, _told_apart(picked(step, places)))
        found.put(places, part.rows(chunk))
    return found


def captured_s(
    prepared: Prepared, step: StepLoad, mode: Number, padding: Number, chunk: int = CHUNK
) -> Array:
    """Times of steps in capture modes of `MODES` and with padding of our choice, row by row.

    Raises UsageError where the steps cannot be priced together.
    """
    return _Alike(prepared, _told_apart(step), (mode, padding)).rows(chunk).step_s


def laid_out(question: Question, step: StepLoad) -> Iterator[tuple[Prepared, Any]]:
    """The question as the engine lays it out, and the rows that are: by the size of their step.

    An engine changes its layout at one size, if at all (`planner.plan.layout.layout_of`).
    """
    import numpy as np

    sizes = step.load.tokens
    distinct, firsts = np.unique(sizes, return_index=True)
    if not len(distinct):
        return

    def of(number: int) -> Prepared:
        return prepare(question, single(step, int(firsts[number])))

    low, high = 0, len(distinct) - 1
    first, last = of(low), of(high)
    if first.layout == last.layout:
        yield first, slice(None)
        return
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if of(middle).layout == first.layout else (low, middle)
    yield first, np.flatnonzero(sizes <= distinct[low])
    yield last, np.flatnonzero(sizes > distinct[low])


def picked(step: StepLoad, places: Any) -> StepLoad:
    """Some rows of many steps."""
    return _each(step, lambda values: values[places])


def single(step: StepLoad, place: int) -> StepLoad:
    """One row of many steps, in whole numbers."""
    return _each(step, lambda values: int(values[place]))


def _each(step: StepLoad, change: Callable[[Any], Number]) -> StepLoad:
    """The steps with their arrays changed."""

    def of(value: Number) -> Number:
        return change(value) if is_array(value) else value

    groups = tuple(
        SequenceGroup(of(g.count), of(g.new_tokens), of(g.kv_tokens), g.verified)
        for g in step.load.groups
    )
    return replace(step, load=Load(groups))


def _chunks(graph: ModelGraph) -> set[int]:
    """Lengths that attention cuts sequences at."""
    pairs = (each for each in graph.symbols if isinstance(each, Pairs))
    return {each.chunk for each in pairs if each.chunk is not None}


def _structures(step: StepLoad, chunks: set[int]) -> Iterator[Any]:
    """Places of rows in which the same groups decode, the same ones began earlier, and cuts at
    ``chunks`` leave the same pieces.
    """
    import numpy as np

    codes = np.zeros(len(step.load.sequences), dtype=np.int64)
    for group in step.load.groups:
        codes = codes * 2 + (group.past_tokens > 0)
    for chunk in (None, *chunks):
        for piece in step.load.within(chunk):
            codes = codes * 3 + minimum(piece.new_tokens * piece.count, 1) + (piece.new_tokens == 1)
    for code in np.unique(codes):
        alike = codes == code
        yield slice(None) if alike.all() else np.flatnonzero(alike)


def _told_apart(step: StepLoad) -> StepLoad:
    """Rows that are alike, with one token where all have one: kernels branch on it."""
    groups = tuple(
        replace(group, new_tokens=1)
        if is_array(group.new_tokens) and (group.new_tokens == 1).all()
        else group
        for group in step.load.groups
    )
    return replace(step, load=Load(groups))


@dataclass(eq=False)
class _Alike:
    """Steps of which the same groups decode and began earlier."""

    prepared: Prepared
    step: StepLoad
    given: tuple[Number, Number] | None = None
    """The capture mode of each row and its padding, where they are not the engine's choice."""

    def rows(self, chunk: int) -> StepRows:
        import numpy as np

        rows = len(self.step.load.sequences)
        found = StepRows.unknown(rows)
        found.mode[:] = self.modes[0]
        left = np.ones(rows, dtype=bool)
        for places in self._together(chunk):
            for won, line in self._priced(places):
                fill(found, places[won], line, won)
                left[places[won]] = False
        if self.given is not None and left.any():
            raise UsageError(
                "the search for fused kernels of this model is too large for many sizes"
            )
        for place in np.flatnonzero(left).tolist():
            fill(found, place, self._alone(place), None)
        return found

    @property
    def _by_itself(self) -> bool:
        """Whether each row must be solved by itself: an encoder runs, or ranks share prompts."""
        begins = any(
            not ((group.past_tokens > 0) & (group.count > 0)).all()
            for group in self.step.load.groups
        )
        shared = self.prepared.layout.prompts > 1 and self.step.kind != "decode"
        return shared or (begins and self.prepared.graph.encoder is not None)

    @cached_property
    def engine(self) -> Engine:
        """The engine as such steps see it."""
        return self.prepared.engine(self.step.kind)

    @cached_property
    def parts(self) -> Array:
        """Micro-batches of each row."""
        stages = self.prepared.question.deployment.parallel.pipeline
        stages = stages if self.step.kind in CUT else 1
        found: Array = minimum(self.step.load.sequences, float(stages))
        return found

    @cached_property
    def part(self) -> StepLoad:
        """One micro-batch of each row."""
        groups = tuple(
            replace(group, count=ceil_div(group.count, self.parts))
            for group in self.step.load.groups
        )
        return replace(self.step, load=Load(groups))

    @cached_property
    def modes(self) -> tuple[Number, Number]:
        """The capture mode of each row, and its padding."""
        return self.given or decide_all(self.engine, self.part.load.tokens)

    @cached_property
    def graph(self) -> ModelGraph:
        """What of the model such steps run."""
        return running(self.prepared.graph.alone, single(self.step, 0).load)

    @cached_property
    def layout(self) -> Layout:
        """The groups of the engine's rules."""
        return layout_of(self.graph, self.engine, "engine")

    def _together(self, chunk: int) -> Iterator[Any]:
        """Places of rows that share what branches, a chunk at a time."""
        import numpy as np

        if self._by_itself:
            return
        codes = np.asarray(self.modes[0] * (1 + self.parts.max()) + self.parts)
        for over in self._over.values():
            _, codes = np.unique(codes * 2 + over, return_inverse=True)
        for code in np.unique(codes):
            places = np.flatnonzero(codes == code)
            yield from (places[n : n + chunk] for n in range(0, len(places), chunk))

    @cached_property
    def _over(self) -> dict[int, Any]:
        """By slot whose size is limited: whether each row is above a limit."""
        import numpy as np

        load = replace(self.part.load, padding_tokens=self.modes[1])
        found = {}
        for number, slot in enumerate(self.layout.slots):
            over = np.zeros(len(load.sequences), dtype=bool)
            for limit, (offset, name) in limits(slot.group, self.engine):
                block = self.graph.kinds[slot.kinds[offset]]
                node = next(node for node in block.nodes if node.id == name)
                size = sum(tensor.bytes(load) for tensor in block.site(node, load).outputs)
                over |= size > limit.max_bytes
            if slot.limited:
                found[number] = over
        return found

    def _regime(self, place: int) -> Regime:
        """The regime of a row."""
        refused = frozenset(slot for slot, over in self._over.items() if over[place])
        return known_regime(self.layout, MODES[int(self.modes[0][place])], refused)

    def _priced(self, places: Any) -> Iterator[tuple[Any, StepLine]]:
        """Schedules of rows, with the places among them that each is best for."""
        deployment, part = self.prepared.question.deployment, picked(self.part, places)
        padding, spread = self.modes[1][places], routing(deployment)
        part = replace(part, load=replace(part.load, padding_tokens=padding, routing=spread))
        fixed = fixed_costs(self.engine, deployment.host.launch, self.prepared.adjusted)
        regime, estimator = self._regime(places[0]), self.prepared.estimator(fixed)
        device, kind = self.prepared.device, self.step.kind
        problem = ManyProblem(regime, self.graph, part.load, device, fixed, estimator)
        micro = MicroBatches(int(self.parts[places[0]]), part, kind == "decode")
        try:
            for won, solution in problem.solutions():
                whole = piped(solution, micro) if deployment.parallel.pipeline > 1 else solution
                yield won, step_line(whole, kind, self.prepared)
        except SearchTooLarge:
            return

    def _alone(self, place: int) -> StepLine:
        """A row by itself."""
        solved = solve_step(self.prepared, single(self.step, place), modes=())
        return step_line(solved.chosen, self.step.kind, self.prepared)
