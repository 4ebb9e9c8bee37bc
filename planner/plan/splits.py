"""Over how many GPUs, and how: every split of a deployment planned, the best one named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from planner.errors import PlannerError
from planner.plan.context import most_context
from planner.plan.load import step_load
from planner.plan.memory import changed, held
from planner.plan.prepare import graph_on_one_rank, prepare
from planner.plan.solve import solve_step
from planner.spec.question import Question

MOST = 8
"""GPUs of a node; beyond it the link is another one."""
_WAYS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Split:
    """One way to share a model out, per data replica."""

    tensor: int
    """Tensor-parallel ranks."""
    pipeline: int
    """Pipeline stages."""
    expert: int
    """Ranks that experts lie on; 1 where each is cut with the rest."""
    gpus: int
    """Of one replica."""
    fits: bool
    """Whether it fits into their memory."""
    step_s: float
    """Predicted step."""
    tokens_per_s: float
    """New tokens of the step over its time."""
    tokens_per_s_per_gpu: float
    """The same over the replica's GPUs."""
    context: int = 1
    """Tensor ranks that share each sequence's KV cache."""

    @property
    def sets(self) -> tuple[str, ...]:
        """The split as ``--set`` takes it."""
        names = ("tensor", "pipeline", "expert", *(("context",) if self.context > 1 else ()))
        return tuple(f"parallel.{name}={getattr(self, name)}" for name in names)


def splits(question: Question, most: int = MOST) -> tuple[Split, ...]:
    """Every split over up to ``most`` GPUs that can be built, by tokens a second and GPU.

    Those that fit come first. Tensor and pipeline sizes are powers of two; experts are cut with
    the tensor ranks or shared out over them. Where KV does not fit, ranks that hold the same of it
    share it, if the engine does that. What does not divide is left out.
    """
    found = tuple(_tried(question, most))
    return tuple(sorted(found, key=lambda split: (not split.fits, -split.tokens_per_s_per_gpu)))


def best(found: tuple[Split, ...]) -> Split | None:
    """The split that makes most of each GPU among those that fit; None where none does.

    Within 1 % the one with fewer GPUs, since neither model nor machine is that exact.
    """
    fitting = [split for split in found if split.fits]
    if not fitting:
        return None
    rate = max(split.tokens_per_s_per_gpu for split in fitting)
    near = [split for split in fitting if split.tokens_per_s_per_gpu >= _NEAR * rate]
    return min(near, key=lambda split: (split.gpus, -split.tokens_per_s_per_gpu))


_NEAR = 0.99


def _tried(question: Question, most: int) -> Iterator[Split]:
    ways = [way for way in _WAYS if way <= most]
    for tensor, pipeline in product(ways, ways):
        if tensor * pipeline > most:
            continue
        for expert in dict.fromkeys((1, tensor)):
            try:
                yield _shared(question, _split(question, tensor, pipeline, expert))
            except PlannerError:
                continue


def _shared(question: Question, whole: Split) -> Split:
    """The split with as many ranks to a context as hold the same, where it fits only so."""
    most = most_context(whole.tensor, graph_on_one_rank(question))
    if whole.fits or most == 1:
        return whole
    try:
        found = _split(question, whole.tensor, whole.pipeline, whole.expert, most)
    except PlannerError:
        return whole
    return found if found.fits else whole


def _split(question: Question, tensor: int, pipeline: int, expert: int, context: int = 1) -> Split:
    ways = {"tensor": tensor, "pipeline": pipeline, "expert": expert, "context": context}
    asked = changed(question, parallel=ways)
    prepared, step = prepare(asked), step_load(asked.deployment)
    step_s = solve_step(prepared, step, modes=()).chosen.timeline.time_s
    rate = (step.tokens or 1) / step_s
    gpus, fits = tensor * pipeline, held(prepared, step).fits
    return Split(tensor, pipeline, expert, gpus, fits, step_s, rate, rate / gpus, context)
