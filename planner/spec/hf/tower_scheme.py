"""A tower under a checkpoint's quantisation: what of it stays wide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.spec.hf.modules import Blocks, means, quantised
from planner.spec.hf.quantization import Stored
from planner.spec.hf.tower import Tower

EVERY = "vision-*"
"""All blocks of a tower, as a pattern of a spec."""
_ROOTS = ("", "model.")
"""What checkpoints put ahead of a tower's modules."""


def kept_wide(found: Stored, tower: Tower, blocks: Blocks) -> list[str]:
    """Patterns of a spec for a tower's nodes that stay in 16 bit; notes go to ``found``.

    A tool that quantises text models leaves the whole of it. A node that is kept in some layers
    alone is counted as quantised in all.
    """
    uses = list(_uses(tower, blocks))
    if found.text_only or not any(nodes for _, nodes in uses):
        return [EVERY]
    kept: list[str] = []
    nothing_left, some = True, []
    for label, nodes in uses:
        whole = [node for node, names in nodes.items() if all(_wide(found, each) for each in names)]
        part = [node for node, names in nodes.items() if any(_wide(found, each) for each in names)]
        some += [f"{label}.{node}" for node in part if node not in whole]
        nothing_left = nothing_left and len(whole) == len(nodes)
        kept += [label] if nodes and len(whole) == len(nodes) else _of(label, whole)
    if some:
        found.notes.append(f"kept wide in some layers, counted as quantised: {', '.join(some)}")
    return [EVERY] if nothing_left else list(dict.fromkeys(kept))


def scoped(
    rules: Sequence[str], sequence: Sequence[Mapping[str, Any]], tower: Tower, blocks: Blocks
) -> list[str]:
    """Nodes of the text model by the labels of its blocks, where the tower has nodes so named."""
    shared = {node for _, nodes in _uses(tower, blocks) for node in nodes}
    found: list[str] = []
    for rule in rules:
        having = [label for label, block in _labels(sequence) if rule in quantised(blocks(block))]
        found += [f"{label}.{rule}" for label in having] if rule in shared else [rule]
    return list(dict.fromkeys(found))


def labels(sequence: Sequence[Mapping[str, Any]]) -> list[str]:
    """Labels of the layers of a text model, each once."""
    return list(dict.fromkeys(label for label, _ in _labels(sequence)))


def _labels(sequence: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for item in sequence:
        for use in item.get("blocks", [item]):
            if "label" in use:
                yield use["label"], use["block"]


def _of(label: str, nodes: Sequence[str]) -> list[str]:
    return [f"{label}.{node}" for node in nodes]


def _wide(found: Stored, names: Sequence[str]) -> bool:
    """Whether a module, under any of its names, is kept or is no target."""
    aims = found.aims
    aimed = not aims or any(means(pattern, name) for pattern in aims for name in names)
    return not aimed or any(means(pattern, name) for pattern in found.kept for name in names)


def _uses(tower: Tower, blocks: Blocks) -> Iterator[tuple[str, dict[str, list[tuple[str, ...]]]]]:
    """Each label of a tower with its quantisable nodes, and each occurrence's names."""
    found: dict[str, dict[str, list[tuple[str, ...]]]] = {}
    layer = deep = 0
    for use in _expanded(tower.sequence):
        block = blocks(use["block"])
        inside = any(node.op == "attention" for node in block.nodes.values())
        number = layer if inside else deep
        nodes = found.setdefault(use.get("label", use["block"]), {})
        for node in quantised(block):
            nodes.setdefault(node, []).append(tuple(_names(tower, node, number, inside)))
        layer, deep = layer + inside, deep + (use["block"] == "vision-deepstack")
    yield from found.items()


def _expanded(sequence: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for item in sequence:
        for _ in range(item.get("repeat", 1)):
            for use in item.get("blocks", [item]):
                yield from [use] * use.get("times", 1)


def _names(tower: Tower, node: str, number: int, inside: bool) -> Iterator[str]:
    """What a checkpoint may call a node; a tower whose names are not known has its root's."""
    modules = tower.modules
    root = re.split(r"\.", modules.layers)[0] or "vision_tower"
    own = modules.nodes.get(node) if inside else modules.ends.get(node)
    if own is None:
        own = f"{root}.{node}"
    elif inside:
        own = f"{modules.layers}.{own}"
    for start in _ROOTS:
        yield f"{start}{own.format(number)}"
