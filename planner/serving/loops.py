"""Closed loops of a deployment that differ in users and lengths alone, answered together.

Each row is served as `planner.serving.closed` serves one, up to the first step whose time nobody
knows yet. Such steps of all rows are priced at once, and the rows begin again, until none is left:
a steady state takes some ten rounds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from planner.errors import SpecError
from planner.num import Number, ceil_div
from planner.plan.cases import Predicted, in_columns
from planner.plan.expected import of_loop, of_step
from planner.plan.load import decode, drafted
from planner.plan.prepare import Prepared
from planner.plan.serving_types import ServingPlan
from planner.plan.speculation import drafting
from planner.plan.steps import CHUNK, laid_out, step_rows
from planner.plan.sweep import Rows, joined, planned, shown
from planner.serving.clock import Beat, Clock, DeviceTime, Prompts, Tick
from planner.serving.closed import closed_loop, serve_on
from planner.serving.setup import Setup, setup
from planner.serving.types import ClosedLoop
from planner.spec.question import Question

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]


BLOCK = 16_384
"""Rows served together: what is known of each takes some kilobytes."""


def loops(
    question: Question, users: Array, prompt: Array, output: Array, chunk: int = CHUNK
) -> Rows:
    """Closed loops of so many users with requests of such lengths, row by row.

    The sizes that the deployment itself names are left aside; it must be a closed loop. Raises
    SpecError as `plan_question` does for what no size changes, UsageError for an engine that serves
    no requests.
    """
    users, prompt, output = (each.astype(float) for each in (users, prompt, output))
    cuts = [slice(start, start + BLOCK) for start in range(0, max(1, len(users)), BLOCK)]
    return joined([_block(question, users[c], prompt[c], output[c], chunk) for c in cuts])


def served_loops(
    prepared: Prepared, asked: Sequence[ClosedLoop], chunk: int = CHUNK
) -> list[ServingPlan | str]:
    """Closed loops of one layout, each served; of those that cannot be a text says why."""
    return _Loops(prepared, chunk).served(asked)


def _block(question: Question, users: Array, prompt: Array, output: Array, chunk: int) -> Rows:
    """The same of some rows."""
    import numpy as np

    workload, drafts = question.deployment.workload, drafted(question.deployment)
    assert workload
    replica = ceil_div(users, question.deployment.parallel.data)
    laid = list(laid_out(question, decode(replica, prompt + (output + 1) // 2, drafts)))
    sizes = np.stack((users, prompt, output)).T.astype(int).tolist()
    found: list[ServingPlan | str] = [""] * len(sizes)
    for prepared, places in laid:
        numbers = np.arange(len(sizes))[places].tolist()
        asked = [closed_loop(workload, tuple(sizes[number])) for number in numbers]
        for number, answer in zip(numbers, served_loops(prepared, asked, chunk), strict=True):
            found[number] = answer
    return _rows(laid, found, (prompt, output), chunk)


def _rows(
    laid: Sequence[tuple[Prepared, Any]],
    found: Sequence[ServingPlan | str],
    lengths: tuple[Array, Array],
    chunk: int,
) -> Rows:
    """Servings as rows; of those that cannot be a text says why."""
    import numpy as np

    wrong = {place: each for place, each in enumerate(found) if isinstance(each, str)}
    count = np.array([1 if isinstance(e, str) else e.decode.sequences for e in found], dtype=float)
    context = np.array([1 if isinstance(e, str) else _middle(e) for e in found], dtype=float)
    drafts = drafted(laid[0][0].question.deployment) if laid else 0
    step = decode(count, context, drafts)
    rows, missing = shown(laid, step, lengths, chunk)
    figures = in_columns(of_step(planned(rows, step), ["step"]))
    figures |= _figures([{} if isinstance(e, str) else in_columns(of_loop(e, None)) for e in found])
    return Rows(rows, missing, figures, figures["throughput_tok_s"].value, wrong)


def _middle(found: ServingPlan) -> int:
    """Keys of a sequence halfway through its output."""
    return found.input + (found.output + 1) // 2


def _figures(found: Sequence[Mapping[str, Predicted]]) -> dict[str, Predicted]:
    """Figures of many rows as arrays; NaN where a row has none."""
    import numpy as np

    none = Predicted(math.nan, None, None, None)
    columns = {}
    for name in ("ttft_ms", "tpot_ms", "latency_s", "throughput_tok_s"):
        each = [row.get(name, none) for row in found]
        value, low, high = (
            np.array([(p.value, p.low, p.high) for p in each], dtype=float).reshape(-1, 3).T
        )
        columns[name] = Predicted(value, low, high, None)
    return columns


class _UnpricedError(Exception):
    """Steps whose times nobody knows yet."""

    def __init__(self, beats: Sequence[Beat]) -> None:
        super().__init__()
        self.beats = beats


class _Clock(Clock):
    """A clock that is told the times of steps, and stops where it does not know one."""

    def ticks(self, *beats: Beat) -> tuple[Tick, ...]:
        unknown = [beat for beat in beats if beat not in self._known]
        if unknown:
            raise _UnpricedError(unknown)
        return super().ticks(*beats)

    def tell(self, beat: Beat, device: DeviceTime) -> None:
        """What the GPU takes for a step."""
        self._known[beat] = self.timed(beat, device)


@dataclass(eq=False)
class _Loops:
    """Closed loops on replicas of one layout."""

    prepared: Prepared
    chunk: int

    def served(self, asked: Sequence[ClosedLoop]) -> list[ServingPlan | str]:
        """Each served; of those that cannot be a text says why."""
        found: list[ServingPlan | str] = [""] * len(asked)
        for ready, places in self._ready(asked):
            for place, answer in self._answers(ready, {place: asked[place] for place in places}):
                found[place] = answer
        return found

    def _ready(self, asked: Sequence[ClosedLoop]) -> Iterator[tuple[Setup, list[int]]]:
        """Replicas, and which loops they serve: one for all, unless no model states a context."""
        known = self.prepared.question.model.max_context
        alike = defaultdict[int, list[int]](list)
        for place, each in enumerate(asked):
            alike[0 if known else each.input + each.output].append(place)
        for places in alike.values():
            found = setup(self.prepared, asked[places[0]].input + asked[places[0]].output)
            yield found, places

    def _answers(
        self, ready: Setup, left: dict[int, ClosedLoop]
    ) -> Iterator[tuple[int, ServingPlan | str]]:
        clock = _Clock(ready.clock.prepared, ready.clock.scheduler, ready.clock.host)
        ready = replace(ready, clock=clock)
        while left:
            wanted: dict[Beat, None] = {}
            for place, asked in list(left.items()):
                try:
                    yield place, serve_on(ready, asked)
                except _UnpricedError as unpriced:
                    wanted.update(dict.fromkeys(unpriced.beats))
                    continue
                except SpecError as error:
                    yield place, "; ".join(fault.message for fault in error.faults)
                del left[place]
            self._price(clock, list(wanted))

    def _price(self, clock: _Clock, wanted: Sequence[Beat]) -> None:
        """Tell a clock the times of steps."""
        kinds = defaultdict[str, list[Beat]](list)
        for beat in wanted:
            kinds[beat.kind].append(beat)
        for beats in kinds.values():
            for beat, device in zip(beats, self._devices(_together(beats)), strict=True):
                clock.tell(beat, device)

    @cached_property
    def _unscattered(self) -> Prepared:
        """The deployment with intervals of kernels alone: what whole runs scatter counts once, for
        the served load and not for each of its steps.
        """
        return replace(self.prepared, question=replace(self.prepared.question, spread=None))

    def _devices(self, beats: Beat) -> list[DeviceTime]:
        """What the GPU takes for steps of one kind."""
        drafts = drafted(self.prepared.question.deployment)
        rows = step_rows(self._unscattered, beats.step(drafts), self.chunk)
        draft_s: Number = 0.0
        if beats.kind != "prefill":
            found = drafting(self.prepared, beats.decoding, beats.context)
            draft_s = (
                found.times * step_rows(found.prepared, found.step, self.chunk).step_s
                if found
                else 0.0
            )
        ends = [(each + draft_s).tolist() for each in (rows.step_s, rows.low_s, rows.high_s)]
        return [_device(*row) for row in zip(*ends, rows.starved_s.tolist(), strict=True)]


def _device(time_s: float, low_s: float, high_s: float, starved_s: float) -> DeviceTime:
    """A row of steps, whose interval is NaN where nothing tells it."""
    if math.isnan(low_s):
        return DeviceTime(time_s, None, None, starved_s)
    return DeviceTime(time_s, low_s, high_s, starved_s)


def _together(beats: Sequence[Beat]) -> Beat:
    """Steps of a kind as one of arrays."""
    import numpy as np

    sizes = [
        (b.decoding, b.context, b.prompts.count, b.prompts.tokens, b.prompts.before) for b in beats
    ]
    decoding, context, *prompts = np.array(sizes, dtype=float).T
    return Beat(decoding, context, Prompts(*prompts))
