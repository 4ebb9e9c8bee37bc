"""Pipeline parallelism: a model's layers as stages, and what goes from one to the next.

A layer is a block that hands over what it takes. Blocks ahead of the first layer belong to the
first stage, those behind the last one to the last. A tower runs ahead of the first stage; every
stage holds its weights, since vLLM makes it on all ranks and runs it on the first
(vllm v1/worker/gpu_model_runner.py, model_executor/models/gemma3_mm.py; recalled).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import networkx as nx

from planner.graph.types import Block, ModelGraph, Node, Run
from planner.ops.attention import AttentionScores
from planner.ops.collective import Send
from planner.ops.types import Tensor

LABEL = "stage"
"""Label of the block that stands between two stages."""


def layer_counts(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage. Raises ValueError where there are more stages than layers.

    What does not divide goes to the stages before the last one, the nearest first: the last stage
    has the LM head. Source: vllm/distributed/utils.py get_pp_indices, which SGLang shares.
    """
    if stages > layers:
        raise ValueError(f"{layers} layers do not fill {stages} pipeline stages")
    each, rest = divmod(layers, stages)
    counts = [each] * stages
    for behind in range(2, rest + 2):
        counts[-behind] += 1
    return tuple(counts)


def pipelined(graph: ModelGraph, stages: int) -> ModelGraph:
    """The graph with a send between each two stages: what one token passes through.

    Raises ValueError where the layers do not fill the stages.
    """
    if stages == 1:
        return graph
    parts = stage_runs(graph, stages)
    border = _border(graph, parts)
    kinds = (*graph.kinds, border)
    sequence = list(parts[0])
    for part in parts[1:]:
        sequence += [Run(len(graph.kinds), 1), *part]
    return replace(graph, kinds=kinds, sequence=tuple(sequence))


def stage_graphs(graph: ModelGraph, stages: int) -> tuple[ModelGraph, ...]:
    """Each stage as a graph of its own, without sends: what one rank holds.

    ``graph`` is the whole model's. Raises ValueError where the layers do not fill the stages.
    """
    if stages == 1:
        return (graph,)
    return tuple(_of_runs(graph, runs) for runs in stage_runs(graph, stages))


def layer_count(graph: ModelGraph) -> int:
    """Layers of a model, or of one stage."""
    return sum(run.times for run in graph.sequence if _is_layer(graph.kinds[run.kind]))


def stage_runs(graph: ModelGraph, stages: int) -> tuple[tuple[Run, ...], ...]:
    """The sequence cut into stages.

    Raises ValueError where the layers do not fill them, attend to an encoder's output, or share
    caches: the one read may be on another stage, and vLLM's Gemma 3n supports no pipeline (no
    SupportsPP in gemma3n.py).
    """
    if "cross_attention" in graph.op_names:
        raise ValueError(
            "no engine cuts an encoder-decoder model into stages: vLLM's implement no SupportsPP"
        )
    if any(_shares_cache(block) for block in graph.kinds):
        raise ValueError("layers that read another layer's cache are not cut into stages")
    counts = layer_counts(layer_count(graph), stages)
    parts: list[list[Run]] = [[] for _ in counts]
    stage, room = 0, counts[0]
    for run in graph.sequence:
        left = run.times
        if not _is_layer(graph.kinds[run.kind]):
            parts[stage].append(run)
            continue
        while left:
            if not room:
                stage, room = stage + 1, counts[stage + 1]
            taken = min(left, room)
            parts[stage].append(Run(run.kind, taken))
            left, room = left - taken, room - taken
    return tuple(tuple(part) for part in parts)


def _shares_cache(block: Block) -> bool:
    return any(
        isinstance(node.op, AttentionScores) and node.op.shape.shared for node in block.nodes
    )


def _is_layer(block: Block) -> bool:
    """Whether a block hands over what it takes, so that it can be repeated."""
    shapes = [
        [block.tensors[name].shape for name in names] for names in (block.inputs, block.outputs)
    ]
    return shapes[0] == shapes[1]


def _of_runs(graph: ModelGraph, runs: Sequence[Run]) -> ModelGraph:
    """A graph of some runs, with their kinds alone."""
    used = sorted({run.kind for run in runs})
    sequence = tuple(Run(used.index(run.kind), run.times) for run in runs)
    kinds = tuple(graph.kinds[kind] for kind in used)
    return replace(graph, kinds=kinds, sequence=sequence)


def _border(graph: ModelGraph, parts: Sequence[Sequence[Run]]) -> Block:
    """A block that sends what the last layer of a stage hands over."""
    last = graph.kinds[parts[0][-1].kind]
    sent = [last.tensors[name] for name in last.outputs]
    tensors = {
        name: Tensor(name, tensor.shape, tensor.dtype)
        for tensor, names in zip(sent, _names(len(sent)), strict=True)
        for name in names
    }
    nodes = tuple(
        Node("send" if len(sent) == 1 else f"send_{here}", "send", Send(), (here,), (there,), (),
             graph.formats.activations)
        for here, there in _names(len(sent))
    )  # fmt: skip
    drawn: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for node in nodes:
        drawn.add_node(node.id, node=node)
    names = _names(len(sent))
    return Block(
        _free(LABEL, graph),
        nodes,
        tensors,
        tuple(here for here, _ in names),
        tuple(there for _, there in names),
        drawn,
        graph.formats,
    )


def _names(count: int) -> list[tuple[str, str]]:
    if count == 1:
        return [("x", "y")]
    return [(f"x{number}", f"y{number}") for number in range(count)]


def _free(label: str, graph: ModelGraph) -> str:
    taken = {block.label for block in graph.kinds}
    return label if label not in taken else f"pipeline-{label}"
