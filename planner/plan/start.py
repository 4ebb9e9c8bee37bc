"""Does the engine start, with how many KV tokens, and what single changes would free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.cost.engine import Engine, flag_text
from planner.cost.reserve import Reserve, levers
from planner.cost.start import Start, largest, start
from planner.errors import SpecError
from planner.plan.load import StepLoad
from planner.plan.memory import changed, memory_plan, prepared_budget, widest_context
from planner.plan.memory_types import FreedMemory, MemoryPlan, StartPlan
from planner.plan.prepare import Prepared, prepare
from planner.spec.types import Scalar

_STEP = 0.05
_MOST = 0.99
"""A share of all memory leaves no room for the CUDA context."""


def whole_memory_plan(prepared: Prepared, step: StepLoad) -> MemoryPlan:
    """The memory of a plan, with what start-up decides and what changes would free."""
    found, engine = memory_plan(prepared, step), prepared.engine(step.kind)
    now = start_of(prepared, engine)
    if now is None:
        return found
    freed = sorted(_freed(prepared, engine, now), key=lambda row: -row.kv_tokens)
    shown = StartPlan(
        now.starts,
        now.reason,
        now.max_model_len,
        now.sequence_bytes,
        now.pool_tokens,
        now.concurrency,
        _largest(prepared, engine, now),
    )
    return replace(found, start=shown, frees=tuple(freed))


def start_of(prepared: Prepared, engine: Engine) -> Start | None:
    """What start-up decides with these flags: of a pipeline, on its tightest stage.

    The scheduler takes the fewest blocks of any rank.
    """
    reserve = Reserve(engine, prepared.device, prepared.question.model.max_context)
    stages = (
        start(stage, prepared_budget(prepared, engine, stage), reserve) for stage in prepared.stages
    )
    found = [stage for stage in stages if stage]
    return min(found, key=lambda stage: (stage.starts, stage.pool_tokens), default=None)


def _largest(prepared: Prepared, engine: Engine, now: Start) -> int:
    flag = engine.spec.memory.longest
    if flag is None:
        return now.max_model_len if now.starts else 0

    def starts(length: int) -> bool:
        found = start_of(prepared, engine.with_flags({flag: length}))
        return found is not None and found.starts

    return largest(max(now.max_model_len, prepared.question.model.max_context or 0), starts)


def _freed(prepared: Prepared, engine: Engine, now: Start) -> Iterator[FreedMemory]:
    for change, other, turned in _changes(prepared, engine):
        found = start_of(other, turned)
        if found is None:
            continue
        more = found.available_bytes - now.available_bytes
        tokens = found.pool_tokens - now.pool_tokens
        if more or tokens:
            yield FreedMemory(change, more, tokens, found.starts)


def _changes(prepared: Prepared, engine: Engine) -> Iterator[tuple[str, Prepared, Engine]]:
    """Each change as ``--set`` takes it, the deployment it makes and its engine."""
    share = prepared_budget(prepared, engine, prepared.graph).utilization
    ranks = 2 * prepared.question.deployment.parallel.tensor
    wider = round(min(share + _STEP, _MOST), 3)
    asked: list[tuple[str, str, Scalar]] = [("parallel", "tensor", ranks)]
    if (shared := widest_context(prepared)) > 1:
        asked.append(("parallel", "context", shared))
    if wider > share:
        asked.append(("memory", "utilization", wider))
    if prepared.formats.kv_cache in {"bf16", "fp16"}:
        asked.append(("precision", "kv_cache", "fp8"))
    for member, field, value in asked:
        question = changed(prepared.question, **{member: {field: value}})
        try:
            # a share of memory changes no graph
            alike = member == "memory"
            other = replace(prepared, question=question) if alike else prepare(question)
            yield f"{member}.{field}={value}", other, other.engine(str(engine.facts["step"]))
        except SpecError:
            continue
    for flag, value in levers(engine):
        turned = engine.with_flags({flag: value})
        yield f"backend.flags.{flag}={flag_text(value)}", prepared, turned
