"""A plan's step at other batches or lengths, with the marks to read it by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planner.errors import UsageError
from planner.plan.sweep import decodes, prefills
from planner.plan.types import Plan
from planner.spec.question import Question

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Axis = Literal["batch", "context"]
"""``context`` is the length of prompts where the step is a prefill."""
Kind = Literal["decode", "prefill"]
POINTS = 40
"""Steps that are planned along an axis."""
_BEYOND = 2.0
"""How far an axis goes on beyond what is marked on it."""
_LONGEST = 1 << 20
_LARGEST = 8192
_SHORTEST = 128


@dataclass(frozen=True)
class Place:
    """A plan's step among others of its kind."""

    kind: Kind
    batch: int
    length: int
    """Context of a decode step, prompt tokens of each sequence of a prefill."""

    def along(self, axis: Axis) -> tuple[int, int]:
        """Where it is on an axis, and on the other."""
        return (self.batch, self.length) if axis == "batch" else (self.length, self.batch)

    def tokens(self, axis: Axis) -> int:
        """New tokens that one more on an axis brings."""
        if self.kind == "decode":
            return int(axis == "batch")
        return self.along(axis)[1]


@dataclass(frozen=True)
class Crossing:
    """GEMMs that leave the memory roof at about the same place of the axis."""

    nodes: tuple[str, ...]
    at: float
    """Where the first of them does: M* as a batch over all replicas, or as a prompt."""
    tokens: float
    """M* itself: tokens in flight on one replica."""


@dataclass(frozen=True)
class Around:
    """Steps along one axis; times in seconds, one element a step."""

    kind: Kind
    axis: Axis
    values: tuple[int, ...]
    step_s: tuple[float, ...]
    low_s: tuple[float | None, ...]
    high_s: tuple[float | None, ...]
    tokens_per_s: tuple[float, ...]
    """Output tokens of decode steps, prompt tokens of prefills."""
    fits: tuple[bool, ...]
    here: int
    """The plan's own place."""
    kept: int
    """The other axis's value all along."""
    limit: int | None
    """The most that fits into the KV cache; None without one."""
    crossings: tuple[Crossing, ...]


def around(question: Question, plan: Plan, axis: Axis, points: int = POINTS) -> Around:
    """The plan's step at other batches, or at other contexts or lengths of prompts.

    Raises UsageError for a step that is neither a decode step nor a prefill of a language model.
    """
    import numpy as np

    own = place(plan)
    here, kept = own.along(axis)
    limit, crossed = _limit(plan, axis), crossings(plan, own.tokens(axis))
    marks = [here, *([limit] if limit else []), *(int(each.at) for each in crossed)]
    values = spaced(axis, marks, plan.model.max_context, points)
    along, other = values.astype(float), np.full(len(values), float(kept))
    batch, length = (along, other) if axis == "batch" else (other, along)
    found = (decodes if own.kind == "decode" else prefills)(question, batch, length)
    rate = found.tok_s if own.kind == "decode" else batch * length / found.steps.step_s
    return Around(
        own.kind,
        axis,
        tuple(int(value) for value in values),
        tuple(map(float, found.steps.step_s)),
        _known(found.steps.low_s),
        _known(found.steps.high_s),
        tuple(map(float, rate)),
        tuple(map(bool, found.fits)),
        here,
        kept,
        limit,
        crossed,
    )


def place(plan: Plan) -> Place:
    """Where a plan's step is. Raises UsageError for a step of any other kind."""
    step = plan.deployment.get("step", {})
    if (decode := step.get("decode")) is not None:
        return Place("decode", int(decode["batch"]), int(decode["context"]))
    if (prefill := step.get("prefill")) is not None:
        return Place("prefill", int(prefill["batch"]), int(prefill["tokens"]))
    hint = "as in --set step.decode.batch=16 --set step.decode.context=4096"
    raise UsageError("a sweep needs a deployment with a decode step or a prefill", hint)


def replicas(plan: Plan) -> int:
    """Of the model, each with its own requests."""
    return int(plan.deployment.get("parallel", {}).get("data", 1))


def _limit(plan: Plan, axis: Axis) -> int | None:
    if axis == "context":
        return plan.memory.max_context
    each = plan.memory.max_batch
    return None if each is None else each * replicas(plan)


def _known(values: npt.NDArray[np.float64]) -> tuple[float | None, ...]:
    return tuple(None if value != value else float(value) for value in values)  # noqa: PLR0124


def spaced(
    axis: Axis, marks: Sequence[int], max_context: int | None, points: int
) -> npt.NDArray[np.int64]:
    """Whole numbers as far apart as their logarithms are, the marks themselves among them."""
    import numpy as np

    first = 1 if axis == "batch" else max(1, min(_SHORTEST, *(mark // 2 for mark in marks)))
    most = _LARGEST if axis == "batch" else min(max_context or _LONGEST, _LONGEST)
    last = min(most, _BEYOND * max(*marks, 4 * marks[0]))
    spaced = np.geomspace(first, max(last, first + 1), points).round().astype(int)
    kept = [mark for mark in marks if first <= mark <= last]
    return np.unique(np.concatenate([spaced, np.array(kept, dtype=int)]))


def crossings(plan: Plan, each: int) -> tuple[Crossing, ...]:
    """M* of weight products, those within a tenth of each other as one; ``each`` is the new tokens
    that one more on the axis brings to all replicas.
    """
    if not each:
        return ()
    found = {
        node.id: node.crossing_tokens
        for node in plan.nodes
        if node.crossing_tokens is not None and node.weight_bytes and not node.composite
    }
    groups: list[Crossing] = []
    for name, tokens in sorted(found.items(), key=lambda item: item[1]):
        at = tokens * replicas(plan) / each
        if not 1 <= at <= _LARGEST:
            continue
        if groups and at <= groups[-1].at * 1.1:
            last = groups[-1]
            groups[-1] = Crossing((*last.nodes, name), last.at, last.tokens)
        else:
            groups.append(Crossing((name,), at, tokens))
    return tuple(groups)
