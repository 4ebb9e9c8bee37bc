"""Decode steps of one deployment at many batches and contexts, as arrays: the formulas of a plan.

Each row is what `assemble` says of it, to the rounding of sums. Rows that share what branches (the
capture mode, the micro-batches of a pipeline, groups too large to run) are priced together, a few
thousand at a time, so that memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner.capture.decide import decide_all, fixed_costs
from planner.capture.layout import Layout
from planner.capture.many import ManyProblem, Regime, known_regime
from planner.capture.solve import Solution
from planner.capture.types import MODES
from planner.cost.engine import Engine
from planner.cost.estimator import BOUNDS
from planner.cost.memory import missing_bytes, needed_bytes
from planner.fusion.groups import limits
from planner.fusion.types import SearchTooLarge
from planner.graph.active import idle_symbols
from planner.graph.types import ModelGraph
from planner.num import Number, as_float, ceil_div, is_array, maximum, minimum, where
from planner.ops.types import Load, SequenceGroup
from planner.plan.cases import LAUNCHES
from planner.plan.interval import interval, kernel_totals
from planner.plan.layout import routing
from planner.plan.load import StepLoad, check_encoder_alone, check_load, decode, drafted
from planner.plan.memory import stage_space
from planner.plan.pipeline import MicroBatches, piped
from planner.plan.prepare import Prepared, prepare
from planner.plan.solve import layout_of, running, solve_step
from planner.spec.question import Question

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

CHUNK = 16_384
"""Rows priced at a time: their arrays stay in the cache of one core."""


@dataclass(frozen=True, eq=False)
class Decodes:
    """What plans say of decode steps, one element a row."""

    step_s: Array
    low_s: Array
    high_s: Array
    """80 % interval of the step; NaN where no residuals are known."""
    missing_bytes: Array
    """Short on the tightest GPU; nought where it fits."""
    bound: Array
    """What takes most of the step, as a number of `BOUNDS`."""
    mode: Array
    """The capture mode, as a number of `MODES`."""

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        """Whether the engine starts and holds the load."""
        found: npt.NDArray[np.bool_] = self.missing_bytes == 0
        return found


def decodes(question: Question, batch: Array, context: Array, chunk: int = CHUNK) -> Decodes:
    """The decode steps of a deployment with so many sequences of such a length, row by row.

    The step that the deployment itself names is left aside; it must be a decode step. Raises
    SpecError as `assemble` does for what no batch or context changes.
    """
    import numpy as np

    batch, context = batch * 1.0, context * 1.0
    found = Decodes(*(np.full(len(batch), np.nan) for _ in fields(Decodes)))
    for prepared, places in _laid_out(question, batch):
        part = _Sweep(prepared, batch[places], context[places]).decodes(chunk)
        for item in fields(Decodes):
            getattr(found, item.name)[places] = getattr(part, item.name)
    return found


def _laid_out(question: Question, batch: Array) -> Iterator[tuple[Prepared, Any]]:
    """The question as the engine lays it out, and the rows that are: by the size of their step.

    An engine changes its layout at one size, if at all (`planner.plan.layout.layout_of`).
    """
    import numpy as np

    deployment = question.deployment
    sizes = ceil_div(batch, deployment.parallel.data)
    distinct = np.unique(sizes)
    if not len(distinct):
        return

    def of(size: float) -> Prepared:
        return prepare(question, decode(int(size), 2, drafted(deployment)))

    first, last = of(distinct[0]), of(distinct[-1])
    if first.layout == last.layout:
        yield first, slice(None)
        return
    low, high = 0, len(distinct) - 1
    while high - low > 1:
        middle = (low + high) // 2
        alike = of(distinct[middle]).layout == first.layout
        low, high = (middle, high) if alike else (low, middle)
    yield first, np.flatnonzero(sizes <= distinct[low])
    yield last, np.flatnonzero(sizes > distinct[low])


@dataclass(eq=False)
class _Sweep:
    """One deployment, and rows that are filled in."""

    prepared: Prepared
    batch: Array
    context: Array

    def decodes(self, chunk: int) -> Decodes:
        import numpy as np

        self._check()
        rows = len(self.batch)
        found = Decodes(*(np.full(rows, np.nan) for _ in fields(Decodes)))
        found.missing_bytes[:] = self._missing()
        found.mode[:] = self.modes[0]
        left = np.ones(rows, dtype=bool)
        for places in self._alike(chunk):
            for won, line in self._priced(places):
                _fill(found, places[won], line, won)
                left[places[won]] = False
        for place in np.flatnonzero(left).tolist():
            _fill(found, place, self._single(place), None)
        return found

    def _check(self) -> None:
        """What `assemble` refuses."""
        deployment = self.prepared.question.deployment
        step = decode(1, 1, self.drafts)
        check_load(deployment, step, self.prepared.graph.symbols)
        check_encoder_alone(deployment, step, self.prepared.graph)

    @cached_property
    def drafts(self) -> int:
        """Draft tokens of each sequence."""
        return drafted(self.prepared.question.deployment)

    @cached_property
    def engine(self) -> Engine:
        """The engine as decode steps see it."""
        return self.prepared.engine("decode")

    @cached_property
    def replica(self) -> Array:
        """Sequences of the fullest replica."""
        found: Array = ceil_div(self.batch, self.prepared.question.deployment.parallel.data)
        return found

    @cached_property
    def parts(self) -> Array:
        """Micro-batches of each row."""
        stages = self.prepared.question.deployment.parallel.pipeline
        found: Array = minimum(self.replica, float(stages))
        return found

    @cached_property
    def count(self) -> Array:
        """Sequences of a micro-batch."""
        found: Array = ceil_div(self.replica, self.parts)
        return found

    @cached_property
    def modes(self) -> tuple[Number, Number]:
        """The capture mode of each row, and its padding."""
        return decide_all(self.engine, self.count * (1 + self.drafts))

    @cached_property
    def graph(self) -> ModelGraph:
        """What of the model runs in a decode step whose prompts began earlier."""
        return running(self.prepared.graph.alone, decode(1, 2, self.drafts).load)

    @cached_property
    def _begins_alike(self) -> bool:
        """Whether a sequence's first token runs the same kernels as any other."""
        graph = self.prepared.graph
        first, later = (decode(1, context, self.drafts).load for context in (1, 2))
        return graph.encoder is None and idle_symbols(graph, first) == idle_symbols(graph, later)

    @cached_property
    def layout(self) -> Layout:
        """The groups of the engine's rules."""
        return layout_of(self.graph, self.engine, "engine")

    def _load(self, places: Any, count: Array, padding: Number = 0) -> Load:
        group = SequenceGroup(
            count[places], 1 + self.drafts, self.context[places] + self.drafts, self.drafts > 0
        )
        return Load((group,), padding_tokens=padding)

    def _missing(self) -> Number:
        """Memory short of each row: of a pipeline on its tightest stage."""
        load = self._load(slice(None), self.replica)
        spaces = (stage_space(self.prepared, "decode", s) for s in self.prepared.stages)
        return maximum(
            *(missing_bytes(space, needed_bytes(graph, space, load)) for graph, space in spaces)
        )

    def _alike(self, chunk: int) -> Iterator[Any]:
        """Places of rows that share what branches, a chunk at a time."""
        import numpy as np

        codes = np.asarray(self.modes[0] * (1 + self.parts.max()) + self.parts)
        for over in self._over.values():
            _, codes = np.unique(codes * 2 + over, return_inverse=True)
        taken = (self.context > 1) | self._begins_alike
        for code in np.unique(codes[taken]):
            places = np.flatnonzero(taken & (codes == code))
            yield from (places[n : n + chunk] for n in range(0, len(places), chunk))

    @cached_property
    def _over(self) -> dict[int, Any]:
        """By slot whose size is limited: whether each row is above a limit."""
        import numpy as np

        load = self._load(slice(None), self.count, self.modes[1])
        found = {}
        for number, slot in enumerate(self.layout.slots):
            over = np.zeros(len(self.batch), dtype=bool)
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

    def _priced(self, places: Any) -> Iterator[tuple[Any, _Line]]:
        """Schedules of rows, with the places among them that each is best for."""
        deployment = self.prepared.question.deployment
        load = replace(
            self._load(places, self.count, self.modes[1][places]), routing=routing(deployment)
        )
        fixed = fixed_costs(self.engine, deployment.host.launch, self.prepared.adjusted)
        problem = ManyProblem(
            self._regime(places[0]),
            self.graph,
            load,
            self.prepared.device,
            fixed,
            self.prepared.estimator(fixed),
        )
        micro = MicroBatches(int(self.parts[places[0]]), StepLoad("decode", load), steady=True)
        try:
            for won, solution in problem.solutions():
                whole = piped(solution, micro) if deployment.parallel.pipeline > 1 else solution
                yield won, _line(whole, self.prepared)
        except SearchTooLarge:
            return

    def _single(self, place: int) -> _Line:
        """A row by itself."""
        step = decode(int(self.replica[place]), int(self.context[place]), self.drafts)
        return _line(solve_step(self.prepared, step, modes=()).chosen, self.prepared)


@dataclass(frozen=True, eq=False)
class _Line:
    """What a solution says, for one load or many."""

    step_s: Number
    low_s: Number
    high_s: Number
    bound: Number


def _line(solution: Solution, prepared: Prepared) -> _Line:
    low_s, high_s = interval(solution, "decode", prepared.adjusted.runs) or (float("nan"),) * 2
    return _Line(solution.timeline.time_s, low_s, high_s, _bound(solution))


def _bound(solution: Solution) -> Number:
    """As `planner.plan.cases.bound`, as a number of `BOUNDS`."""
    sums: list[Number] = [0.0] * len(BOUNDS)
    for kernel, time_s in kernel_totals(solution):
        bound = kernel.time.bound
        if not is_array(bound):
            sums[BOUNDS.index(bound)] = sums[BOUNDS.index(bound)] + time_s
            continue
        for each in range(len(BOUNDS)):
            sums[each] = sums[each] + (bound == each) * time_s
    found: Number = 0
    for each in range(1, len(BOUNDS)):
        found = where(sums[each] > maximum(*sums[:each]), each, found)
    return where(solution.timeline.launch_share > LAUNCHES, BOUNDS.index("launch"), found)


def _fill(found: Decodes, places: Any, line: _Line, won: Any) -> None:
    for item in fields(_Line):
        value = getattr(line, item.name)
        getattr(found, item.name)[places] = value[won] if is_array(value) else as_float(value)
