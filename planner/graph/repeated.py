"""Nodes of a block that ranks sharing a context repeat, so that each has all queries (Helix)."""

from __future__ import annotations

from planner.graph.order import reads, writes
from planner.spec.types import BlockSpec

_ATTENTIONS = {"mla_decode", "mla_prefill"}


def repeated(block: BlockSpec) -> frozenset[str]:
    """Names of latent attention and of everything that it reads of, straight or by others."""
    producers = {
        tensor: name for name, node in block.nodes.items() for tensor in writes(name, node)
    }
    found: set[str] = set()
    waiting = [name for name, node in block.nodes.items() if node.op in _ATTENTIONS]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [producers[each] for each in reads(block.nodes[name]) if each in producers]
    return frozenset(found)
