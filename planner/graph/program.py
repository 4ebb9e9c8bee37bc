"""A model's graph as plain data: what the lab runs where nothing of the planner is installed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from planner.graph.types import Block, ModelGraph, Node
from planner.ops.attention import AttentionScores
from planner.ops.types import static

_PLAIN = (bool, int, float, str, type(None))


def program(graph: ModelGraph, batch: int, context: int) -> dict[str, Any]:
    """One decode step of ``batch`` sequences at ``context`` keys, as ``planner.lab.step`` runs it.

    A composite is one node: the lab runs attention whole.
    """
    return {
        "batch": batch,
        "context": context,
        "blocks": [_block(graph.kinds[run.kind], run.times) for run in graph.sequence],
    }


def _block(block: Block, times: int) -> dict[str, Any]:
    return {
        "label": block.label,
        "times": times,
        "inputs": list(block.inputs),
        "outputs": list(block.outputs),
        "nodes": list(_nodes(block)),
    }


def _nodes(block: Block) -> Iterator[dict[str, Any]]:
    composites = block.composites
    for node in block.nodes:
        if node.composite is None:
            yield _node(block, node)
        elif node is composites[node.composite][-1]:
            yield _composite(composites[node.composite])


def _node(block: Block, node: Node) -> dict[str, Any]:
    attributes = {
        field.name: value
        for field in dataclasses.fields(node.op)
        if isinstance(value := getattr(node.op, field.name), _PLAIN)
    }
    depths = [dim for dim in block.tensors[node.inputs[0]].shape[-1:] if not dim.symbols]
    if depths:
        attributes["depth"] = static(depths[0])
    if node.op_name == "kv_cache_write":
        attributes |= _cache(block, node)
    return {
        "id": node.id,
        "op": node.op_name,
        "in": list(node.inputs),
        "out": list(node.outputs),
        **attributes,
    }


def _cache(block: Block, write: Node) -> dict[str, int]:
    """The heads of the attention that reads a cache."""
    reader = next(
        node.op.shape
        for node in block.nodes
        if isinstance(node.op, AttentionScores) and write.outputs[0] in node.inputs
    )
    return {"kv_heads": reader.kv_heads, "head_dim": reader.head_dim}


def _composite(parts: tuple[Node, ...]) -> dict[str, Any]:
    """Attention as one node: the query and the cache in, what the values' product gives out."""
    first, last = parts[0], parts[-1]
    name = first.op_name.rpartition(".")[0]
    if not isinstance(first.op, AttentionScores):  # one that no lab runs, which says so by name
        return {"id": first.composite, "op": name, "in": list(first.inputs), "out": [*last.outputs]}
    shape = first.op.shape
    if shape.shared:
        name = "attention over another layer's cache"
    elif not shape.cached or shape.chunk:
        name = "chunked attention" if shape.cached else "attention without a cache"
    return {
        "id": first.composite,
        "op": name,
        "in": list(first.inputs),
        "out": list(last.outputs),
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "window": shape.window,
    }
