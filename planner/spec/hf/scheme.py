"""A checkpoint's quantisation in the words of a model spec: `weights`, `quantization`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.spec.hf.draft import Draft
from planner.spec.hf.modules import Blocks, Layer, everywhere, layers_of, meant, rules, unaimed
from planner.spec.hf.quantization import Other, Stored
from planner.spec.hf.tower import Tower
from planner.spec.hf.tower_scheme import EVERY, kept_wide, labels, scoped

_WIDE = re.compile(
    r"lm_head|embed|norm|vision|visual|multi_modal|projector|router|gate\b|audio|tower|bias|mtp|"
    r"layers\.\d+$"
)
"""Modules that our blocks keep wide too, towers that a text model lacks, layers that only draft."""
_SHOWN = 6


def quantization(
    found: Stored, draft: Draft, blocks: Blocks, wide: str, tower: Tower | None = None
) -> dict[str, Any]:
    """The `quantization` of a model; empty where nothing is quantised.

    A pattern that means nothing of the model's blocks says nothing: engines keep the LM head,
    norms and routers wide by themselves. Rules for the text model's nodes name its blocks where a
    tower in front of it has nodes of the same names and is quantised too.
    """
    if found.weights is None:
        return {}
    layers = layers_of(draft.sequence, blocks)
    said: dict[str, Any] = {"weights": found.weights}
    if found.activations:
        said["activations"] = found.activations
    if found.scales and found.activations == "fp8":
        said["scales"] = found.scales
    if found.kv_cache:
        said["kv_cache"] = found.kv_cache
    kept = _kept(found, layers)
    _told(found, layers_of(draft.sequence, blocks, wide=True))
    whole = everywhere(kept, layers)
    some = {node: numbers for node, numbers in kept.items() if node not in whole}
    modules = list(rules(some, layers, {"weights": wide}))
    for other in found.others:
        modules += rules(meant(other.patterns, layers), layers, _formats(other, wide))
    if tower:
        first = kept_wide(found, tower, blocks)
        if first != [EVERY]:
            whole = scoped(whole, draft.sequence, tower, blocks)
            modules = [_scoped(rule, draft, tower, blocks) for rule in modules]
        whole = [*first, *whole]
    if whole:
        said["ignore"] = whole
    if modules:
        said["modules"] = modules
    return said


def _kept(found: Stored, layers: list[Layer]) -> dict[str, frozenset[int]]:
    """Nodes that stay wide, and in which layers."""
    kept = meant(found.kept, layers)
    return unaimed(meant(found.aims, layers), kept, layers) if found.aims else kept


def _told(found: Stored, every: list[Layer]) -> None:
    """Note patterns that mean nothing, of the nodes that our blocks keep wide either."""
    odd = [each for each in found.kept if not _WIDE.search(each) and not meant([each], every)]
    if odd:
        found.notes.append(f"kept wide, and in none of the blocks: {', '.join(odd[:_SHOWN])}")


def _scoped(rule: dict[str, Any], draft: Draft, tower: Tower, blocks: Blocks) -> dict[str, Any]:
    """A rule for the text model's layers that means nothing in its tower's."""
    given = rule.get("match")
    nodes = [given] if isinstance(given, str) else given
    found = scoped(nodes, draft.sequence, tower, blocks) if nodes else labels(draft.sequence)
    return {"match": found[0] if len(found) == 1 else found, **_without(rule, "match")}


def _without(rule: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in rule.items() if name != key}


def _formats(other: Other, wide: str) -> Mapping[str, str]:
    found = {"weights": other.weights or wide}
    return found | ({"activations": other.activations} if other.activations else {})
