"""How a deployment lays a model's experts over its GPUs, as its engine does it."""

from __future__ import annotations

from typing import cast

from planner.cost.engine import resolve
from planner.errors import SpecError
from planner.graph.types import ModelGraph
from planner.ops.moe import Moe
from planner.ops.moe_load import Routing
from planner.ops.types import Exchange, ExpertLayout, Formats
from planner.plan.load import step_load
from planner.spec.conditions import first
from planner.spec.question import Question
from planner.spec.types import DeploymentSpec


def expert_layout(question: Question, chosen: Formats) -> ExpertLayout:
    """Experts within each replica's tensor ranks, or over those of all replicas."""
    parallel = question.deployment.parallel
    if parallel.expert <= parallel.tensor:
        return ExpertLayout(parallel.tensor, parallel.expert, context=parallel.context)
    deployment, backend, gpu = question.deployment, question.backend, question.gpu
    engine = resolve(deployment, backend, gpu, chosen, step_load(deployment).kind)
    choice = first(backend.exchange, engine.facts)
    exchange = cast("Exchange", choice.value if choice else "gather")
    sizes = parallel.tensor, parallel.expert, parallel.data
    return ExpertLayout(*sizes, exchange, parallel.context)


def check_experts(deployment: DeploymentSpec, graph: ModelGraph) -> None:
    """Refuse expert parallelism of a model without experts. Raises SpecError."""
    if deployment.parallel.expert == 1:
        return
    if not any(isinstance(node.op, Moe) for block in graph.kinds for node in block.nodes):
        origin = deployment.origin.at("parallel", "expert")
        message = f"{graph.name} has no routed experts to share out"
        raise SpecError([origin.fault(message, "set parallel.expert: 1")])


def routing(deployment: DeploymentSpec) -> Routing:
    """How its routers are taken to choose."""
    return Routing(deployment.experts.load, deployment.experts.alpha)
