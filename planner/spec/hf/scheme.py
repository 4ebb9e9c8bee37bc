"""A checkpoint's quantisation in the words of a model spec: `weights`, `quantization`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.spec.hf.draft import Draft
from planner.spec.hf.modules import Blocks, everywhere, layers_of, meant, rules
from planner.spec.hf.quantization import Other, Stored

_WIDE = re.compile(
    r"lm_head|embed|norm|vision|visual|multi_modal|projector|router|gate\b|audio|tower|bias|mtp|"
    r"layers\.\d+$"
)
"""Modules that our blocks keep wide too, towers that a text model lacks, layers that only draft."""
_SHOWN = 6


def quantization(found: Stored, draft: Draft, blocks: Blocks, wide: str) -> dict[str, Any]:
    """The `quantization` of a model; empty where nothing is quantised.

    A pattern that means nothing of the model's blocks says nothing: engines keep the LM head,
    norms and routers wide by themselves, and towers are left out.
    """
    if found.weights is None:
        return {}
    layers = layers_of(draft.sequence, blocks)
    said: dict[str, Any] = {"weights": found.weights}
    if found.activations:
        said["activations"] = found.activations
    if found.kv_cache:
        said["kv_cache"] = found.kv_cache
    kept = meant(found.kept, layers)
    every = layers_of(draft.sequence, blocks, wide=True)
    odd = [each for each in found.kept if not _WIDE.search(each) and not meant([each], every)]
    if odd:
        found.notes.append(f"kept wide, and in none of the blocks: {', '.join(odd[:_SHOWN])}")
    if whole := everywhere(kept, layers):
        said["ignore"] = whole
    some = {node: numbers for node, numbers in kept.items() if node not in whole}
    modules = list(rules(some, layers, {"weights": wide}))
    for other in found.others:
        modules += rules(meant(other.patterns, layers), layers, _formats(other, wide))
    if modules:
        said["modules"] = modules
    return said


def _formats(other: Other, wide: str) -> Mapping[str, str]:
    found = {"weights": other.weights or wide}
    return found | ({"activations": other.activations} if other.activations else {})
