"""The order of a block's nodes, and everything that can be wrong with its wiring."""

from __future__ import annotations

import networkx as nx

from planner.errors import Fault
from planner.registry import nearest
from planner.spec.types import BlockSpec, NodeSpec


def reads(node: NodeSpec) -> tuple[str, ...]:
    """Names of the tensors a node reads."""
    return (node.inputs,) if isinstance(node.inputs, str) else node.inputs


def writes(name: str, node: NodeSpec) -> tuple[str, ...]:
    """Names of the tensors a node writes: by default one, by the node's own name."""
    if node.outputs is None:
        return (name,)
    return (node.outputs,) if isinstance(node.outputs, str) else node.outputs


def ordered(block: BlockSpec, faults: list[Fault]) -> tuple[str, ...]:
    """The nodes' names in topological order, ties as written.

    Adds a fault for each tensor written twice, read but never written, or part of a cycle.
    """
    before = len(faults)
    producers = _producers(block, faults)
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(block.nodes)
    for name, node in block.nodes.items():
        for position, tensor in enumerate(reads(node)):
            if tensor in producers:
                graph.add_edge(producers[tensor], name)
            elif tensor not in block.inputs:
                faults.append(_unknown(block, name, position, producers))
    _check_outputs(block, producers, faults)
    if len(faults) > before:
        return ()
    rank = {name: position for position, name in enumerate(block.nodes)}
    try:
        return tuple(nx.lexicographical_topological_sort(graph, key=rank.__getitem__))
    except nx.NetworkXUnfeasible:
        faults.append(_cycle(block, graph))
        return ()


def _producers(block: BlockSpec, faults: list[Fault]) -> dict[str, str]:
    producers: dict[str, str] = {}
    for name, node in block.nodes.items():
        for tensor in writes(name, node):
            origin = block.origin.at("nodes", name, "out")
            if tensor in block.inputs:
                faults.append(origin.fault(f"'{tensor}' is an input of the block"))
            elif tensor in producers:
                faults.append(
                    origin.fault(f"'{tensor}' is already written by '{producers[tensor]}'")
                )
            producers.setdefault(tensor, name)
    return producers


def _unknown(block: BlockSpec, name: str, position: int, producers: dict[str, str]) -> Fault:
    node = block.nodes[name]
    tensor = reads(node)[position]
    path = ("in",) if isinstance(node.inputs, str) else ("in", position)
    guess = nearest(tensor, [*block.inputs, *producers])
    return block.origin.at("nodes", name, *path).fault(
        f"nothing writes the tensor '{tensor}' that '{name}' reads",
        f"did you mean '{guess}'?" if guess else None,
    )


def _check_outputs(block: BlockSpec, producers: dict[str, str], faults: list[Fault]) -> None:
    for position, tensor in enumerate(block.outputs):
        origin = block.origin.at("outputs", position)
        if tensor in block.inputs:
            faults.append(origin.fault(f"output '{tensor}' is an input: a block must do some work"))
        elif tensor not in producers:
            guess = nearest(tensor, producers)
            faults.append(
                origin.fault(
                    f"no node writes the output '{tensor}'",
                    f"did you mean '{guess}'?" if guess else None,
                )
            )


def _cycle(block: BlockSpec, graph: nx.DiGraph[str]) -> Fault:
    edges = nx.find_cycle(graph)
    names = [edge[0] for edge in edges]
    path = " -> ".join([*names, names[0]])
    return block.origin.at("nodes", names[0]).fault(f"the graph has a cycle: {path}", key=True)
