"""The words of a plan's memory: what is held, whether it starts, what changes would free."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StartPlan:
    """Whether the engine starts: it must be able to hold one sequence of the longest length."""

    starts: bool
    reason: str | None
    """Why it doesn't, in words; null where it does."""
    max_model_len: int
    """Longest sequence in tokens: the engine's flag, else the model's context."""
    sequence_bytes: float
    """KV that one sequence of that length takes on this GPU."""
    kv_tokens: int
    """KV tokens as the engine prints them at start-up."""
    concurrency: float
    """Sequences of that length that fit at once, as the engine prints them."""
    largest_max_model_len: int
    """Longest that starts, the model's context at most; 0 where none does."""


@dataclass(frozen=True)
class FreedMemory:
    """What one change does to the KV cache of one GPU."""

    change: str
    """As ``--set`` takes it."""
    kv_bytes: float
    """KV cache gained; negative where it is lost."""
    kv_tokens: int
    """KV tokens gained, as the engine prints them."""
    starts: bool


@dataclass(frozen=True)
class StatesPlan:
    """Places that the engine sets aside for states of sequences, on one GPU."""

    slots: int
    """Places in all."""
    each: int
    """Places that a running sequence takes."""
    sequences: int
    """Most sequences that run at once."""
    drafted: int
    """States held beside, behind drafts not yet accepted."""
    held_bytes: float
    """What all of them take."""


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of one GPU."""

    fits: bool
    capacity_bytes: float
    visible_bytes: float
    utilization: float
    budget_bytes: float
    weights_bytes: float
    activations_bytes: float
    runtime_bytes: float
    graphs_bytes: float
    graphs_inside: bool
    kv_available_bytes: float
    kv_bytes: float
    kv_bytes_per_token: float
    kv_tokens: int
    max_batch: int | None
    max_context: int | None
    missing_bytes: float
    nearest_fit: tuple[str, ...]
    """Changes that would fit, the smallest first; empty where it fits."""
    state_bytes_per_sequence: float = 0.0
    """What a sequence holds on this GPU whatever its length; ``kv_bytes`` counts it where no places
    are set aside for states.
    """
    context_bytes: float = 0.0
    """CUDA context, held outside the engine's budget."""
    kv_block_tokens: int | None = None
    """Tokens of a KV block."""
    start: StartPlan | None = None
    """Whether the engine starts; null where nothing says how long a sequence may be."""
    frees: tuple[FreedMemory, ...] = ()
    """What changes would free, the largest gain of KV tokens first."""
    states: StatesPlan | None = None
    """Places set aside for states; null where states and KV cache share what is left."""
