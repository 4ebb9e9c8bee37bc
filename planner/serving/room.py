"""How many sequences a replica can run at once: what its KV cache holds, and the engine's limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from planner.cost.scheduler import Scheduler


@dataclass(frozen=True)
class Room:
    """Places for sequences on one replica."""

    sequences: int
    """Most at once."""
    by: Literal["kv", "sequences", "states"]
    """What sets it: ``kv``, ``sequences`` or ``states``."""
    pool_tokens: int

    def share(self, running: float, tokens_each: float) -> float:
        """Of the KV cache that so many sequences hold."""
        return min(1.0, running * tokens_each / self.pool_tokens) if self.pool_tokens else 1.0


def room(scheduler: Scheduler, pool_tokens: int, prompt: int, output: int) -> Room:
    """Sequences of so many prompt and output tokens that run at once.

    An engine that keeps a request out until all it can need is free counts whole sequences.
    Others fill the cache with sequences as they grow: on average half of each output is there.
    What that costs in evictions: `planner.serving.crowded`.
    """
    whole = scheduler.admission == "whole"
    each = prompt + output * (1.0 if whole else 0.5)
    by_kv = int(pool_tokens / each)
    if scheduler.sequences <= by_kv:
        return Room(scheduler.sequences, scheduler.limit, pool_tokens)
    return Room(by_kv, "kv", pool_tokens)
