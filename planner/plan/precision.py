"""The formats of every module of a question's model, as its engine runs them on its GPU."""

from __future__ import annotations

from planner.graph.formats import asked
from planner.graph.modules import Scheme
from planner.graph.scheme import Engine, scheme
from planner.plan.engines import engine_of
from planner.plan.memo import remembered
from planner.spec.conditions import first
from planner.spec.question import Question


def scheme_of(question: Question) -> Scheme:
    """What runs, and notes on it. Raises SpecError for what GPU or engine cannot run."""
    deployment, gpu, backend = question.deployment, question.gpu, question.backend
    wanted = asked(deployment, question.model, gpu)
    running = engine_of(question, wanted.formats, "decode")
    blocks = (*question.blocks.values(), *question.model.blocks.values())
    ops = tuple(dict.fromkeys(node.op for block in blocks for node in block.nodes.values()))

    def make() -> Scheme:
        facts, kept = running.as_asked.facts, backend.memory.states
        states = first(kept.format, facts) if kept else None
        said = str(states.value) if states else ""
        engine = Engine(backend.title, backend.formats, facts, said)
        return scheme(wanted, gpu, ops, engine, deployment.origin)

    found: Scheme = remembered(("scheme", running, wanted, ops), make)
    return found


def described(scheme: Scheme) -> str:
    """The formats in words, those of modules after those of the rest."""
    formats = scheme.formats
    said = (
        f"weights {formats.weights}, GEMMs {formats.matmul}, activations {formats.activations}, "
        f"KV cache {formats.kv_cache}"
    )
    if scheme.one_scale:
        said += ", one scale of activations"
    found: dict[str, list[str]] = {}
    for module in scheme.modules:
        weights, matmul = module.asked
        text = weights if weights == matmul else f"{weights} (GEMMs {matmul})"
        found.setdefault(text, []).append(module.described)
    return "; ".join([said, *(f"{', '.join(names)} {text}" for text, names in found.items())])


def hashed(scheme: Scheme) -> list[object]:
    """What of a scheme tells plans apart; a model of one format hashes as it always did."""
    formats = scheme.formats
    found: list[object] = [
        formats.weights,
        formats.matmul,
        formats.activations,
        formats.kv_cache,
    ]
    if scheme.one_scale:
        found.append("tensor")
    if scheme.modules:
        found.append(
            [
                [module.patterns, sorted(module.layers or ()), module.layers is None, module.asked]
                for module in scheme.modules
            ]
        )
    return found
