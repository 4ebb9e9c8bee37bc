"""How a deployment lays a model over its GPUs, as its engine does it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from planner.cost.engine import Engine
from planner.dtypes import bytes_per_element
from planner.errors import SpecError
from planner.graph.types import ModelGraph
from planner.ops import OPERATORS
from planner.ops.layout import Queries
from planner.ops.moe import Moe
from planner.ops.moe_load import Routing
from planner.ops.types import Exchange, ExpertLayout, Formats
from planner.plan.engines import engine_of
from planner.plan.load import StepLoad
from planner.spec.conditions import first
from planner.spec.expr import evaluate
from planner.spec.question import Question
from planner.spec.types import DeploymentSpec


def layout_of(question: Question, chosen: Formats, step: StepLoad) -> ExpertLayout:
    """How the ranks of a deployment share a step: experts, contexts, and rows where all do alike.

    Experts lie within each replica's tensor ranks, or over those of all replicas.
    """
    parallel = question.deployment.parallel
    layout = ExpertLayout(
        parallel.tensor,
        parallel.expert,
        context=parallel.context,
        queries=_queries(question),
        prompts=parallel.prefill_context,
    )
    if parallel.gpus == 1:
        return layout
    engine = engine_of(question, chosen, step.kind)
    if parallel.expert > parallel.tensor and parallel.prefill_context > 1:
        # Source: vllm@0.26.0 layers/fused_moe/runner/moe_runner.py:759, :778
        layout = replace(layout, replicas=parallel.prefill_context)
    elif parallel.expert > parallel.tensor:
        choice = first(question.backend.exchange, engine.facts)
        exchange = cast("Exchange", choice.value if choice else "gather")
        layout = replace(layout, replicas=parallel.data, exchange=exchange)
    return replace(layout, sequence=_shares_rows(question, engine, chosen, step))


def _queries(question: Question) -> Queries:
    """How the engine's tensor ranks that share a context come by all their heads' queries."""
    shared = (rule for rule in question.backend.context if rule.ranks == "tensor")
    return next((rule.queries for rule in shared), "gather")


def _shares_rows(question: Question, engine: Engine, chosen: Formats, step: StepLoad) -> bool:
    """Whether the engine runs a step of that size with sequence parallelism."""
    tensor, hidden = question.deployment.parallel.tensor, question.model.dims.get("hidden")
    rule = first(question.backend.sequence, engine.facts)
    if rule is None or tensor == 1 or not step.tokens or not isinstance(hidden, int):
        return False
    least = float(evaluate(rule.min_tokens, engine.whole_flags))
    if rule.min_bytes is not None:
        least = rule.min_bytes * tensor // (hidden * bytes_per_element(chosen.activations))
    return hidden >= rule.min_hidden and step.tokens >= least


def has_experts(question: Question) -> bool:
    """Whether the model has routed experts."""
    blocks = (*question.blocks.values(), *question.model.blocks.values())
    ops = {node.op for block in blocks for node in block.nodes.values()}
    return any(OPERATORS.get(name) is Moe for name in ops)


def check_experts(deployment: DeploymentSpec, graph: ModelGraph) -> None:
    """Refuse expert parallelism of a model without experts, and of experts some ranks of a replica.

    Groups of ranks that share prompts share all experts. Raises SpecError.
    """
    parallel, origin = deployment.parallel, deployment.origin
    routed = any(isinstance(node.op, Moe) for block in graph.kinds for node in block.nodes)
    if parallel.expert > 1 and not routed:
        message = f"{graph.name} has no routed experts to share out"
        place = origin.at("parallel", "expert")
        raise SpecError([place.fault(message, "set parallel.expert: 1")])
    ranks = parallel.tensor * parallel.prefill_context
    if routed and parallel.prefill_context > 1 and parallel.expert != ranks:
        message = f"experts over other than all {ranks} ranks that share prompts are not described"
        place = origin.at("parallel", "prefill_context")
        raise SpecError([place.fault(message, f"set parallel.expert: {ranks}")])


def routing(deployment: DeploymentSpec) -> Routing:
    """How its routers are taken to choose."""
    return Routing(deployment.experts.load, deployment.experts.alpha)
