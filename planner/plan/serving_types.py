"""The words of a plan's serving: steps in steady state, and what users see."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """A figure in SI with its 80 % interval; low and high are None where nothing tells them."""

    value: float
    """The figure itself, in the unit of the field that holds it."""
    low: float | None = None
    """Its lower end."""
    high: float | None = None
    """Its upper end."""


@dataclass(frozen=True)
class StepKind:
    """One kind of step in steady state, on one replica."""

    sequences: int
    """Sequences that decode in it."""
    prompt_tokens: int
    """Tokens of prompts in it."""
    share: float
    """Of all steps."""
    device_s: float
    """What the GPUs take."""
    host_s: float
    """The engine's loop on the host, beside or after it."""
    time_s: float
    """From its start to the next step's."""


@dataclass(frozen=True)
class ServingPlan:
    """Closed-loop serving in steady state."""

    concurrency: int
    """Users over all replicas, each with one request at a time."""
    input: int
    """Prompt tokens of a request."""
    output: int
    """Tokens each generates."""
    ttft_s: Range
    """Mean time to the first token, from the user's send."""
    tpot_s: Range
    """Mean time between tokens after the first."""
    latency_s: Range
    """Mean of a whole request."""
    output_tokens_per_s: Range
    """Over all GPUs."""
    total_tokens_per_s: float
    """Input and output tokens over all GPUs."""
    output_tokens_per_s_per_gpu: float
    """Output tokens over the number of GPUs."""
    tokens_per_s_per_user: float
    """1 / TPOT: what one user sees stream."""
    requests_per_s: float
    """Over all GPUs."""
    running: int
    """Sequences in the engine at once on a replica, decoding or in prefill."""
    waiting: int
    """Requests that wait for room on a replica."""
    most_running: int
    """Sequences that a replica can run at once, by KV and the engine's limit."""
    kv_share: float
    """Of the KV cache that is in use, on average."""
    device_share: float
    """Of the time that the GPUs compute."""
    decode: StepKind
    """Steps without prompt tokens."""
    prefill: StepKind
    """Steps with prompt tokens; with the decoding sequences where the engine mixes them."""
    limit: str
    """What keeps a replica from more: ``users`` (more of them would be served), ``kv``,
    ``sequences`` (the engine's most), ``states`` (places set aside for them), ``prefill`` or
    ``host``."""
    rate_per_s: float | None = None
    """Requests a second that were asked for in an open loop; `concurrency` is then how many are in
    flight, over all replicas."""
    saturation_per_s: float | None = None
    """The most requests a second that all replicas serve: at more the queue grows without end."""
    evictions: float = 0.0
    """How often each request loses its KV, since the cache runs out and others began sooner."""
    again_tokens: float = 0.0
    """Tokens that each request computes once more for it."""
