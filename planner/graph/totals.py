"""What a graph adds up to: parameters, their bytes, the KV cache by kind of layer, states."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from planner.graph.types import Block, ModelGraph
from planner.num import Number, minimum
from planner.ops.attention import AttentionScores
from planner.ops.types import Parameters


@functools.lru_cache(maxsize=64)
def parameters(graph: ModelGraph) -> int:
    """Parameters of the graph's rank, shared ones once; of a graph of one rank the model's."""
    return sum(times * sum(p.elements for p in _owned(block)) for block, times in _all(graph))


@functools.lru_cache(maxsize=64)
def active_parameters(graph: ModelGraph) -> int:
    """Parameters one token meets: as `parameters`, but only its own of the experts."""
    return round(
        sum(
            times * sum(node.op.active(node.parameters) for node in block.nodes)
            for block, times in zip(graph.kinds, graph.times, strict=True)
        )
    )


@functools.lru_cache(maxsize=64)
def weights_bytes(graph: ModelGraph) -> float:
    """Bytes that the rank's parameters take, scales included, shared ones once."""
    return sum(times * sum(p.bytes for p in _owned(block)) for block, times in _all(graph))


def _all(graph: ModelGraph) -> Iterator[tuple[Block, int]]:
    """Every kind of block with its repeats, those of the encoder too."""
    yield from zip(graph.kinds, graph.times, strict=True)
    if graph.encoder:
        yield from _all(graph.encoder)


def _owned(block: Block) -> list[Parameters]:
    return [p for node in block.nodes for p in node.parameters if not p.shared]


@dataclass(frozen=True)
class KvLayers:
    """Layers that cache alike."""

    label: str
    times: int
    bytes_per_token: float
    """K and V of one token in one such layer, on one rank."""
    window: int | None
    """Tokens kept per sequence at most; None for all."""

    def tokens_kept(self, context: Number) -> Number:
        """Tokens one sequence of that length keeps in each such layer."""
        return context if self.window is None else minimum(context, self.window)


@functools.lru_cache(maxsize=64)
def kv_layers(graph: ModelGraph) -> tuple[KvLayers, ...]:
    """The graph's KV cache, by kind of layer."""
    found = []
    for block, times in zip(graph.kinds, graph.times, strict=True):
        for node in block.nodes:
            if isinstance(node.op, AttentionScores) and node.op.shape.keeps:
                heads = node.op.shape
                per_token = heads.kv_bytes_per_token(graph.formats.kv_cache) / heads.ranks
                found.append(KvLayers(block.label, times, per_token, heads.reach))
            inputs = tuple(block.tensors[name].shape for name in node.inputs)
            own = node.op.cached_bytes(inputs, graph.formats)
            if own:
                found.append(KvLayers(block.label, times, own, None))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def state_bytes_per_sequence(graph: ModelGraph) -> float:
    """Bytes each sequence holds on the rank whatever its length: recurrent and fixed states."""
    return sum(times * each for each, times in state_layers(graph))


@functools.lru_cache(maxsize=64)
def recurrent_bytes_per_sequence(graph: ModelGraph) -> float:
    """Of these bytes, states that tokens change: none of an encoder's output."""
    return sum(
        times * node.op.state_bytes(block.shapes_of(node), block.formats)
        for block, times in zip(graph.kinds, graph.times, strict=True)
        for node in block.nodes
        if node.op.recurrent
    )


@functools.lru_cache(maxsize=64)
def state_layers(graph: ModelGraph) -> tuple[tuple[float, int], ...]:
    """Bytes of state a sequence keeps in a layer, and layers, for each kind that keeps any."""
    found = []
    for block, times in zip(graph.kinds, graph.times, strict=True):
        inputs = ((node, block.shapes_of(node)) for node in block.nodes)
        each = sum(node.op.state_bytes(shapes, block.formats) for node, shapes in inputs)
        if each:
            found.append((each, times))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def kv_bytes_per_token(graph: ModelGraph) -> float:
    """KV bytes one token adds while no window is full: the sum over all layers of the rank."""
    return sum(layers.times * layers.bytes_per_token for layers in kv_layers(graph))


def kv_bytes(graph: ModelGraph, context: Number) -> Number:
    """KV bytes that one sequence of ``context`` tokens holds on the rank, windows counted."""
    return sum(
        layers.times * layers.bytes_per_token * layers.tokens_kept(context)
        for layers in kv_layers(graph)
    )
