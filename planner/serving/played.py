"""What a run of requests leaves behind."""

from __future__ import annotations

from dataclasses import dataclass

from planner.serving.requests import Request


@dataclass(frozen=True, slots=True)
class Entry:
    """What one server did in a while."""

    start_s: float
    end_s: float
    device_s: float
    kv_share: float
    running: int
    waiting: int
    tokens: float
    """Tokens that were handed out."""
    gaps: tuple[tuple[float, int], ...] = ()
    """Seconds that sequences waited since their token before, each with how many waited so."""
    decoded: tuple[int, int] | None = None
    """Sequences of a step without prompts, and how many such steps; None of one with prompts."""


@dataclass(frozen=True)
class Played:
    """What a run left behind."""

    counted: tuple[Request, ...]
    """Served requests that count, in the order they were sent."""
    refused: int
    start_s: float
    end_s: float
    """When counting began and ended."""
    logs: tuple[tuple[Entry, ...], ...]
    """Of each server in turn."""
    evictions: tuple[int, ...]

    @property
    def duration_s(self) -> float:
        """Seconds that count."""
        return self.end_s - self.start_s


@dataclass(frozen=True)
class Transfer:
    """How the KV of a prompt comes from a prefill server to one that decodes."""

    latency_s: float
    s_per_token: float
