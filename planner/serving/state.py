"""The words of a steady state: the steps of a replica, and what users see of them."""

from __future__ import annotations

from dataclasses import dataclass

from planner.serving.clock import Prompts, Tick
from planner.serving.replay import Turnover
from planner.serving.room import Room


@dataclass(frozen=True)
class Mixture:
    """The steps of one replica, and how often each comes."""

    decode: Tick
    prefill: Tick
    """With the decoding sequences in it where ``mixed``."""
    decoding: int
    beside: int
    """Of them in a step with prompts."""
    prompts: Prompts
    """In a step that holds any."""
    chunks: int
    """Steps that one prompt takes."""
    prefills: float
    """Steps with prompts for each decode step; where both are one, of all steps."""
    stalls: float
    """Steps with prompts that a sequence meets between two of its own; where ``mixed``, of its
    own."""
    ahead: float
    """Steps with prompts that come before those of a request."""
    running: float
    """Other steps that a request waits for."""
    mixed: bool

    @property
    def prefill_share(self) -> float:
        """Steps with prompts, of all steps."""
        return min(1.0, self.prefills) if self.mixed else self.prefills / (1 + self.prefills)

    def step_s(self, decode_s: float, prefill_s: float) -> float:
        """Time between two steps that decode the same sequence."""
        if not self.mixed:
            return decode_s + self.stalls * prefill_s
        return (1 - self.stalls) * decode_s + self.stalls * prefill_s

    def mean_s(self, decode_s: float, prefill_s: float) -> float:
        """Time of any step, whoever decodes in it."""
        if not self.mixed:
            return self.step_s(decode_s, prefill_s) / (1 + self.stalls)
        return self.step_s(decode_s, prefill_s)


@dataclass(frozen=True)
class Crowd:
    """Sequences of a KV cache that runs out."""

    running: float
    """That hold KV."""
    turnover: Turnover


@dataclass(frozen=True)
class Steady:
    """Steady state of one replica. Times in seconds."""

    mixture: Mixture
    step_s: float
    """Between two steps that decode the same sequence."""
    yields: float
    """Tokens that each gives it: one without speculation."""
    wait_s: float
    """Until a request finds room."""
    first_s: float
    """From then to the first token."""
    requests_per_s: float
    away_s: float = 0.0
    """Out of the KV cache and back in it, for each token of a request."""
    crowd: Crowd | None = None
    """Where the KV cache runs out."""

    @property
    def ttft_s(self) -> float:
        """From the send to the first token."""
        return self.wait_s + self.first_s

    @property
    def tpot_s(self) -> float:
        """Between two tokens after the first."""
        return self.step_s / self.yields + self.away_s

    def inside_s(self, output: int) -> float:
        """Of a whole request of so many tokens, without the wait for room."""
        return self.first_s + (output - 1) * self.tpot_s

    def places(self, users: int, room: Room) -> int:
        """Sequences of so many users that run at once."""
        most = max(1, round(self.crowd.running)) if self.crowd else room.sequences
        return min(users, most)
