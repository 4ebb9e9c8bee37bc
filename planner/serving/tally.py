"""What servers did over the counted time of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.serving.percentiles import Spread, weighted
from planner.serving.played import Entry, Played


@dataclass(frozen=True)
class PoolState:
    """What the replicas of a pool did, on average over them and over the counted time."""

    name: str
    """``all``, ``prefill`` or ``decode``."""
    replicas: int
    """Servers."""
    gpus: int
    """Over all of them."""
    device_share: float
    """Of the time that the GPUs compute."""
    kv_share: float
    """Of the KV cache that is in use."""
    kv_most: float
    """The fullest that one got."""
    running: float
    """Sequences in the engine."""
    waiting: float
    """Requests that wait for it."""
    waiting_most: int
    """The most that one had at once."""
    evictions: int
    """Sequences whose KV had to go, over all replicas and the whole run."""


def pool_state(played: Played, servers: range, name: str, gpus: int) -> PoolState:
    """The state of these servers of a run."""
    logs = [played.logs[number] for number in servers]
    entries = [entry for log in logs for entry in log if _inside(entry, played) > 0]

    def mean(of: Callable[[Entry], float]) -> float:
        total = sum(of(entry) * _inside(entry, played) for entry in entries)
        return total / (played.duration_s * len(logs)) if played.duration_s else 0.0

    return PoolState(
        name,
        len(logs),
        gpus,
        mean(lambda entry: entry.device_s / (entry.end_s - entry.start_s)),
        mean(lambda entry: entry.kv_share),
        max((entry.kv_share for entry in entries), default=0.0),
        mean(lambda entry: entry.running),
        mean(lambda entry: entry.waiting),
        max((entry.waiting for entry in entries), default=0),
        sum(played.evictions[number] for number in servers),
    )


def tokens_per_s(played: Played) -> float:
    """Tokens that all servers handed out in a second of the counted time."""
    if not played.duration_s:
        return 0.0
    total = sum(
        entry.tokens * _inside(entry, played) / (entry.end_s - entry.start_s)
        for log in played.logs
        for entry in log
        if entry.end_s > entry.start_s
    )
    return total / played.duration_s


def gaps(played: Played) -> Spread:
    """Waits between tokens that ended in the counted time, over all sequences and servers."""
    return weighted(
        [
            gap
            for log in played.logs
            for entry in log
            if played.start_s < entry.end_s <= played.end_s
            for gap in entry.gaps
        ]
    )


def _inside(entry: Entry, played: Played) -> float:
    """Seconds of an entry that lie in the counted time."""
    return max(0.0, min(entry.end_s, played.end_s) - max(entry.start_s, played.start_s))
