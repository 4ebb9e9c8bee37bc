"""What of a graph a step runs: nodes that would write no rows are left out.

A block may hold operators for decoding sequences alone and for prompts alone, as latent attention
does. Under a step without prompts the prompts' tensors have no elements, so their kernels are never
launched. What only they read goes too. What they own stays in memory: totals ask the whole graph.
"""

from __future__ import annotations

from dataclasses import replace

from planner.graph.types import Block, ModelGraph, Node
from planner.ops.load import PHASE_SYMBOLS
from planner.ops.types import Load, Symbol, Tensor


def idle_symbols(graph: ModelGraph, load: Load) -> frozenset[Symbol]:
    """Sizes of the graph that are nought under a load. Structure: for one load, not for arrays."""
    return frozenset(
        symbol for symbol in graph.symbols if symbol in PHASE_SYMBOLS and not load.size(symbol)
    )


def active(graph: ModelGraph, idle: frozenset[Symbol]) -> ModelGraph:
    """The graph of steps in which the sizes ``idle`` are nought; itself where none is."""
    if not idle:
        return graph
    return replace(graph, kinds=tuple(_active(block, idle) for block in graph.kinds))


def _active(block: Block, idle: frozenset[Symbol]) -> Block:
    kept = _kept(block, idle)
    if len(kept) == len(block.nodes):
        return block
    there = {*block.inputs, *(name for node in kept for name in node.outputs)}
    nodes = tuple(
        replace(node, inputs=tuple(name for name in node.inputs if name in there)) for node in kept
    )
    tensors = {name: tensor for name, tensor in block.tensors.items() if name in there}
    names = {node.id for node in kept}
    graph = block.graph.subgraph(names).copy()
    for node in nodes:
        graph.nodes[node.id]["node"] = node
    ends = block.inputs, block.outputs
    return Block(block.label, nodes, tensors, *ends, graph, block.formats, block.opens)


def _kept(block: Block, idle: frozenset[Symbol]) -> list[Node]:
    """Nodes that write something somebody needs; caches are needed by later steps."""
    read = {name for node in block.nodes for name in node.inputs}
    needed = set(block.outputs)
    kept: list[Node] = []
    for node in reversed(block.nodes):
        written = [block.tensors[name] for name in node.outputs]
        wanted = any(t.handle or t.name in needed or t.name not in read for t in written)
        if wanted and not all(_is_idle(tensor, idle) for tensor in written):
            kept.append(node)
            needed.update(node.inputs)
    return kept[::-1]


def _is_idle(tensor: Tensor, idle: frozenset[Symbol]) -> bool:
    return any(symbol in idle for dim in tensor.shape for symbol in dim.symbols)
