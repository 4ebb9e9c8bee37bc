"""KV blocks as engines share them among layers, with and without windows.

An engine whose layers cache alike has one block table, and a block is so many tokens of all of
them. Where some layers keep a window, vLLM cuts the layers into groups of one size, each with its
own table: a block then is so many tokens of one group, and all groups draw from one pool. Layers
that keep a state take one block a sequence, and blocks grow until a state fits. Source:
vllm@0.26.0 v1/core/kv_cache_utils.py, v1/kv_cache_interface.py SlidingWindowSpec.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

from planner.cost.memory import Budget
from planner.cost.reserve import Reserve
from planner.graph.totals import kv_layers, state_layers
from planner.graph.types import ModelGraph

_ALIKE = Fraction(3, 2)
"""Below this ratio of layers of two kinds the larger number is the group's, and one is padded."""
_ALIGNED = 16
"""Tokens in whose multiples a block grows to hold a state."""


@dataclass(frozen=True)
class LayerKind:
    """Layers that cache alike."""

    bytes_per_token: float
    """Zero of layers that keep a state."""
    window: int | None
    layers: int
    state_bytes: float = 0.0
    """What a sequence keeps in each, whatever its length."""


@dataclass(frozen=True)
class Group:
    """Layers that share a block table."""

    layers: int
    """Padding included: every group has as many."""
    block_tokens: int
    window: int | None
    states: bool = False
    """Whether a block is the state of one sequence."""

    def blocks(self, length: int, in_flight: int) -> int:
        """Blocks one sequence of that length may hold at once.

        A window keeps itself and the tokens of a step in flight, and starts anywhere in a block.
        """
        if self.states:
            return 1
        if self.window is None:
            return -(-length // self.block_tokens)
        return -(-min(self.window - 1 + in_flight, length) // self.block_tokens) + 1


@dataclass(frozen=True)
class Pages:
    """The pool of one rank."""

    groups: tuple[Group, ...]
    block_bytes: float
    """One block of one group."""
    in_flight: int
    """Tokens of one step at most."""

    def blocks(self, available_bytes: float) -> int:
        """Blocks that fit."""
        return int(max(0.0, available_bytes) // self.block_bytes)

    def per_sequence(self, length: int) -> int:
        """Blocks one sequence of that length may hold, over all groups."""
        return sum(group.blocks(length, self.in_flight) for group in self.groups)

    def tokens(self, available_bytes: float) -> int:
        """Tokens as `blocks // groups × tokens of a block`: no window counted."""
        smallest = min(group.block_tokens for group in self.groups)
        return self.blocks(available_bytes) // len(self.groups) * smallest


def pages(graph: ModelGraph, space: Budget, reserve: Reserve) -> Pages | None:
    """How the engine cuts the rank's cache; None where each layer keeps what it needs, or none."""
    rule = reserve.word(reserve.spec.pools, "layers")
    kinds = [
        LayerKind(each.bytes_per_token, each.window if rule == "groups" else None, each.times)
        for each in kv_layers(graph)
    ]
    if rule == "layers" or not kinds:
        return None
    states = [LayerKind(0.0, None, times, each) for each, times in state_layers(graph)]
    in_flight = int(reserve.number(reserve.spec.profile_tokens))
    return cut([*kinds, *states], space.kv_block_tokens, in_flight)


def cut(kinds: Sequence[LayerKind], block_tokens: int, in_flight: int) -> Pages:
    """Layers cut into groups: one where all have the same window, else of one size each."""
    alike = {(kind.window, kind.state_bytes) for kind in kinds}
    if len(alike) == 1:
        total = sum(kind.layers * kind.bytes_per_token for kind in kinds)
        group = Group(sum(kind.layers for kind in kinds), block_tokens, kinds[0].window)
        return Pages((group,), total * block_tokens, in_flight)
    counts: Counter[tuple[float, int | None, float]] = Counter()
    for kind in kinds:
        counts[kind.bytes_per_token, kind.window, kind.state_bytes] += kind.layers
    widest, size = max(each for each, _, _ in counts), _group_size(counts.values())
    state = max(kind.state_bytes for kind in kinds)
    tokens = max(block_tokens, _ALIGNED * math.ceil(state / (widest * _ALIGNED)))
    groups = [
        Group(size, int(tokens * widest / each) if each else tokens, window, states=not each)
        for (each, window, _), count in counts.items()
        for _ in range(-(-count // size))
    ]
    return Pages(tuple(groups), widest * tokens * size, in_flight)


def _group_size(counts: Collection[int]) -> int:
    """Layers a group: those of the rarest kind, or of the commonest where they hardly differ."""
    fewest, most = min(counts), max(counts)
    return most if most < fewest * _ALIKE else fewest
