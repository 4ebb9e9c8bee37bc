"""What a router gives one rank: token-expert pairs to compute, and experts whose weights are read.

A rank holds m = E/ep of E experts and sees n tokens, each of which picks k of the E. All counts are
expected values of the busiest rank, the one that the others wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import comb
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

from planner.num import Number, minimum

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

QUANTILES = 128
_HEAVY = (1.0, 0.8)
"""Loads of a power law run from one token to 0.8 n where there are pairs for every expert,"""
_LIGHT = (0.01, 2.0)
"""and between these where there are not."""
_BLOCK = 4096


@dataclass(frozen=True)
class Load:
    """Work of one rank's experts; arrays or numbers."""

    pairs: Number
    """Token-expert pairs computed."""
    touched: Number
    """Local experts with at least one token: what of the weights is read."""


RoutingKind = Literal["uniform", "balanced", "power-law"]


@dataclass(frozen=True)
class Routing:
    """How a router is taken to choose."""

    kind: RoutingKind = "uniform"
    """``uniform``: every expert is as likely as any other (`random`)."""
    alpha: float = 1.2
    """Exponent of the power law."""

    def busiest(self, tokens: Number, top_k: int, experts: int, ep: int) -> Load:
        """Expected work of the busiest of ``ep`` ranks: the one that the others wait for."""
        if self.kind == "balanced":
            return balanced(tokens, top_k, experts, ep)
        if self.kind == "uniform":
            return random(tokens, top_k, experts, ep)
        return _drawn(tokens, top_k, experts, ep, self.alpha)

    def mean(self, tokens: Number, top_k: int, experts: int, ep: int) -> Load:
        """Expected work of a rank, all ranks alike: ``ep`` of them make the whole."""
        whole = self.busiest(tokens, top_k, experts, 1)
        return Load(tokens * top_k / ep, whole.touched / ep)


UNIFORM = Routing()


def reached(top_k: int, experts: int, ep: int) -> float:
    """Share of tokens that have an expert on a given one of ``ep`` ranks, all experts alike.

    1 − C(E − E/ep, k) / C(E, k): the k distinct experts of a token all lie on other ranks.
    """
    return 1 - comb(experts - experts // ep, top_k) / comb(experts, top_k)


def balanced(tokens: Number, top_k: Number, experts: Number, ep: Number) -> Load:
    """Every expert gets as many tokens as any other: the least a rank can do."""
    pairs = tokens * top_k / ep
    return Load(pairs, minimum(experts / ep, pairs))


def random(tokens: Number, top_k: int, experts: int, ep: int) -> Load:
    """Every token picks k distinct experts, all equally likely and independent of other tokens.

    An expert stays untouched with (1 − k/E)ⁿ. A rank's pairs are a sum of n hypergeometric draws
    with variance n·k/ep·(1 − 1/ep)·(E − k)/(E − 1); the busiest of ep ranks exceeds the mean by
    about Φ⁻¹((ep − 3/8)/(ep + 1/4)) deviations (Blom 1958, recalled). Real routers are more uneven.
    """
    local = experts / ep
    mean = tokens * top_k / ep
    spread = (mean * (1 - 1 / ep) * (experts - top_k) / max(experts - 1, 1)) ** 0.5
    above = NormalDist().inv_cdf((ep - 0.375) / (ep + 0.25)) if ep > 1 else 0.0
    pairs = minimum(mean + above * spread, tokens * min(top_k, local))
    return Load(pairs, minimum(local * (1 - (1 - top_k / experts) ** tokens), pairs))


def _drawn(tokens: Number, top_k: int, experts: int, ep: int, alpha: float) -> Load:
    """`power_law` for one number of tokens, or an array of them."""
    import numpy as np

    if not hasattr(tokens, "__array__"):
        return _one(float(tokens), top_k, experts, ep, alpha)
    flat = np.asarray(tokens, dtype=np.float64).ravel()
    others = (np.full(flat.shape, float(each)) for each in (top_k, experts, ep, alpha))
    load = power_law(flat, *others)
    return Load(load.pairs.reshape(tokens.shape), load.touched.reshape(tokens.shape))


@lru_cache(maxsize=4096)
def _one(tokens: float, top_k: int, experts: int, ep: int, alpha: float) -> Load:
    import numpy as np

    load = power_law(*(np.array([float(each)]) for each in (tokens, top_k, experts, ep, alpha)))
    return Load(float(load.pairs[0]), float(load.touched[0]))


def power_law(tokens: Floats, top_k: Floats, experts: Floats, ep: Floats, alpha: Floats) -> Load:
    """Expert popularity with density x^−α: what MoE benchmarks draw their routing from.

    α is above 0 and not 1. Popularity is taken at 128 quantiles; no expert gets more than n
    tokens, what is cut off goes to the others, and the pairs lost in rounding go to experts that
    had none. The busiest rank holds a share G above the mean, from the spread of the popularity.
    """
    import numpy as np

    keys = np.stack(np.broadcast_arrays(tokens, top_k, experts, ep, alpha), axis=-1)
    distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
    parts = [_power_law(block.T) for block in _blocks(distinct)]
    pairs, touched = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Load(pairs[inverse.ravel()], touched[inverse.ravel()])


def _blocks(rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Pieces small enough that 128 quantiles of each row stay in the cache."""
    edges = [*range(0, len(rows), _BLOCK), len(rows)]
    return (rows[low:high] for low, high in pairwise(edges))


def _power_law(keys: Floats) -> tuple[Floats, Floats]:
    import numpy as np

    n, k, experts, ep, alpha = keys
    local = experts / ep
    share, variation = _popularity(n, k, experts, alpha)
    touched = _touched_share(n, n * k / experts, share)
    above = 1 + 0.75 * variation * np.sqrt(2 * np.log(np.maximum(ep, 1))) / np.sqrt(local)
    pairs = np.minimum(above * n * k / ep, n * np.minimum(k, local))
    return pairs, np.minimum(local * (1 - (1 - touched) ** above), pairs)


def _popularity(n: Floats, k: Floats, experts: Floats, alpha: Floats) -> tuple[Floats, Floats]:
    """Quantiles of an expert's popularity over the mean, and their coefficient of variation."""
    import numpy as np

    heavy = n * k > experts
    low = np.where(heavy, _HEAVY[0], _LIGHT[0])[:, None]
    high = np.where(heavy, _HEAVY[1] * n, _LIGHT[1])[:, None]
    power = 1 - alpha[:, None]
    at = (np.arange(QUANTILES) + 0.5) / QUANTILES
    drawn = (low**power + at * (high**power - low**power)) ** (1 / power)
    share = drawn / drawn.mean(axis=1, keepdims=True)
    return share, share.std(axis=1)


def _touched_share(n: Floats, mean: Floats, popularity: Floats) -> Floats:
    import numpy as np

    wanted = mean[:, None] * popularity
    given = np.minimum(wanted, n[:, None])
    cut = (wanted - given).mean(axis=1, keepdims=True)
    given = np.minimum(given + cut, n[:, None])
    whole = np.round(given)
    lost = np.maximum(mean - whole.mean(axis=1), 0.0)
    share: Floats = np.minimum((whole >= 1).mean(axis=1) + lost, 1.0)
    return share
