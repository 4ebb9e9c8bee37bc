"""The checklist as computed what-ifs: each change is planned, and ranked by what it really buys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.cost.engine import flag_text
from planner.errors import PlannerError
from planner.plan.load import step_load
from planner.plan.memory import changed, held
from planner.plan.prepare import Prepared, prepare
from planner.plan.solve import SolvedStep, behaviour, solve_flags, solve_step
from planner.spec.conditions import holds
from planner.spec.question import Question
from planner.spec.types import Scalar

WORTH_SHOWING = 0.01
"""A change that buys less than one percent is noise to whoever has to make it."""


@dataclass(frozen=True)
class Advice:
    """One change, what it buys, and what it takes."""

    change: str
    """As ``--set`` takes it, or in words."""
    why: str
    step_s: float
    gain: float
    """Tokens per second against the plan's: 0.25 is a quarter more."""
    fits: bool
    lossless: bool
    """False where the change lowers numerical precision."""


@dataclass(frozen=True)
class _WhatIf:
    change: str
    why: str
    question: Question
    lossless: bool = True


def advise(question: Question) -> tuple[Advice, ...]:
    """What to change first, the largest gain first; changes under 1 % are left out.

    Throughput is compared, so that a larger batch counts by what it yields. Each what-if is a full
    plan of its step; one that cannot be built is left out.
    """
    prepared = prepare(question)
    solved = solve_step(prepared, step_load(question.deployment), modes=())
    rate = _rate(solved)
    found = [_judge(what_if, rate) for what_if in _what_ifs(prepared, solved)]
    found += _together(prepared, solved, rate)
    useful = [advice for advice in found if advice and advice.gain >= WORTH_SHOWING]
    return tuple(sorted(useful, key=lambda advice: (not advice.fits, -advice.gain)))


def _rate(solved: SolvedStep) -> float:
    """Tokens a second; steps a second for a graph that is no LLM."""
    return (solved.step.tokens or 1) / float(solved.chosen.timeline.time_s)


def _judge(what_if: _WhatIf, rate: float) -> Advice | None:
    try:
        prepared = prepare(what_if.question)
        step = step_load(what_if.question.deployment)
        solved = solve_step(prepared, step, modes=())
        fits = held(prepared, step).fits
    except PlannerError:
        return None
    gain = _rate(solved) / rate - 1
    time_s = solved.chosen.timeline.time_s
    return Advice(what_if.change, what_if.why, time_s, gain, fits, what_if.lossless)


def _what_ifs(prepared: Prepared, solved: SolvedStep) -> Iterator[_WhatIf]:
    yield from _flags(prepared, solved)
    yield from _formats(prepared)
    yield from _batch(prepared, solved)
    yield from _places(prepared, solved)


def _flags(prepared: Prepared, solved: SolvedStep) -> Iterator[_WhatIf]:
    """Flags of the engine, as for graphs or fused kernels, where turning them changes anything."""
    before = behaviour(solved.engine, solved.step, solved.graph)
    for name, flag in prepared.question.backend.flags.items():
        if not flag.tunable or not holds(flag.when, solved.engine.as_asked.facts):
            continue
        now = solved.engine.flags.get(name)
        for choice in flag.choices or (True, False):
            question = _with_flag(prepared.question, name, choice)
            engine = replace(prepared, question=question).engine(solved.step.kind)
            if choice != now and behaviour(engine, solved.step, solved.graph) != before:
                why = f"{flag.about} Now {flag_text(now)}."
                yield _WhatIf(f"backend.flags.{name}={flag_text(choice)}", why, question)


def _with_flag(question: Question, name: str, value: Scalar) -> Question:
    flags = {**question.deployment.backend.flags, name: value}
    return changed(question, backend={"flags": flags})


def _formats(prepared: Prepared) -> Iterator[_WhatIf]:
    question, formats = prepared.question, prepared.formats
    if formats.weights in {"bf16", "fp16", "fp32"} and "fp8" in question.gpu.matrix:
        fp8 = {"weights": "fp8", "activations": "fp8"}
        why = "half the weight bytes, and the FP8 rate where compute binds"
        yield _WhatIf(
            "precision.weights=fp8 precision.activations=fp8",
            why,
            changed(question, precision=fp8),
            lossless=False,
        )
    if formats.kv_cache in {"bf16", "fp16"} and prepared.graph.symbols & {"tokens"}:
        why = "half the KV bytes a decode step reads, twice the tokens that fit"
        yield _WhatIf(
            "precision.kv_cache=fp8",
            why,
            changed(question, precision={"kv_cache": "fp8"}),
            lossless=False,
        )


def _batch(prepared: Prepared, solved: SolvedStep) -> Iterator[_WhatIf]:
    """The batch up to M*, as far as memory goes."""
    deployment = prepared.question.deployment
    step = deployment.step
    if step is None or step.decode is None:
        return
    batch, replicas = step.decode.batch, deployment.parallel.data
    crossings = [
        cost.crossing_tokens
        for costs in solved.costs
        for cost in costs.nodes.values()
        if cost.crossing_tokens is not None
    ]
    most = held(prepared, solved.step).max_batch
    if not crossings or not most:
        return
    crossing = math.ceil(min(crossings)) * replicas
    target = min(crossing, most * replicas)
    if target <= batch:
        return
    limit = "M*, where the widest GEMM meets its ridge" if target == crossing else "all that fits"
    decode = step.decode.model_copy(update={"batch": target})
    change, question = f"step.decode.batch={target}", prepared.question
    places, each = _limit(solved), math.ceil(target / replicas)
    if places and each > places:
        change += f" backend.flags.max_num_seqs={each}"
        question = _with_flag(question, "max_num_seqs", each)
    why = f"weights are read once a step whatever the batch; {target} is {limit}"
    yield _WhatIf(change, why, changed(question, step={"decode": decode}))


def _places(prepared: Prepared, solved: SolvedStep) -> Iterator[_WhatIf]:
    """A limit of sequences that lies between two captured sizes, raised to the larger one."""
    places, sequences = _limit(solved), solved.step.sequences
    verified = solved.engine.verified
    if not places or not sequences or places * verified in solved.decision.sizes:
        return
    above = (size for size in solved.decision.sizes if size > places * verified)
    larger = min(above, default=0) // verified
    if larger > places >= sequences:
        why = f"graphs of whole steps end at a captured size, and {places} is none"
        question = _with_flag(prepared.question, "max_num_seqs", larger)
        yield _WhatIf(f"backend.flags.max_num_seqs={larger}", why, question)


def _limit(solved: SolvedStep) -> int | None:
    """Sequences that the engine runs at once, where a flag of this name says so."""
    return solved.engine.whole_flags.get("max_num_seqs")


def _together(prepared: Prepared, solved: SolvedStep, rate: float) -> list[Advice]:
    """The engine's fusion flags turned together; one alone is among the what-ifs already."""
    solution, flags = solve_flags(solved)
    if len(flags) < 2:  # noqa: PLR2004 - together means two
        return []
    time_s = solution.timeline.time_s
    gain = (solved.step.tokens or 1) / time_s / rate - 1
    change = " ".join(f"backend.flags.{name}={flag_text(value)}" for name, value in flags.items())
    fits = held(prepared, solved.step).fits
    return [Advice(change, "the engine's fusion flags together", time_s, gain, fits, lossless=True)]
