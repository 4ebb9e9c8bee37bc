"""Towers that an engine does not hold: models that read images, served for text alone."""

from __future__ import annotations

from planner.cost.engine import Engine
from planner.errors import SpecError
from planner.graph.types import ModelGraph
from planner.spec.conditions import first
from planner.spec.types import Choice, DeploymentSpec


def text_alone(graph: ModelGraph, engine: Engine) -> Choice | None:
    """The engine's rule by which it holds no tower of this model; None where it holds one.

    A text model that attends to its encoder's output cannot do without, whatever the rules say.
    """
    if graph.encoder is None or "cross_attention" in graph.op_names:
        return None
    found = first(engine.spec.encoder, engine.facts)
    return found if found and found.value is False else None


def held(graph: ModelGraph, engine: Engine, deployment: DeploymentSpec) -> ModelGraph:
    """What the engine holds of a model's graph.

    Raises SpecError where a step brings items for a tower that is not there.
    """
    rule = text_alone(graph, engine)
    if rule is None:
        return graph
    prefill = deployment.step.prefill if deployment.step else None
    if prefill and prefill.items:
        message = f"{engine.spec.title} holds no tower here: {rule.note}"
        origin = deployment.origin.at("step", "prefill", "items")
        raise SpecError([origin.fault(message, "leave items out, or hold the tower")])
    return graph.alone
