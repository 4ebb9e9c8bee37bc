"""The engine of a question, resolved once for all plans that ask for the same."""

from __future__ import annotations

from functools import lru_cache

from planner.cost.engine import Engine, resolve
from planner.ops.registry import OPERATORS
from planner.ops.types import Formats
from planner.plan.memo import remembered
from planner.spec.question import Question
from planner.spec.types import GpuSpec, Scalar


def engine_of(question: Question, formats: Formats, kind: str) -> Engine:
    """The engine as a step of that kind sees it. Raises SpecError as ``resolve`` does."""
    deployment, spec, gpu = question.deployment, question.backend, question.gpu
    parallel, asked, layer = deployment.parallel, deployment.backend, question.model.layer
    states = _keeps_states(question.operators)
    key = (
        "engine",
        (id(spec), id(gpu), asked.version, kind),
        tuple((name, type(value), value) for name, value in asked.flags.items()),
        tuple(parallel.model_dump().values()),
        (deployment.speculation.tokens if deployment.speculation else None, question.drafting),
        (layer, states),
        (formats.weights, formats.matmul, formats.activations, formats.kv_cache, formats.scales),
    )

    def make() -> tuple[GpuSpec, Engine]:
        model: dict[str, Scalar] = {"layer": layer, "states": states}
        engine = resolve(deployment, spec, gpu, formats, kind, model=model)
        return gpu, engine.drafting(question.drafting) if question.drafting else engine

    kept, engine = remembered(key, make)
    # an id may be that of a spec that is gone
    found: Engine = engine if kept is gpu and engine.spec is spec else make()[1]
    return found


@lru_cache(maxsize=256)
def _keeps_states(operators: frozenset[str]) -> bool:
    """Whether any of them has a state per sequence that tokens change."""
    found = map(OPERATORS.get, operators)
    return any(operator.recurrent for operator in found if operator)
