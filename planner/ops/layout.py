"""How the ranks of a deployment share a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Exchange = Literal["gather", "all_to_all"]
Queries = Literal["gather", "repeat"]


@dataclass(frozen=True)
class ExpertLayout:
    """Over how many ranks a model is cut, how experts lie on them, how many share a context."""

    tensor: int = 1
    experts: int = 1
    """Ranks that hold different experts."""
    replicas: int = 1
    """Data replicas whose tokens meet at one set of experts."""
    exchange: Exchange = "gather"
    """How they meet: all ranks see all tokens, or each token goes to its experts' ranks."""
    context: int = 1
    """Tensor ranks over which each sequence's cache is spread (decode context parallelism)."""
    queries: Queries = "gather"
    """How they come by the queries of all their heads: from each other, or each computes all."""
    sequence: bool = False
    """Whether ranks share the rows of what they would all compute (sequence parallelism)."""
    prompts: int = 1
    """Groups of tensor ranks that share the tokens of prompts (prefill context parallelism)."""
