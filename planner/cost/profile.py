"""The dummy step by which engines size activations: tensors alive at its widest moment.

A liveness pass over one block at the engine's token budget, and over the sampler at its sequences.
Attention scores are left out, since every engine profiles with fused attention. Off by the
allocator's rounding and by temporaries of single kernels.
"""

from __future__ import annotations

from functools import lru_cache

from planner.cost.reserve import Reserve
from planner.graph.types import Block, ModelGraph, Node
from planner.ops.moe import Moe
from planner.ops.types import Load, Pairs, SequenceGroup, static
from planner.records import dataclass

LOGITS_COPY_BYTES = 4.0
"""Samplers widen the logits to FP32 beside the model's (`vllm v1/sample/sampler.py`)."""

_BUFFER_BYTES = 2.0
"""An element between grouped GEMMs is 16 bits wide."""
_WHILE_RUNNING = ("shared", "separate")


@dataclass(frozen=True)
class Holding:
    """What is alive beside the tensors of the graph."""

    layer_inputs: float = 0.0
    """Copies of a block's inputs that callers hold."""
    sampler_bytes: float = LOGITS_COPY_BYTES
    """Bytes a logit takes in the sampler, the model's own logits left out."""
    expert_buffers: str = ""
    """Buffers of routed experts: ``shared`` or ``separate`` while they run, ``kept`` once they have
    run, or none."""


def activation_bytes(graph: ModelGraph, reserve: Reserve) -> float:
    """Peak of the engine's profile step. A graph that is no LLM has none: its load says it all."""
    if not graph.symbols & {"tokens", "sequences"}:
        return 0.0
    spec = reserve.spec
    tokens = int(reserve.number(spec.profile_tokens))
    sequences = min(tokens, int(reserve.number(spec.profile_sequences)))
    holding = Holding(
        reserve.number(spec.held),
        reserve.number(spec.sampler, LOGITS_COPY_BYTES),
        reserve.word(spec.expert_buffers, ""),
    )
    return _widest(graph, tokens, sequences, holding) + reserve.amount(spec.workspace)


@lru_cache(maxsize=512)
def _widest(graph: ModelGraph, tokens: int, sequences: int, holding: Holding) -> float:
    """The widest moment of a step of so many tokens in so many sequences, over all blocks."""
    each, longer = divmod(tokens, sequences)
    shared = ((sequences - longer, each), (longer, each + 1))
    load = Load(tuple(SequenceGroup(count, n, n) for count, n in shared if count))
    peaks = [live_bytes(block, load, holding) for block in graph.kinds]
    if graph.encoder:
        item = Load((SequenceGroup(1, graph.encoder_tokens, graph.encoder_tokens),))
        peaks += [live_bytes(block, item, holding) for block in graph.encoder.kinds]
    kept = 0.0
    if holding.expert_buffers == "kept":
        kept = max(expert_bytes(b, node, load) for b in graph.kinds for node in b.nodes)
    return max(peaks) + kept


def expert_bytes(block: Block, node: Node, load: Load, *, shared: bool = False) -> float:
    """Buffers between the grouped GEMMs of a node; none where it is no block of experts."""
    if not isinstance(node.op, Moe):
        return 0.0
    *rows, hidden = block.tensors[node.inputs[0]].shape
    count = float(load.elements(tuple(rows)))
    return _BUFFER_BYTES * node.op.workspace_elements(count, static(hidden), shared=shared)


def live_bytes(block: Block, load: Load, holding: Holding | None = None) -> float:
    """Most bytes of tensors alive at once while a block runs in order, fused tensors left out."""
    holding = holding or Holding()
    last_use = dict.fromkeys(block.inputs, -1)
    for position, node in enumerate(block.nodes):
        last_use |= dict.fromkeys((*node.inputs, *node.outputs), position)
    last_use |= dict.fromkeys(block.outputs, len(block.nodes))
    alive = handed = sum(_bytes(block, name, load) for name in block.inputs)
    peak = alive
    for position, node in enumerate(block.nodes):
        alive += sum(_bytes(block, name, load) for name in node.outputs)
        beside = holding.layer_inputs * handed
        if node.op_name == "sampling":
            logits = load.elements(block.tensors[node.inputs[0]].shape)
            beside = min(1.0, holding.layer_inputs) * handed
            beside += float(logits * holding.sampler_bytes)
        elif holding.expert_buffers in _WHILE_RUNNING:
            beside += expert_bytes(block, node, load, shared=holding.expert_buffers == "shared")
        peak = max(peak, alive + beside)
        used = {*node.inputs, *node.outputs}
        alive -= sum(_bytes(block, name, load) for name in used if last_use[name] == position)
    return peak


def _bytes(block: Block, name: str, load: Load) -> float:
    tensor = block.tensors[name]
    if any(isinstance(symbol, Pairs) for dim in tensor.shape for symbol in dim.symbols):
        return 0.0
    return float(tensor.bytes(load))
