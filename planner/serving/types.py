"""The words of serving: what users send."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClosedLoop:
    """So many users, each sending its next request when it has the answer to the last.

    Lengths in tokens.
    """

    concurrency: int
    """Users over all replicas."""
    input: int
    output: int
    spread: float = 0.0
    """Lengths vary between (1 − spread) of these and these. Of nought users stay in step."""
    cached: float = 0.0
    """Share of a prompt's tokens that the prefix cache holds."""
    requests: int | None = None
    """Requests in all, of a run that begins with every user at once; None of one without end."""
