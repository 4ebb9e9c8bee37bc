"""A static batch, from its steps: prefill in the engine's chunks, then decode at growing context.

Latency = TTFT + (output − 1) decode steps. A decode step's time is piecewise affine in the context,
so the sum is taken by the trapezoid rule over a few contexts. Each step counts with the engine's
loop around it (`planner.plan.wall`). Leaves out queueing, the front end and prefill of one request
beside decode of another: those belong to the serving model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from planner.cost.scheduler import scheduler
from planner.num import Number, ceil_div, maximum, where
from planner.plan.load import StepLoad, decode, drafted, prefill, share
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
    deployment = prepared.question.deployment
    batch, drafts = share(workload, deployment.parallel.data), drafted(deployment)
    filling, wall = prefill_steps(prepared, batch, workload.input), wall_of(prepared)
    ttft_s = sum(times * _time(prepared, wall, step) for step, times in filling)
    decode_s: Number = 0.0
    for context, steps in _contexts(workload):
        time_s = _time(prepared, wall, decode(batch, context, drafts))
        decode_s += steps * (time_s + draft_s(prepared, batch, context))
    if deployment.speculation:  # as many fewer steps as each yields more tokens
        decode_s /= yielded(deployment.speculation)
    asked = Batch(workload.batch or 1, workload.input, workload.output)
    return batch_plan(asked, ttft_s, decode_s, sum(times for _, times in filling))


@dataclass(frozen=True, eq=False)
class Batch:
    """A static batch, or arrays of them."""

    batch: Number
    """Requests over all replicas."""
    input: Number
    output: Number


def batch_plan(asked: Batch, ttft_s: Number, decode_s: Number, steps: Number) -> WorkloadPlan:
    """What a static batch's prefill and all its decode steps come to."""
    latency_s, later = ttft_s + decode_s, asked.output - 1
    return WorkloadPlan(
        asked.batch,
        asked.input,
        asked.output,
        ttft_s,
        where(later > 0, decode_s / maximum(later, 1), 0.0),
        latency_s,
        asked.batch * asked.output / latency_s,
        steps,
    )


@dataclass(frozen=True)
class Cut:
    """Equal steps of a prefill: ``times`` steps of ``count`` prompts, ``tokens`` of each."""

    count: int
    tokens: int
    before: int
    times: int


def prefill_steps(prepared: Prepared, batch: int, tokens: int) -> list[tuple[StepLoad, int]]:
    """The prefill of a batch as equal steps under the engine's token budget."""
    cuts = prefill_cuts(step_tokens(prepared), batch, tokens)
    return [(prefill(cut.count, cut.tokens, cut.before), cut.times) for cut in cuts]


def prefill_cuts(limit: int, batch: int, tokens: int) -> list[Cut]:
    """The prefill of a batch as equal steps of up to ``limit`` tokens.

    Whole prompts share a step while they fit; a longer prompt is cut into chunks, each attending
    to the ones before it.
    """
    if tokens <= limit:
        together = max(1, min(batch, limit // tokens))
        full, rest = divmod(batch, together)
        steps = [Cut(together, tokens, 0, full)]
        return steps + ([Cut(rest, tokens, 0, 1)] if rest else [])
    chunks = int(ceil_div(tokens, limit))
    size = int(ceil_div(tokens, chunks))
    return [Cut(1, min(size, tokens - start), start, batch) for start in range(0, tokens, size)]


def step_tokens(prepared: Prepared) -> int:
    """Most prompt tokens in one step, as the engine's scheduler has it."""
    engine = prepared.engine("prefill")
    if engine.spec.serving is None:
        return _DEFAULT_TOKENS
    return scheduler(engine, prepared.question.model.max_context or _DEFAULT_TOKENS).tokens


def decode_contexts(prompt: Number, output: Number) -> Iterator[tuple[Number, Number]]:
    """Contexts at which decode steps are timed, and how many steps each stands for.

    Prefill yields the first token; the step that yields token n + 1 reads token n and the
    prompt + n − 1 before it. So contexts are prompt + 1 … prompt + output − 1.
    """
    count = output - 1
    reach, last = maximum(count - 1, 0), _KNOTS - 1
    knots = [prompt + 1 + reach * i // last for i in range(_KNOTS)]
    for i, context in enumerate(knots):
        width = knots[min(i + 1, last)] - knots[max(i - 1, 0)]
        yield context, where(reach > 0, count * width / maximum(reach, 1) / 2, count / _KNOTS)


def _contexts(workload: Workload) -> Iterator[tuple[int, float]]:
    """The same of one batch, each context once."""
    found: defaultdict[int, float] = defaultdict(float)
    for context, steps in decode_contexts(workload.input, workload.output):
        found[context] += steps
    return ((context, steps) for context, steps in found.items() if steps)


def decode_steps(batch: int, workload: Workload) -> list[tuple[StepLoad, float]]:
    """The decode steps whose times are taken, and how many steps each stands for."""
    return [(decode(batch, context), steps) for context, steps in _contexts(workload)]


def _time(prepared: Prepared, wall: Wall | None, step: StepLoad) -> float:
    solved = solve_step(for_step(prepared, step), step, modes=())
    return float(batch_step_s(wall, step, float(solved.chosen.timeline.time_s)))
