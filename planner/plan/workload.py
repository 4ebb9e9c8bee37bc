"""A static batch, from its steps: prefill in the engine's chunks, then decode at growing context.

Latency = TTFT + (output − 1) decode steps. A decode step's time is piecewise affine in the context,
so the sum is taken by the trapezoid rule over a few contexts. Each step counts with the engine's
loop around it (`planner.plan.wall`). Leaves out queueing, the front end and prefill of one request
beside decode of another: those belong to the serving model.
"""

from __future__ import annotations

from planner.cost.scheduler import scheduler
from planner.num import ceil_div
from planner.plan.load import StepLoad, decode, prefill, share
from planner.plan.prepare import Prepared, for_step
from planner.plan.solve import solve_step
from planner.plan.speculation import draft_s, yielded
from planner.plan.types import WorkloadPlan
from planner.plan.wall import Wall, batch_step_s, wall_of
from planner.spec.types import Workload

_KNOTS = 5
_DEFAULT_TOKENS = 8192
"""Prompt tokens in one step of an engine without a scheduler; a context that no model states."""


def workload_plan(prepared: Prepared, workload: Workload) -> WorkloadPlan:
    """Latency, TTFT, TPOT and throughput of a static batch."""
    batch = share(workload, prepared.question.deployment.parallel.data)
    steps, wall = prefill_steps(prepared, batch, workload.input), wall_of(prepared)
    ttft_s = sum(times * _time(prepared, wall, step) for step, times in steps)
    decode_s = _decode_s(prepared, wall, batch, workload)
    latency_s = ttft_s + decode_s
    tokens = (workload.batch or 1) * workload.output
    later = workload.output - 1
    return WorkloadPlan(
        workload.batch or 1,
        workload.input,
        workload.output,
        ttft_s,
        decode_s / later if later else 0.0,
        latency_s,
        tokens / latency_s,
        sum(times for _, times in steps),
    )


def prefill_steps(prepared: Prepared, batch: int, tokens: int) -> list[tuple[StepLoad, int]]:
    """The prefill of a batch as equal steps under the engine's token budget.

    Whole prompts share a step while they fit; a longer prompt is cut into chunks, each attending
    to the ones before it.
    """
    limit = _step_tokens(prepared)
    if tokens <= limit:
        together = max(1, min(batch, limit // tokens))
        full, rest = divmod(batch, together)
        steps = [(prefill(together, tokens), full)]
        return steps + ([(prefill(rest, tokens), 1)] if rest else [])
    chunks = int(ceil_div(tokens, limit))
    size = int(ceil_div(tokens, chunks))
    cuts = [min(size, tokens - start) for start in range(0, tokens, size)]
    return [(prefill(1, cut, size * position), batch) for position, cut in enumerate(cuts)]


def _step_tokens(prepared: Prepared) -> int:
    """Most prompt tokens in one step, as the engine's scheduler has it."""
    engine = prepared.engine("prefill")
    if engine.spec.serving is None:
        return _DEFAULT_TOKENS
    return scheduler(engine, prepared.question.model.max_context or _DEFAULT_TOKENS).tokens


def _decode_s(prepared: Prepared, wall: Wall | None, batch: int, workload: Workload) -> float:
    """Σ over the decode steps, whose contexts are input + 1 … input + output − 1.

    Prefill yields the first token; the step that yields token n + 1 reads token n and the
    input + n − 1 before it.
    """
    count = workload.output - 1
    if count == 0:
        return 0.0
    first, last = workload.input + 1, workload.input + workload.output - 1
    knots = _knots(first, last)
    asked = prepared.question.deployment.speculation
    drafts = asked.tokens if asked else 0
    times = [
        _time(prepared, wall, decode(batch, context, drafts)) + draft_s(prepared, batch, context)
        for context in knots
    ]
    if asked:  # as many fewer steps as each yields more tokens
        times = [time_s / yielded(asked) for time_s in times]
    if len(knots) == 1:
        return times[0] * count
    area = sum(
        (b - a) * (s + t) / 2
        for a, b, s, t in zip(knots, knots[1:], times, times[1:], strict=False)
    )
    return area / (last - first) * count


def _knots(first: int, last: int) -> list[int]:
    return sorted({first + (last - first) * i // (_KNOTS - 1) for i in range(_KNOTS)})


def decode_steps(batch: int, workload: Workload) -> list[tuple[StepLoad, float]]:
    """The decode steps whose times are taken, and how many steps each stands for."""
    count = workload.output - 1
    if count == 0:
        return []
    first, last = workload.input + 1, workload.input + count
    knots = _knots(first, last)
    if len(knots) == 1:
        return [(decode(batch, first), float(count))]
    scale = count / (last - first) / 2
    reach = [knots[0], *knots, knots[-1]]
    return [(decode(batch, knots[i]), (reach[i + 2] - reach[i]) * scale) for i in range(len(knots))]


def _time(prepared: Prepared, wall: Wall | None, step: StepLoad) -> float:
    solved = solve_step(for_step(prepared, step), step, modes=())
    return batch_step_s(wall, step, float(solved.chosen.timeline.time_s))
