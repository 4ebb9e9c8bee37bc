"""May ranks share a context: by the engine, by the model's heads, and how many of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from planner.cost.engine import Engine
from planner.errors import SpecError
from planner.graph.types import ModelGraph, Node
from planner.ops.attention import AttentionScores
from planner.ops.heads import Heads
from planner.ops.indexer import IndexCacheWrite
from planner.ops.mla import MlaCacheWrite
from planner.spec.conditions import holds, refusals, version_key
from planner.spec.types import ContextRule, DeploymentSpec


def check_context(deployment: DeploymentSpec, engine: Engine, whole: ModelGraph) -> None:
    """Refuse ranks that share a context where engine or model don't.

    ``whole`` is the model's graph on one rank. Raises SpecError at `parallel.context`.
    """
    if deployment.parallel.context == 1:
        return
    origin = deployment.origin.at("parallel", "context")
    by_engine = _of_engine(deployment.backend.version, engine, whole)
    found = next(chain(by_engine, _of_heads(deployment, whole)), None)
    if found:
        raise SpecError([origin.fault(*found)])


def most_context(tensor: int, whole: ModelGraph) -> int:
    """Ranks that hold the same cache without a shared context: 1 where heads part it fully.

    Tensor ranks past the KV heads hold copies, all of them where one latent serves all heads.
    """
    heads = _grouped(whole)
    if heads:
        return max(1, tensor // max(each.kv_heads for each in heads))
    return tensor if "latent" in _kinds(whole) else 1


def _of_engine(asked: str | None, engine: Engine, whole: ModelGraph) -> Iterator[tuple[str, str]]:
    """Why the engine does not, and what to do."""
    title, asked = engine.spec.title, asked or engine.version
    for kind in _kinds(whole):
        rules = [rule for rule in engine.spec.context if rule.attention == kind]
        said = f"{title} {asked} does not spread the cache of {kind} attention over ranks"
        if not rules:
            message = f"no described version of {title} spreads the cache of {kind} attention"
            yield f"{message} over ranks", "set parallel.context: 1"
            continue
        due = [rule for rule in rules if version_key(rule.since) <= version_key(asked)]
        if not due:
            first = min(rules, key=lambda rule: version_key(rule.since)).since
            yield said, f"{title} does from {first} on: set backend.version: '{first}'"
        elif not any(holds(rule.when, engine.facts) for rule in due):
            yield said, _wanted(due[0], engine)


def _wanted(rule: ContextRule, engine: Engine) -> str:
    return "; ".join(refusals(rule.when, engine.facts))


def _of_heads(deployment: DeploymentSpec, whole: ModelGraph) -> Iterator[tuple[str, str]]:
    """Why the ranks do not share a context evenly. Source: vllm@0.26.0 config/model.py:1249."""
    tensor, context = deployment.parallel.tensor, deployment.parallel.context
    if not _kinds(whole):
        yield f"{whole.name} keeps no KV cache", "set parallel.context: 1"
    for heads in _grouped(whole):
        copies, rest = divmod(tensor, heads.kv_heads)
        said = f"{tensor} ranks hold each of {heads.kv_heads} KV heads {max(1, copies)} times"
        if rest or copies < 2:
            yield f"{said}: there is nothing to share", "set parallel.context: 1"
        elif copies % context:
            yield f"{said}, which {context} do not divide", f"a divisor of {copies}"
        elif heads.heads // heads.kv_heads % context:
            each = heads.heads // heads.kv_heads
            yield f"{each} heads share a KV head, which {context} do not divide", "use fewer ranks"


def _grouped(whole: ModelGraph) -> list[Heads]:
    shapes = [node.op.shape for node in _nodes(whole) if isinstance(node.op, AttentionScores)]
    return [heads for heads in dict.fromkeys(shapes) if heads.cached]


def _kinds(whole: ModelGraph) -> list[str]:
    """Kinds of attention whose cache grows with the context."""
    grouped, nodes = _grouped(whole), list(_nodes(whole))
    sparse = any(isinstance(node.op, IndexCacheWrite) for node in nodes)
    found = {
        "windowed": any(heads.reach for heads in grouped),
        "sparse": sparse,
        "grouped": bool(grouped),
        "latent": not sparse and any(isinstance(node.op, MlaCacheWrite) for node in nodes),
    }
    return [kind for kind, there in found.items() if there]


def _nodes(whole: ModelGraph) -> Iterator[Node]:
    return (node for block in whole.kinds for node in block.nodes)
