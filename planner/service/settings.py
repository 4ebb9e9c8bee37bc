"""What a service is started with: where it listens, its tokens, its limits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from planner.service.tokens import Tokens

MIB = 2**20


@dataclass(frozen=True)
class Limits:
    """How much one request, and all of them together, may ask for."""

    body_bytes: int = MIB
    """Of a request that brings no file. A spec of more is refused by the reader too."""
    upload_bytes: int = 64 * MIB
    """Of a file with runs."""
    buffered_bytes: int = 256 * MIB
    """Of all bodies that are being received or read at one moment."""
    sweep_rows: int = 200_000
    sweeps_running: int = 1
    sweeps_waiting: int = 8
    sweeps_kept: int = 64
    """Finished ones whose answer can still be read."""
    sweep_lease_s: float = 15.0
    """Without a sign of life of the service that is at it, a sweep is another's for the taking."""
    sweep_starts: int = 3
    """How often a sweep is begun again before it counts as failed."""
    gpus: int = 16
    """Compared side by side."""
    plan_s: float = 30.0
    """Of one plan, or of reading one file."""
    sweep_s: float = 900.0
    waiting: int = 256
    """Plans that wait for a worker; more are told to come again."""
    header_s: float = 10.0
    """From a connection's first byte to the end of its headers, and between requests."""
    body_s: float = 60.0
    send_s: float = 30.0
    """That a client may take to accept a piece of an answer."""
    drain_s: float = 25.0
    """From SIGTERM until what is still running is cut off."""
    streams: int = 64
    """Clients that watch sweeps at one moment."""
    connections: int = 512
    memory_bytes: int = 4 * 2**30
    """Of one worker process."""


def _workers() -> int:
    return max(1, min(4, os.cpu_count() or 1))


@dataclass(frozen=True)
class Settings:
    """Everything a service needs to know."""

    db: str | None = None
    """As ``--db`` of every command."""
    catalogs: tuple[Path, ...] = ()
    tokens: Tokens = field(default_factory=Tokens)
    hosts: frozenset[str] | None = None
    """Names under which requests may address it, without port; None where tokens guard it."""
    origins: frozenset[str] = frozenset()
    """Origins of pages that may change state, beside its own."""
    workers: int = field(default_factory=_workers)
    """Processes that plan; 0 plans in threads of this one, without limits of time and memory."""
    limits: Limits = field(default_factory=Limits)
