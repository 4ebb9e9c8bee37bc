"""Steps of a deployment that differ in their sizes alone, answered together.

Each row is what `planner.plan.cases.predictions` says of its plan, to the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from planner.cost.memory import missing_bytes, needed_bytes
from planner.num import Number, ceil_div, maximum
from planner.plan.cases import Predicted, in_columns
from planner.plan.expected import PlannedStep, of_step
from planner.plan.load import StepLoad, check_encoder_alone, check_load, decode, drafted, prefill
from planner.plan.memory import memory_load, stage_space
from planner.plan.prepare import Prepared, prepare
from planner.plan.speculation import drafting, yielded
from planner.plan.step_rows import StepRows
from planner.plan.steps import CHUNK, laid_out, picked, step_rows
from planner.spec.question import Question

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """What plans say of deployments, one element a row."""

    steps: StepRows
    """The step that each plan shows."""
    missing_bytes: Array
    """Short on the tightest GPU; nought where it fits."""
    figures: Mapping[str, Predicted]
    """By the names of columns: arrays, NaN where a plan has no such figure."""
    tok_s: Array
    """Output tokens a second over all GPUs; NaN of what has no output."""
    wrong: Mapping[int, str] = field(default_factory=dict)
    """Rows that cannot be, and why."""

    @property
    def fits(self) -> npt.NDArray[np.bool_]:
        """Whether the engine starts and holds the load."""
        found: npt.NDArray[np.bool_] = self.missing_bytes == 0
        return found


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of one deployment behind each other."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    steps = StepRows.unknown(sum(len(part.steps) for part in parts))
    figures = {
        name: Predicted(
            np.concatenate([part.figures[name].value for part in parts]),
            np.concatenate([part.figures[name].low for part in parts]),
            np.concatenate([part.figures[name].high for part in parts]),
            None,
        )
        for name in parts[0].figures
    }
    missing, tok_s = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("missing_bytes", "tok_s")
    )
    wrong: dict[int, str] = {}
    first = 0
    for part in parts:
        steps.put(slice(first, first + len(part.steps)), part.steps)
        wrong |= {first + place: said for place, said in part.wrong.items()}
        first += len(part.steps)
    return Rows(steps, missing, figures, tok_s, wrong)


def decodes(question: Question, batch: Array, context: Array, chunk: int = CHUNK) -> Rows:
    """The decode steps of a deployment with so many sequences of such a length, row by row.

    The step that the deployment itself names is left aside; it must be a decode step. Raises
    SpecError as `assemble` does for what no batch or context changes.
    """
    deployment = question.deployment
    replica = ceil_div(batch * 1.0, deployment.parallel.data)
    step = decode(replica, context * 1.0, drafted(deployment))
    rows, missing = shown(laid_out(question, step), step, chunk=chunk)
    share = _share(question, rows, (replica, context * 1.0), chunk)
    figures = in_columns(of_step(replace(planned(rows, step), share=share)))
    whole = replica * deployment.parallel.data if deployment.speculation else batch
    return Rows(rows, missing, figures, whole / rows.step_s / share)


def _share(question: Question, rows: StepRows, sizes: tuple[Array, Array], chunk: int) -> Number:
    """Of each step's time what a token takes: with drafts more tokens a step, and drafting."""
    speculation = question.deployment.speculation
    if speculation is None or not len(rows):
        return 1.0
    found = drafting(prepare(question), *sizes)
    draft_s = found.times * step_rows(found.prepared, found.step, chunk).step_s if found else 0.0
    return (1 + draft_s / rows.step_s) / yielded(speculation)


def prefills(question: Question, batch: Array, tokens: Array, chunk: int = CHUNK) -> Rows:
    """The same of steps that compute so many prompt tokens for each sequence."""
    asked = question.deployment.step and question.deployment.step.prefill
    assert asked
    load = prefill(ceil_div(batch * 1.0, question.deployment.parallel.data), tokens * 1.0).load
    step = StepLoad("prefill", load, asked.items, asked.item_tokens)
    rows, missing = shown(laid_out(question, step), step, chunk=chunk)
    return Rows(rows, missing, in_columns(of_step(planned(rows, step))), batch * float("nan"))


def planned(rows: StepRows, step: StepLoad) -> PlannedStep:
    """The steps of many plans."""
    sequences = step.load.sequences
    return PlannedStep(step.kind, rows.step_s, rows.low_s, rows.high_s, None, sequences)


def shown(
    laid: Iterable[tuple[Prepared, Any]],
    step: StepLoad,
    lengths: tuple[Array, Array] | None = None,
    chunk: int = CHUNK,
) -> tuple[StepRows, Array]:
    """The steps that plans show, and the memory that each is short of.

    ``laid`` is how the engine lays out which rows; ``lengths`` are those of the prompts and outputs
    of a workload.
    """
    import numpy as np

    found = StepRows.unknown(len(step.load.sequences))
    missing = np.full(len(found), np.nan)
    for prepared, places in laid:
        some = picked(step, places)
        _check(prepared, some)
        found.put(places, step_rows(prepared, some, chunk))
        held = lengths and (lengths[0][places], lengths[1][places])
        missing[places] = _missing(prepared, some, held)
    return found, missing


def times_s(question: Question, step: StepLoad, chunk: int = CHUNK) -> Array:
    """How long steps take, each as the engine lays the question out for it."""
    import numpy as np

    found = np.full(len(step.load.sequences), np.nan)
    for prepared, places in laid_out(question, step):
        found[places] = step_rows(prepared, picked(step, places), chunk).step_s
    return found


def _check(prepared: Prepared, step: StepLoad) -> None:
    """What `assemble` refuses."""
    deployment = prepared.question.deployment
    check_load(deployment, step, prepared.graph.symbols)
    check_encoder_alone(deployment, step, prepared.graph)


def _missing(prepared: Prepared, step: StepLoad, lengths: Any) -> Number:
    """Memory short of each row: of a pipeline on its tightest stage."""
    load = memory_load(prepared.question.deployment, step, lengths)
    spaces = (stage_space(prepared, step.kind, stage) for stage in prepared.stages)
    held = step.load.sequences
    return maximum(
        *(missing_bytes(space, needed_bytes(graph, space, load), held) for graph, space in spaces)
    )
