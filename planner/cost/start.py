"""Does the engine start: the longest sequence it must be able to hold, and what it then prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.cost.memory import Budget, fit
from planner.cost.pages import Pages, pages
from planner.cost.reserve import Reserve
from planner.graph.totals import kv_bytes_per_token
from planner.graph.types import ModelGraph
from planner.ops.types import Load, SequenceGroup
from planner.units import show_bytes


@dataclass(frozen=True)
class Start:
    """What start-up decides, for one GPU of a deployment."""

    reason: str | None
    """Why it doesn't start, in words; None where it does."""
    max_model_len: int
    """Longest sequence, by the engine's flag or the model's context."""
    sequence_bytes: float
    """KV that one sequence of that length takes here."""
    pool_tokens: int
    """KV tokens as the engine prints them."""
    concurrency: float
    """Sequences of that length that fit at once."""
    available_bytes: float
    """KV cache in all."""
    sequences: int | None = None
    """Most sequences that run at once, by places for their states; None without such places."""

    @property
    def starts(self) -> bool:
        """Whether it starts."""
        return self.reason is None


@dataclass(frozen=True)
class _Room:
    """What the cache of one budget holds."""

    graph: ModelGraph
    space: Budget
    cut: Pages | None
    warms_sampler: bool
    """Whether activations are held again beside captured graphs."""

    @property
    def available(self) -> float:
        return self.space.kv_available_bytes

    def sequence_bytes(self, length: int) -> float:
        if self.cut:
            return self.cut.per_sequence(length) * self.cut.block_bytes
        return fit(self.graph, self.space, Load((SequenceGroup(1, 1, length),))).kv_bytes

    def concurrency(self, length: int) -> float:
        if self.cut:
            return self.cut.blocks(self.available) / self.cut.per_sequence(length)
        by_kv = max(0.0, self.available) / self.sequence_bytes(length)
        return by_kv if self.sequences is None else min(by_kv, float(self.sequences))

    @property
    def sequences(self) -> int | None:
        return self.space.states.sequences if self.space.states else None

    def tokens(self, length: int, printed: str) -> int:
        if printed == "concurrency":
            return int(self.concurrency(length) * length)
        if self.cut:
            return self.cut.tokens(self.available)
        block = self.space.kv_block_tokens
        return int(max(0.0, self.available) // (kv_bytes_per_token(self.graph) * block)) * block

    def reason(self, length: int) -> str | None:
        """Why no engine starts on it."""
        space = self.space
        if space.weights_bytes > space.visible_bytes:
            over = show_bytes(space.weights_bytes - space.visible_bytes)
            return f"the weights alone are {over} more than the GPU has"
        if self.available <= 0:
            return f"{show_bytes(-self.available)} short before any KV cache"
        if space.states and not space.states.sequences:
            places, each = space.states.slots, space.states.each
            return f"a sequence takes {each} places for its states, there are {places}"
        if self.concurrency(length) < 1:
            need, have = show_bytes(self.sequence_bytes(length)), show_bytes(self.available)
            return f"one sequence of {length:,} tokens takes {need} of KV cache, {have} are left"
        spare = space.spare_bytes + (0.0 if self.warms_sampler else space.activations_bytes)
        return f"{show_bytes(-spare)} short outside the budget" if spare < 0 else None


def start(graph: ModelGraph, space: Budget, reserve: Reserve) -> Start | None:
    """What start-up finds. None for a graph without KV cache, or with no known longest sequence."""
    longest = reserve.longest
    if longest is None or not kv_bytes_per_token(graph):
        return None
    warms = bool(reserve.number(reserve.spec.warms_sampler))
    room = _Room(graph, space, pages(graph, space, reserve), warms)
    printed = reserve.word(reserve.spec.printed, "blocks")
    return Start(
        room.reason(longest),
        longest,
        room.sequence_bytes(longest),
        room.tokens(longest, printed),
        room.concurrency(longest),
        room.available,
        room.sequences,
    )


def largest(most: int, starts: Callable[[int], bool]) -> int:
    """The longest sequence up to ``most`` with which it starts; zero where none does.

    By bisection: a longer one takes more KV, and in some engines a longer dummy step.
    """
    if starts(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if starts(middle) else (low, middle)
    return low
