"""The memory of a plan, and the nearest change that would make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.cost.engine import Engine, flag_text
from planner.cost.memory import Budget, Fit, budget, fit
from planner.cost.profile import live_bytes
from planner.cost.reserve import levers
from planner.errors import SpecError
from planner.graph.types import ModelGraph
from planner.num import Number, maximum
from planner.ops.types import Load, SequenceGroup
from planner.plan.context import most_context
from planner.plan.load import StepLoad, step_load
from planner.plan.memory_types import MemoryPlan, StatesPlan
from planner.plan.prepare import Prepared, prepare, whole_graph
from planner.spec.question import Question
from planner.spec.types import DeploymentSpec

_WIDER = (2, 4, 8, 16)
_WORTH_LESS = 4
"""A context cut to less than a quarter is another deployment, not a change to this one."""
_UTILIZATION = 0.95
"""The most that engines' users set in practice; beyond it sampler warm-up runs out of memory."""


def memory_load(
    deployment: DeploymentSpec, step: StepLoad, lengths: tuple[Number, Number] | None = None
) -> Load:
    """What must be held at once: of a static batch, every sequence at its full length; of users in
    a closed loop, those that run, at their mean length with half of each output there.

    ``lengths`` are those of prompts and outputs where they are not the workload's own.
    """
    workload = deployment.workload
    if workload is None:
        return step.load
    prompt, output = lengths or (workload.input, workload.output)
    each = prompt + (output if workload.batch else output // 2)
    if workload.spread and not workload.batch:
        each = maximum(1, each * (1 - workload.spread / 2) // 1)
    return Load((SequenceGroup(step.load.sequences, 1, each),))


def prepared_budget(prepared: Prepared, engine: Engine, graph: ModelGraph) -> Budget:
    """The budget of one GPU of a stage, the engine perhaps with other flags than asked for."""
    question = prepared.question
    share, longest = question.deployment.memory.utilization, question.model.max_context
    return budget(graph, engine, prepared.device, share, longest)


def held(prepared: Prepared, step: StepLoad) -> Fit:
    """The step held against one GPU's budget: of a pipeline, that of its tightest stage.

    Every stage holds its layers' KV of all sequences, so the one with least room decides.
    """
    return min(
        (_held(prepared, step, stage) for stage in prepared.stages),
        key=lambda found: (-found.missing_bytes, found.kv_tokens),
    )


def stage_space(prepared: Prepared, kind: str, stage: ModelGraph) -> tuple[ModelGraph, Budget]:
    """What a GPU of a stage holds, with any draft model, and its budget in steps of a kind."""
    graph = stage
    if prepared.question.draft:
        graph = graph.beside(prepare(prepared.question.draft).graph)
    return graph, prepared_budget(prepared, prepared.engine(kind), graph)


def _held(prepared: Prepared, step: StepLoad, stage: ModelGraph) -> Fit:
    graph, space = stage_space(prepared, step.kind, stage)
    load = memory_load(prepared.question.deployment, step)
    if not load.groups:
        live = max(live_bytes(block, step.load) for block in graph.kinds)
        space = replace(space, activations_bytes=live)
    return fit(graph, space, load)


def memory_plan(prepared: Prepared, step: StepLoad) -> MemoryPlan:
    """Memory as the plan shows it."""
    found = held(prepared, step)
    space = found.budget
    return MemoryPlan(
        found.fits,
        space.capacity_bytes,
        space.visible_bytes,
        space.utilization,
        space.budget_bytes,
        space.weights_bytes,
        space.activations_bytes,
        space.runtime_bytes,
        space.graphs_bytes,
        space.graphs_inside,
        space.kv_available_bytes,
        found.kv_bytes,
        found.kv_bytes_per_token,
        found.kv_tokens,
        found.max_batch,
        found.max_context,
        found.missing_bytes,
        () if found.fits else tuple(_nearest(prepared, found)),
        found.state_bytes_per_sequence,
        space.context_bytes,
        space.kv_block_tokens,
        states=_states(space),
    )


def _states(space: Budget) -> StatesPlan | None:
    found = space.states
    if found is None:
        return None
    return StatesPlan(found.slots, found.each, found.sequences, found.drafted, found.bytes)


def _nearest(prepared: Prepared, found: Fit) -> Iterator[str]:
    """Changes that fit, as ``--set`` takes them, those that keep the load first."""
    deployment = prepared.question.deployment
    space = found.budget
    if space.utilization < _UTILIZATION and _fits(prepared, memory={"utilization": _UTILIZATION}):
        yield f"memory.utilization={_UTILIZATION}"
    asked = deployment.backend.flags
    for flag, value in levers(prepared.engine("decode")):
        if _fits(prepared, backend={"flags": {**asked, flag: value}}):
            yield f"backend.flags.{flag}={flag_text(value)}"
    if prepared.formats.kv_cache not in {"fp8", "nvfp4"} and _fits(
        prepared, precision={"kv_cache": "fp8"}
    ):
        yield "precision.kv_cache=fp8"
    yield from _narrower(prepared)
    yield from _shared(prepared)
    yield from _wider(prepared)
    if found.max_batch:
        yield from _smaller(deployment, "batch", found.max_batch * deployment.parallel.data)
    longest = max((g.kv_tokens for g in step_load(deployment).load.groups), default=0)
    if found.max_context and found.max_context >= longest / _WORTH_LESS:
        yield from _smaller(deployment, "context", found.max_context)


def _narrower(prepared: Prepared) -> Iterator[str]:
    """Weights in FP8 alone, or with their products where the engine has both or neither."""
    if prepared.formats.weights == "fp8":
        return
    if _fits(prepared, precision={"weights": "fp8"}):
        yield "precision.weights=fp8"
    elif _fits(prepared, precision={"weights": "fp8", "activations": "fp8"}):
        yield "precision.weights=fp8 --set precision.activations=fp8"


def _shared(prepared: Prepared) -> Iterator[str]:
    """Ranks that hold the same KV share it."""
    most = widest_context(prepared)
    if most > 1 and _fits(prepared, parallel={"context": most}):
        yield f"parallel.context={most}"


def widest_context(prepared: Prepared) -> int:
    """Ranks that could share a context beyond those that do; 1 where there are none."""
    parallel = prepared.question.deployment.parallel
    if parallel.tensor == 1:
        return 1
    most = most_context(parallel.tensor, whole_graph(prepared))
    return most if most > parallel.context else 1


def _wider(prepared: Prepared) -> Iterator[str]:
    """The fewest ranks that fit; experts lie over as many more of them."""
    parallel = prepared.question.deployment.parallel
    for ranks in _WIDER:
        expert = parallel.expert * ranks // parallel.tensor if parallel.expert > 1 else 1
        change = {"tensor": ranks, "expert": expert}
        if ranks > parallel.tensor and _fits(prepared, parallel=change):
            both = f" --set parallel.expert={expert}" if expert > 1 else ""
            yield f"parallel.tensor={ranks}{both}"
            return


def _smaller(deployment: DeploymentSpec, what: str, value: int) -> Iterator[str]:
    step, workload = deployment.step, deployment.workload
    if step and step.decode:
        yield f"step.decode.{what}={value}"
    elif step and step.prefill:
        yield f"step.prefill.{'tokens' if what == 'context' else what}={value}"
    elif workload and what == "batch":
        yield f"workload.{'batch' if workload.batch else 'concurrency'}={value}"
    elif workload and value > workload.input:
        yield f"workload.output={value - workload.input}"


def changed(question: Question, **changes: dict[str, Any]) -> Question:
    """The question with fields of its deployment's members replaced."""
    deployment = question.deployment
    update = {
        name: getattr(deployment, name).model_copy(update=fields)
        for name, fields in changes.items()
    }
    made = deployment.model_copy(update=update)
    return replace(question, deployment=made)


def _fits(prepared: Prepared, **changes: dict[str, Any]) -> bool:
    """Whether the changed deployment fits; one that cannot be built does not."""
    question = changed(prepared.question, **changes)
    try:
        return held(prepare(question), step_load(question.deployment)).fits
    except SpecError:
        return False
