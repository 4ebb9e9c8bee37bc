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
    """Mean length of a prompt."""
    output: int
    spread: float = 0.0
    """Lengths vary between (1 − spread) of the longest and the longest."""
    cached: float = 0.0
    """Share of a prompt's tokens that the prefix cache holds."""
    requests: int | None = None
    """Requests in all, of a run that begins with every user at once; None of one without end."""
    drifted: bool = False
    """Whether users come as they come although their requests are all alike."""
    endless: bool = False
    """Whether ever more requests wait behind these."""
    together: float = 1.0
    """Prompts that come at once with one of them, at least."""

    @property
    def in_step(self) -> bool:
        """Whether those whose prompts shared a step end, and come back, together."""
        return not self.spread and not self.drifted


@dataclass(frozen=True)
class Lengths:
    """How long requests are, in tokens."""

    prompt: int
    """The longest prompt."""
    output: int
    spread: float = 0.0
    """Lengths lie evenly between (1 - spread) of the longest and the longest."""
    cached: float = 0.0
    """Share of a prompt's tokens that the prefix cache holds."""

    @property
    def mean(self) -> float:
        """Mean length as a share of the longest."""
        return 1 - self.spread / 2


@dataclass(frozen=True)
class Sent:
    """One row of a trace."""

    at_s: float
    prompt: int
    output: int


@dataclass(frozen=True)
class Demand:
    """Who sends: exactly one of users in a closed loop, a rate, and a trace."""

    lengths: Lengths
    users: int | None = None
    per_s: float | None = None
    """Requests a second, sent whatever became of those before."""
    burstiness: float = 1.0
    trace: tuple[Sent, ...] = ()
    requests: int = 2_000
    """Requests whose times are counted."""
    whole: bool = False
    """Whether the run is counted from its first request to its last, as a benchmark's is; else
    warm-up and end are left out."""
