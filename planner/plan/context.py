"""May ranks share a context: by the engine, by the model's heads, and how many of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from planner.cost.engine import Engine
from planner.errors import SpecError
from planner.graph.types import ModelGraph, Node
from planner.ops.attention import AttentionScores
from planner.ops.heads import Heads
from planner.ops.indexer import IndexCacheWrite
from planner.ops.mla import MlaCacheWrite
from planner.ops.types import ExpertLayout
from planner.spec.conditions import holds, refusals, version_key
from planner.spec.types import DeploymentSpec

Ranks = Literal["tensor", "own"]


def check_context(deployment: DeploymentSpec, engine: Engine, whole: ModelGraph) -> None:
    """Refuse ranks that share contexts or prompts where engine or model don't.

    ``whole`` is the model's graph on one rank. Raises SpecError at the size that asks for it.
    """
    for field, ranks, what in _FIELDS:
        if getattr(deployment.parallel, field) == 1:
            continue
        asked = deployment.backend.version or engine.version
        found = list(_of_engine(asked, engine, whole, ranks, what))
        if ranks == "tensor":
            found += _of_heads(deployment, whole)
        if found:
            message, hint = found[0]
            place = deployment.origin.at("parallel", field)
            raise SpecError([place.fault(message, hint or f"set parallel.{field}: 1")])


def check_prompts(deployment: DeploymentSpec, layout: ExpertLayout, kind: str) -> None:
    """Refuse steps with prompts on ranks that decode alone, as Helix's do. Raises SpecError."""
    if layout.context > 1 and layout.queries == "repeat" and kind != "decode":
        message = "these ranks decode alone, and the workload has prompts"
        hint = "give them as pools.decode, behind a pool that prefills; or set parallel.context: 1"
        raise SpecError([deployment.origin.at("parallel", "context").fault(message, hint)])


_FIELDS: tuple[tuple[str, Ranks, str], ...] = (
    ("context", "tensor", "spread the cache of {} attention over tensor ranks"),
    ("prefill_context", "own", "spread prompts of {} attention over ranks of their own"),
)


def most_context(tensor: int, whole: ModelGraph) -> int:
    """Ranks that hold the same cache without a shared context: 1 where heads part it fully.

    Tensor ranks past the KV heads hold copies, all of them where one latent serves all heads.
    """
    heads = _grouped(whole)
    if heads:
        return max(1, tensor // max(each.kv_heads for each in heads))
    return tensor if "latent" in _kinds(whole) else 1


def _of_engine(
    asked: str, engine: Engine, whole: ModelGraph, ranks: Ranks, what: str
) -> Iterator[tuple[str, str]]:
    """Why the engine does not, and what to do; no word where nothing but 1 helps."""
    title, kinds = engine.spec.title, _kinds(whole)
    for kind in kinds:
        said = what.format(kind)
        rules = [r for r in engine.spec.context if (r.attention, r.ranks) == (kind, ranks)]
        due = [rule for rule in rules if version_key(rule.since) <= version_key(asked)]
        if not rules:
            yield f"no described version of {title} can {said}", ""
        elif not due:
            first = min(rules, key=lambda rule: version_key(rule.since)).since
            hint = f"{title} can from {first} on: set backend.version: '{first}'"
            yield f"{title} {asked} cannot {said}", hint
        elif not any(holds(rule.when, engine.facts) for rule in due):
            hint = "; ".join(refusals(due[0].when, engine.facts))
            yield f"{title} cannot {said} as asked", hint
    if not kinds:
        yield f"{whole.name} keeps no KV cache", ""


def _of_heads(deployment: DeploymentSpec, whole: ModelGraph) -> Iterator[tuple[str, str]]:
    """Why the ranks do not share a context evenly. Source: vllm@0.26.0 config/model.py:1249."""
    tensor, context = deployment.parallel.tensor, deployment.parallel.context
    for heads in _grouped(whole):
        copies, rest = divmod(tensor, heads.kv_heads)
        said = f"{tensor} ranks hold each of {heads.kv_heads} KV heads {max(1, copies)} times"
        if rest or copies <= 1:
            yield f"{said}: there is nothing to share", ""
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
