"""A served load at other users, rates, batches or lengths of prompts, with its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from planner.plan.around import POINTS, Around, Axis, Crossing, crossings, replicas, spaced
from planner.plan.around import around as step_around
from planner.plan.batches import batches
from planner.plan.cases import Predicted
from planner.plan.prepare import prepare
from planner.plan.serving_types import Range, ServingPlan
from planner.plan.types import Plan
from planner.serving.closed import closed_loop
from planner.serving.loops import served_loops
from planner.serving.open import at_rate, in_flight
from planner.serving.room import room
from planner.serving.setup import Setup, setup
from planner.serving.types import ClosedLoop
from planner.spec.question import Question
from planner.spec.types import Workload

Load = Literal["users", "rate", "batch"]
Limit = Literal["kv", "sequences", "states", "rate"]
_FINE = 1.01
"""A limit along lengths is within a hundredth of itself, and never too long."""
_RATES = 32.0
"""How many times lower than the highest rate an axis of rates begins."""


@dataclass(frozen=True)
class ServedAround:
    """A load along one axis; times in seconds, one element a place."""

    load: Load
    axis: Axis
    """``batch`` is the number of users, the rate, or the size of static batches; ``context`` the
    length of prompts.
    """
    values: tuple[float, ...]
    ttft_s: tuple[Range, ...]
    tpot_s: tuple[Range, ...]
    latency_s: tuple[Range, ...]
    tokens_per_s: tuple[Range, ...]
    """Output tokens over all GPUs."""
    fits: tuple[bool, ...]
    """Whether nobody waits for room; of a rate, whether the queue stays short."""
    here: float
    """The plan's own place."""
    kept: float
    """The other axis's value all along."""
    limit: float | None
    """The last place that fits; None where all do."""
    limit_by: Limit
    """What ends there: the KV cache, the engine's most sequences, or the rate that is served."""
    crossings: tuple[Crossing, ...]


def around(
    question: Question, plan: Plan, axis: Axis, points: int = POINTS
) -> Around | ServedAround:
    """The plan at other batches, users or rates, or at other contexts or lengths of prompts.

    Raises UsageError for a step that is neither a decode step nor a prefill of a language model.
    """
    workload = question.deployment.workload
    if workload is None:
        return step_around(question, plan, axis, points)
    if workload.batch is not None:
        return _static(question, plan, axis, points)
    return _Served(question, plan, workload).along(axis, points)


@dataclass(frozen=True, eq=False)
class _Served:
    """Users or a rate of one deployment, each step of which is priced once."""

    question: Question
    plan: Plan
    workload: Workload

    def along(self, axis: Axis, points: int) -> ServedAround:
        """The whole curve."""
        here = self._own if axis == "batch" else self.workload.input
        limit, by = self._limit(axis)
        places = self._values(axis, here, limit, points)
        values, found = zip(*self._plans(axis, places), strict=True)
        fits = [
            each.concurrency <= each.most_running * replicas(self.plan)
            if self.workload.rate is None
            else (each.rate_per_s or 0.0) < (each.saturation_per_s or 0.0)
            for each in found
        ]
        marks = crossings(self.plan, 1) if axis == "batch" and self._users else ()
        return ServedAround(
            "users" if self._users else "rate",
            axis,
            tuple(map(float, values)),
            tuple(each.ttft_s for each in found),
            tuple(each.tpot_s for each in found),
            tuple(each.latency_s for each in found),
            tuple(each.output_tokens_per_s for each in found),
            tuple(fits),
            float(here),
            float(self.workload.input if axis == "batch" else self._own),
            None if all(fits) else limit,
            by,
            marks,
        )

    @property
    def _users(self) -> bool:
        return self.workload.rate is None

    @property
    def _own(self) -> float:
        return self.workload.rate or self.workload.concurrency or 1

    def _loop(self, prompt: int | None = None) -> ClosedLoop:
        """The load with prompts of another length."""
        workload = self.workload
        users = workload.concurrency or 1
        asked = closed_loop(workload, (users, prompt or workload.input, workload.output))
        return asked if self._users else replace(asked, requests=None, drifted=True)

    def _ready(self) -> Setup:
        asked = self._loop()
        return setup(prepare(self.question), asked.input + asked.output)

    def _limit(self, axis: Axis) -> tuple[float | None, Limit]:
        """The last place where nobody waits for room, or whose rate is served."""
        found, each = self._ready(), replicas(self.plan)

        def places(prompt: int | None = None) -> tuple[int, Limit]:
            asked = self._loop(prompt)
            held = room(found.clock.scheduler, found.pool_tokens, asked.input, asked.output)
            return held.sequences, held.by

        def held(prompt: int) -> bool:
            if not self._users:
                return in_flight(found, self._loop(prompt), self._own / each)[1] * each > self._own
            return places(prompt)[0] * each >= self._own

        if axis == "context":
            longest = self._longest(found)
            return _last(held, longest), places(longest)[1] if self._users else "rate"
        if not self._users:
            return in_flight(found, self._loop(), 0.0)[1] * each, "rate"
        most, by = places()
        return float(most * each), by

    def _longest(self, found: Setup) -> int:
        """The longest prompt that a sequence of the engine has room for."""
        room_for = found.longest, found.pool_tokens
        return max(1, min(room_for) - self.workload.output)

    def _values(self, axis: Axis, here: float, limit: float | None, points: int) -> Sequence[float]:
        import numpy as np

        if axis == "context":
            longest = self._longest(self._ready())
            marks = [int(each) for each in (here, limit) if each]
            return [int(each) for each in spaced(axis, marks, longest, points)]
        if self._users:
            marks = [int(here), *([int(limit)] if limit else [])]
            most = self.workload.requests
            found = spaced(axis, marks, None, points)
            return [int(each) for each in found if most is None or each <= most]
        top = limit or here
        grid = np.geomspace(min(here / 2, top / _RATES), max(here, top) * 1.25, points)
        return sorted({*map(float, grid), float(here), *([top * 0.999] if limit else [])})

    def _plans(self, axis: Axis, values: Sequence[float]) -> Iterator[tuple[float, ServingPlan]]:
        """The load at each place that can be served."""
        if self._users:
            sizes = [
                (int(v), self.workload.input) if axis == "batch" else (int(self._own), int(v))
                for v in values
            ]
            asked = [closed_loop(self.workload, (*each, self.workload.output)) for each in sizes]
            found = served_loops(prepare(self.question), asked)
            plans = zip(values, found, strict=True)
            yield from ((v, each) for v, each in plans if isinstance(each, ServingPlan))
            return
        ready = self._ready()
        for value in values:
            if axis == "batch":
                yield value, at_rate(ready, self._loop(), value)
            else:
                yield value, at_rate(ready, self._loop(int(value)), self._own)


def _last(holds: Callable[[int], bool], longest: int) -> float | None:
    """The greatest length that holds, where longer ones do not; None where none or all do."""
    if holds(longest):
        return None
    low, high = 1, longest
    while high > low * _FINE and high - low > 1:
        middle = round((low * high) ** 0.5)
        middle = min(max(middle, low + 1), high - 1)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return float(low)


def _static(question: Question, plan: Plan, axis: Axis, points: int) -> ServedAround:
    """Static batches of other sizes, or of other prompts."""
    import numpy as np

    workload = question.deployment.workload
    assert workload
    assert workload.batch
    here, kept = workload.batch, workload.input
    most = plan.memory.max_batch
    limit = None if most is None else most * replicas(plan)
    if axis == "context":
        here, kept = kept, here
        longest = plan.memory.max_context
        limit = None if longest is None else longest - workload.output
    longest = (plan.model.max_context or 1 << 20) - workload.output
    values = spaced(axis, [here, *([limit] if limit and limit > 0 else [])], longest, points)
    along, other = values.astype(float), np.full(len(values), float(kept))
    batch, prompt = (along, other) if axis == "batch" else (other, along)
    found = batches(question, batch, prompt, np.full(len(values), float(workload.output)))

    def ranges(name: str, unit: float) -> tuple[Range, ...]:
        return _ranges(found.figures[name], unit)

    fits = tuple(map(bool, found.fits))
    return ServedAround(
        "batch",
        axis,
        tuple(map(float, values)),
        ranges("ttft_ms", 1e-3),
        ranges("tpot_ms", 1e-3),
        ranges("latency_s", 1.0),
        ranges("throughput_tok_s", 1.0),
        fits,
        float(here),
        float(kept),
        None if all(fits) or limit is None else float(limit),
        "kv",
        crossings(plan, 1) if axis == "batch" else (),
    )


def _ranges(found: Predicted, unit: float) -> tuple[Range, ...]:
    """A figure's places with their intervals, in SI."""
    import numpy as np

    value = np.asarray(found.value, dtype=float) * unit
    if found.low is None or found.high is None:
        return tuple(Range(float(each)) for each in value)
    ends = (np.asarray(end, dtype=float) * unit for end in (found.low, found.high))
    return tuple(
        Range(float(v)) if low != low else Range(float(v), float(low), float(high))  # noqa: PLR0124
        for v, low, high in zip(value, *ends, strict=True)
    )
