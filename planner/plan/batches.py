"""Static batches of a deployment that differ in their sizes alone, answered together.

Every batch is made of steps as `planner.plan.workload` makes it of them; all distinct steps of all
batches are priced at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.num import ceil_div
from planner.plan.cases import in_columns
from planner.plan.expected import of_batch
from planner.plan.load import decode, drafted, prefill
from planner.plan.prepare import prepare
from planner.plan.speculation import drafting, yielded
from planner.plan.steps import CHUNK, laid_out, step_rows
from planner.plan.sweep import Rows, planned, shown, times_s
from planner.plan.wall import batch_step_s, wall_of
from planner.plan.workload import Batch, batch_plan, decode_contexts, prefill_cuts, step_tokens
from planner.spec.question import Question

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

_ONE = 2**30
"""More than the longest context: a batch and a context make one number."""


def batches(
    question: Question, batch: Array, prompt: Array, output: Array, chunk: int = CHUNK
) -> Rows:
    """Static batches of so many requests with such lengths, row by row.

    The sizes that the deployment itself names are left aside; it must be a static batch. Raises
    SpecError as `assemble` does for what no size changes.
    """
    batch, prompt, output = batch * 1.0, prompt * 1.0, output * 1.0
    deployment = question.deployment
    replica = ceil_div(batch, deployment.parallel.data)
    step = decode(replica, prompt + (output + 1) // 2, drafted(deployment))
    rows, missing = shown(laid_out(question, step), step, (prompt, output), chunk)
    ttft_s, steps = _filled(question, replica, prompt, chunk)
    decode_s = _decoded_s(question, replica, prompt, output, chunk)
    found = batch_plan(Batch(batch, prompt, output), ttft_s, decode_s, steps)
    figures = in_columns(of_batch(planned(rows, step), found))
    return Rows(rows, missing, figures, figures["throughput_tok_s"].value)


def _filled(question: Question, replica: Array, prompt: Array, chunk: int) -> tuple[Array, Array]:
    """Time and steps of each batch's prefill."""
    import numpy as np

    distinct, place = _distinct(replica, prompt)
    prepared = prepare(question)
    limit = step_tokens(prepared)
    known: dict[tuple[int, int, int], int] = {}
    owners, steps, times = [], [], []
    for owner, (count, tokens) in enumerate(distinct):
        for cut in prefill_cuts(limit, count, tokens):
            key = (cut.count, cut.tokens, cut.before)
            owners.append(owner)
            steps.append(known.setdefault(key, len(known)))
            times.append(cut.times)
    sizes = np.array(list(known), dtype=float).reshape(-1, 3)
    step = prefill(*sizes.T)
    time_s = batch_step_s(wall_of(prepared), step, times_s(question, step, chunk))
    counted = np.array(times, dtype=float)
    sums = (np.bincount(owners, each, len(distinct)) for each in (counted * time_s[steps], counted))
    ttft_s, number = (each[place] for each in sums)
    return ttft_s, number


def _distinct(replica: Array, prompt: Array) -> tuple[list[tuple[int, int]], Any]:
    import numpy as np

    codes, place = np.unique((replica * _ONE + prompt).astype(np.int64), return_inverse=True)
    return [divmod(code, _ONE) for code in codes.tolist()], place


def _decoded_s(
    question: Question, replica: Array, prompt: Array, output: Array, chunk: int
) -> Array:
    """Time of each batch's decode steps."""
    import numpy as np

    speculation = question.deployment.speculation
    contexts = list(decode_contexts(prompt, output))
    distinct, place = _distinct(
        np.tile(replica, len(contexts)), np.concatenate([context for context, _ in contexts])
    )
    count, context = np.array(distinct, dtype=float).reshape(-1, 2).T
    prepared, step = prepare(question), decode(count, context, drafted(question.deployment))
    time_s = batch_step_s(wall_of(prepared), step, times_s(question, step, chunk))
    found = drafting(prepared, count, context)
    if found:
        time_s = time_s + found.times * step_rows(found.prepared, found.step, chunk).step_s
    each_s = time_s[place].reshape(len(contexts), -1)
    total_s: Array = sum(steps * row for (_, steps), row in zip(contexts, each_s, strict=True))
    return total_s / yielded(speculation) if speculation else total_s
