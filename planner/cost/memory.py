"""Does it fit: weights, KV cache, activations and reserves against what CUDA can see.

Per GPU (one tensor-parallel rank of one data replica):
budget = visible × utilization; KV gets what weights, activations and reserves leave of it.
How each engine counts is in docs/memory.md. Off by the allocator's fragmentation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from planner.cost.engine import Engine
from planner.cost.profile import activation_bytes
from planner.cost.reserve import Reserve
from planner.cost.states import States, states
from planner.cost.types import Device
from planner.graph.totals import (
    kv_bytes,
    kv_bytes_per_token,
    state_bytes_per_sequence,
    weights_bytes,
)
from planner.graph.types import ModelGraph
from planner.num import Number, as_float, ceil_div, floor, maximum
from planner.ops.types import Load
from planner.records import dataclass


@dataclass(frozen=True)
class Budget:
    """What one GPU has, and what is taken before any KV cache."""

    capacity_bytes: float
    visible_bytes: float
    utilization: float
    budget_bytes: float
    weights_bytes: float
    activations_bytes: float
    runtime_bytes: float
    graphs_bytes: float
    graphs_inside: bool
    kv_block_tokens: int
    rule: Literal["whole", "static", "free"] = "whole"
    """What shares the budget: see ``ReserveSpec.budget``."""
    context_bytes: float = 0.0
    """CUDA context, which no engine's own count holds."""
    states: States | None = None
    """Places set aside for states; None where states and KV cache share what is left."""

    @property
    def kv_available_bytes(self) -> float:
        """Bytes left for KV; negative where the model alone exceeds the budget."""
        return self.rest_bytes - (self.states.bytes if self.states else 0.0)

    @property
    def rest_bytes(self) -> float:
        """Bytes left for KV and states; negative where the model alone exceeds the budget."""
        if self.rule == "static":
            return self.budget_bytes - self.weights_bytes
        taken = self.weights_bytes + self.activations_bytes + self.runtime_bytes
        if self.graphs_inside:
            taken += self.graphs_bytes
        if self.rule == "free":
            free = self.visible_bytes - self.context_bytes - taken
            return self.utilization * free if free > 0 else free
        return self.budget_bytes - taken

    @property
    def spare_bytes(self) -> float:
        """Visible memory that is left when everything is held; negative where it runs over."""
        rest = self.visible_bytes - self.context_bytes - self.weights_bytes
        rest -= max(0.0, self.rest_bytes)
        return rest - self.activations_bytes - self.runtime_bytes - self.graphs_bytes


@dataclass(frozen=True)
class Fit:
    """A load held against a budget."""

    budget: Budget
    kv_bytes: float
    """What this load's sequences hold at their present length, in whole blocks, states included."""
    kv_bytes_per_token: float
    kv_tokens: int
    """Tokens that fit into the KV space (at this context, where windows count)."""
    max_batch: int | None
    """Sequences of this context that fit; None for a graph without KV cache."""
    max_context: int | None
    """Longest context at which this batch fits, by memory alone."""
    state_bytes_per_sequence: float = 0.0
    """What each sequence holds whatever its length; ``kv_bytes`` counts it where no places are set
    aside for states.
    """
    sequences: int = 0
    """Sequences of the load."""

    @property
    def fits(self) -> bool:
        """Whether the engine starts and holds the load."""
        return self.missing_bytes == 0

    @property
    def missing_bytes(self) -> float:
        """Bytes short, of the KV space, of places for states or of what lies outside the budget;
        zero where it fits.
        """
        found: float = missing_bytes(self.budget, self.kv_bytes, self.sequences)
        return found


def budget(
    graph: ModelGraph,
    engine: Engine,
    device: Device,
    utilization: float | None,
    longest: int | None = None,
) -> Budget:
    """The budget of one GPU that runs one rank of the graph.

    ``longest`` is the model's context, as long as which some engines make their dummy step.
    """
    reserve = Reserve(engine, device, longest)
    spec = reserve.spec
    share = utilization if utilization is not None else reserve.share(spec.utilization)
    context, runtime = reserve.amount(spec.context), reserve.amount(spec.runtime)
    held = context + runtime if spec.budget == "static" else 0.0
    found = Budget(
        device.capacity_bytes,
        device.visible_bytes,
        share,
        (device.visible_bytes - held) * share,
        weights_bytes(graph),
        activation_bytes(graph, reserve),
        runtime,
        reserve.amount(spec.graphs),
        bool(reserve.number(spec.graphs_inside)),
        int(reserve.number(spec.kv_blocks, spec.kv_block)) * graph.context,
        spec.budget,
        context,
    )
    return replace(found, states=states(graph, reserve, found.rest_bytes))


def needed_bytes(graph: ModelGraph, space: Budget, load: Load) -> Number:
    """What a load's sequences hold at their present length."""
    return as_float(sum(g.count * _held(graph, space, g.kv_tokens) for g in load.groups))


def missing_bytes(space: Budget, kv_bytes: Number, sequences: Number = 0) -> Number:
    """Bytes short where so much is held for so many sequences: of the KV space, of places for
    states, or outside the budget.
    """
    short = space.states.missing_bytes(sequences) if space.states else 0.0
    return maximum(0.0, kv_bytes - space.kv_available_bytes, -space.spare_bytes, short)


def fit(graph: ModelGraph, space: Budget, load: Load) -> Fit:
    """Hold a load against a budget, and find how far it could grow.

    States come before tokens: what the load's sequences hold whatever their length is taken off
    before KV tokens are counted. Where places are set aside for them, they bound sequences alone.
    """
    need = needed_bytes(graph, space, load)
    per_token, state = kv_bytes_per_token(graph), state_bytes_per_sequence(graph)
    available = max(0.0, space.kv_available_bytes) if space.spare_bytes >= 0 else 0.0
    if not load.groups or not per_token + state:
        return Fit(space, need, per_token, 0, None, None, state)
    context = max(g.kv_tokens for g in load.groups)
    batch = sum(g.count for g in load.groups)
    max_batch = _most(space, available, _held(graph, space, context))
    shared = batch * _shared_state(graph, space)
    tokens = _tokens(graph, space, context, max(0.0, available - shared))
    longest = _longest(graph, space, batch, available)
    return Fit(space, need, per_token, tokens, max_batch, longest, state, batch)


def _most(space: Budget, available: float, held: float) -> int:
    """Sequences that fit, of so many bytes of the KV space each."""
    if space.states is None:
        return int(available // held)
    by_states = space.states.sequences
    return min(by_states, int(available // held)) if held else by_states


def _shared_state(graph: ModelGraph, space: Budget) -> float:
    """What a sequence holds of the KV space whatever its length."""
    apart = space.states.state_bytes if space.states else 0.0
    return state_bytes_per_sequence(graph) - apart


def _tokens(graph: ModelGraph, space: Budget, context: float, available: float) -> int:
    """Tokens whose KV fits beside the states, in whole blocks; with windows, at this context."""
    per_token = kv_bytes_per_token(graph)
    if not per_token:
        return 0
    cached = _held(graph, space, context) - _shared_state(graph, space)
    if cached < per_token * context:
        return int(available / cached * context)
    return int(available // (per_token * space.kv_block_tokens)) * space.kv_block_tokens


def _held(graph: ModelGraph, space: Budget, context: Number) -> Number:
    """Bytes of one sequence: its KV, the length rounded up to whole blocks, and its state where it
    has no place of its own.
    """
    blocks = ceil_div(floor(context), space.kv_block_tokens)
    cached = as_float(kv_bytes(graph, blocks * space.kv_block_tokens))
    return cached + _shared_state(graph, space)


_ENDLESS = 2**30
"""Tokens beyond which a context counts as unlimited: every window of the model is full."""


def _longest(graph: ModelGraph, space: Budget, batch: int, available: float) -> int | None:
    """The longest context, in whole blocks, at which ``batch`` sequences fit. By bisection.

    None where memory sets no limit, since every layer keeps a window.
    """
    low, high = 0, 1
    while batch * _held(graph, space, high) <= available:
        if high >= _ENDLESS:
            return None
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if batch * _held(graph, space, middle) <= available:
            low = middle
        else:
            high = middle
    return low
