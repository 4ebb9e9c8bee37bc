"""A plan's decode step at other batches or contexts, with the marks to read it by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planner.errors import UsageError
from planner.plan.sweep import decodes
from planner.plan.types import Plan
from planner.spec.question import Question

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Axis = Literal["batch", "context"]
POINTS = 40
"""Steps that are planned along an axis."""
_BEYOND = 2.0
"""How far an axis goes on beyond what is marked on it."""
_LONGEST = 1 << 20
_LARGEST = 8192


@dataclass(frozen=True)
class Crossing:
    """GEMMs that leave the memory roof at about the same batch."""

    nodes: tuple[str, ...]
    batch: float
    """M* of the first of them, over all data replicas."""


@dataclass(frozen=True)
class Around:
    """Decode steps along one axis; times in seconds, one element a step."""

    axis: Axis
    values: tuple[int, ...]
    step_s: tuple[float, ...]
    low_s: tuple[float | None, ...]
    high_s: tuple[float | None, ...]
    tokens_per_s: tuple[float, ...]
    fits: tuple[bool, ...]
    here: int
    """The plan's own place."""
    kept: int
    """The other axis's value all along."""
    limit: int | None
    """The most that fits into the KV cache; None without one."""
    crossings: tuple[Crossing, ...]


def around(question: Question, plan: Plan, axis: Axis, points: int = POINTS) -> Around:
    """The plan's decode step at other batches, or at other contexts.

    Raises UsageError for a step that is no decode step of a language model.
    """
    import numpy as np

    batch, context = place(plan)
    replicas = int(plan.deployment.get("parallel", {}).get("data", 1))
    limit = plan.memory.max_batch if axis == "batch" else plan.memory.max_context
    if axis == "batch" and limit is not None:
        limit *= replicas
    crossings = _crossings(plan, replicas) if axis == "batch" else ()
    here, kept = (batch, context) if axis == "batch" else (context, batch)
    marks = [here, *([limit] if limit else []), *(int(each.batch) for each in crossings)]
    values = _values(axis, marks, plan.model.max_context, points)
    other = np.full(len(values), float(kept))
    along = values.astype(float)
    found = decodes(question, *((along, other) if axis == "batch" else (other, along)))
    batches = along if axis == "batch" else other
    return Around(
        axis,
        tuple(int(value) for value in values),
        tuple(map(float, found.steps.step_s)),
        _known(found.steps.low_s),
        _known(found.steps.high_s),
        tuple(map(float, batches / found.steps.step_s)),
        tuple(map(bool, found.fits)),
        here,
        kept,
        limit,
        crossings,
    )


def place(plan: Plan) -> tuple[int, int]:
    """Batch and context of a decode step. Raises UsageError for any other step."""
    step = plan.deployment.get("step", {}).get("decode")
    if step is None:
        hint = "as in --set step.decode.batch=16 --set step.decode.context=4096"
        raise UsageError("a sweep needs a deployment with a decode step", hint)
    return int(step["batch"]), int(step["context"])


def _known(values: npt.NDArray[np.float64]) -> tuple[float | None, ...]:
    return tuple(None if value != value else float(value) for value in values)  # noqa: PLR0124


def _values(
    axis: Axis, marks: Sequence[int], max_context: int | None, points: int
) -> npt.NDArray[np.int64]:
    """Whole numbers as far apart as their logarithms are, the marks themselves among them."""
    import numpy as np

    first = 1 if axis == "batch" else 128
    most = _LARGEST if axis == "batch" else min(max_context or _LONGEST, _LONGEST)
    last = min(most, _BEYOND * max(*marks, 4 * marks[0]))
    spaced = np.geomspace(first, max(last, first + 1), points).round().astype(int)
    kept = [mark for mark in marks if first <= mark <= last]
    return np.unique(np.concatenate([spaced, np.array(kept, dtype=int)]))


def _crossings(plan: Plan, replicas: int) -> tuple[Crossing, ...]:
    """M* of weight products, those within a tenth of each other as one."""
    found: dict[str, float] = {}
    for node in plan.nodes:
        if node.crossing_tokens is not None and node.weight_bytes and not node.composite:
            found[node.id] = node.crossing_tokens * replicas
    groups: list[Crossing] = []
    for name, tokens in sorted(found.items(), key=lambda item: item[1]):
        if tokens > _LARGEST:
            continue
        if groups and tokens <= groups[-1].batch * 1.1:
            groups[-1] = Crossing((*groups[-1].nodes, name), groups[-1].batch)
        else:
            groups.append(Crossing((name,), tokens))
    return tuple(groups)
