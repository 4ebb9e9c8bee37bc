"""Requests of a run: when they are sent, how long they are, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.serving.types import Lengths, Sent

if TYPE_CHECKING:
    import numpy as np


@dataclass(eq=False, slots=True)
class Request:
    """One request and its history. Times in seconds from the start of the run."""

    number: int
    prompt: int
    output: int
    fresh: int
    """Prompt tokens that the prefix cache does not hold."""
    sent_s: float = 0.0
    first_s: float = 0.0
    """When its first token came."""
    done_s: float = 0.0
    refused: bool = False
    """No server can ever run one of its length."""

    @property
    def ttft_s(self) -> float:
        """From the send to the first token."""
        return self.first_s - self.sent_s

    @property
    def tpot_s(self) -> float:
        """Mean time between its tokens after the first; of one token, 0."""
        return (self.done_s - self.first_s) / (self.output - 1) if self.output > 1 else 0.0

    @property
    def latency_s(self) -> float:
        """From the send to the last token."""
        return self.done_s - self.sent_s


def drawn(lengths: Lengths, random: np.random.Generator) -> Iterator[Request]:
    """Requests without end, each prompt and output drawn evenly from its range.

    As benchmark tools do: `--random-range-ratio r` of sglang.bench_serving and InferenceMAX draws
    whole numbers from r · n to n, so that r is 1 - spread.
    """
    number = 0
    while True:
        prompt = _length(lengths.prompt, lengths.spread, random)
        output = _length(lengths.output, lengths.spread, random)
        yield Request(number, prompt, output, fresh_tokens(prompt, lengths.cached))
        number += 1


def recorded(rows: tuple[Sent, ...], cached: float) -> Iterator[tuple[float, Request]]:
    """The requests of a trace, with the second each is sent at."""
    for number, row in enumerate(rows):
        fresh = fresh_tokens(row.prompt, cached)
        yield row.at_s, Request(number, row.prompt, row.output, fresh)


def gaps(per_s: float, burstiness: float, random: np.random.Generator) -> Iterator[float]:
    """Seconds between one arrival and the next, without end: a Poisson process where burstiness
    is 1.

    Gaps are gamma-distributed with burstiness as their shape and a mean of 1 / rate, as
    `--burstiness` of `vllm bench serve` has it: below 1 requests come in bursts, far above
    1 evenly.
    """
    while True:
        yield float(random.gamma(burstiness, 1 / (per_s * burstiness)))


def fresh_tokens(prompt: int, cached: float) -> int:
    """Prompt tokens to compute, one at least: the last one's logits are needed in any case."""
    return max(1, round(prompt * (1 - cached)))


def _length(most: int, spread: float, random: np.random.Generator) -> int:
    least = max(1, int(most * (1 - spread)))
    return most if least == most else int(random.integers(least, most + 1))
