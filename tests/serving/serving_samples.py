"""Servers whose steps take what is said, so that runs can be followed by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from planner.cost.scheduler import Scheduler
from planner.serving.events import Played, play
from planner.serving.replica import Replica
from planner.serving.timetable import PromptLoad, Took
from planner.serving.types import Demand, Lengths, Sent

RULES = Scheduler(
    order="decode_first",
    mixed=True,
    chunked=True,
    tokens=1_000,
    counts="all",
    sequences=64,
    prefix_cache=False,
    admission="prompt",
    preemption="recompute",
    asynchronous=False,
    decode_steps=1,
)
"""As vLLM from 0.8 on has them."""


@dataclass(frozen=True)
class Steps:
    """Every step takes what ``of`` says of its decoding sequences and prompts."""

    of: Callable[[int, PromptLoad], float]
    front_s: float = 0.0

    def took(self, decoding: int, context: float, prompts: PromptLoad) -> Took:
        time_s = self.of(decoding, prompts)
        return Took(time_s, time_s)

    def arrival_s(self, prompt_tokens: int) -> float:
        return self.front_s


SECOND = Steps(lambda decoding, prompts: 1.0)
"""Whatever is in a step, it takes a second."""


def server(times: Steps = SECOND, pool: int = 100_000, *, hands_on=False, **rules) -> Replica:
    """One replica with these rules changed."""
    return Replica(replace(RULES, **rules), times, pool, hands_on=hands_on)


def trace(*rows: tuple[float, int, int]) -> Demand:
    """Requests sent at these seconds, of so many prompt and output tokens."""
    sent = tuple(Sent(*row) for row in rows)
    return Demand(Lengths(1, 1), trace=sent, whole=True)


def served(demand: Demand, replica: Replica, seed: int = 0) -> Played:
    """A run on one replica."""
    return play(demand, (replica,), seed)


def history(played: Played) -> list[tuple[float, float]]:
    """When each request had its first and its last token."""
    return [(each.first_s, each.done_s) for each in played.counted]
