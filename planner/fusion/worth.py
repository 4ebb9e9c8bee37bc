"""What each node is worth at most: prices of nodes that no kernel undercuts.

Running every node once with kernels that cost c and cover sets K is a set partition. Its linear
relaxation has as dual: give each node a worth y, so that no kernel covers more worth than it costs.
Then any schedule costs at least the worth of all nodes, and exactly that plus what its kernels cost
*beyond* the worth they cover, none of which is negative. So a bound comes first, and the search
that follows looks for what is beyond it.

The dual is climbed by subgradients in floats; rounding and what is left of infeasibility are then
repaired in whole numbers, so the bound is proven however badly the climb went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_ROUNDS = 300
_HALVE_AFTER = 12
"""Rounds without a better bound after which steps become half as long."""


@dataclass(frozen=True)
class Kernels:
    """Kernels over nodes that are numbered throughout the kinds of block."""

    costs: Sequence[int]
    nodes: Sequence[Sequence[int]]
    """The nodes of each."""
    often: Sequence[int]
    """How often each could run."""
    times: Sequence[int]
    """How often each node runs."""


def worths(kernels: Kernels) -> list[int]:
    """A worth of each node such that no kernel covers more than it costs, high in sum.

    A node that no kernel runs has none.
    """
    return _risen(kernels, _repaired(kernels, _climbed(kernels)))


def _climbed(kernels: Kernels) -> list[int]:
    """Multipliers of a high Lagrangian bound, whole but not quite feasible."""
    costs = np.array([float(cost) for cost in kernels.costs])
    sizes = np.array([len(nodes) for nodes in kernels.nodes], dtype=np.int64)
    flat = np.array([n for nodes in kernels.nodes for n in nodes], dtype=np.int64)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    often, times = np.array(kernels.often, float), np.array(kernels.times, float)
    start = np.full(len(times), np.inf)
    np.minimum.at(start, flat, (costs / sizes)[owner])
    worth = np.where(np.isfinite(start), start, 0.0)
    best, best_bound, scale, stale = worth, -np.inf, 1.0, 0
    above = _greedy(kernels)
    for _ in range(_ROUNDS):
        beyond = costs - np.bincount(owner, worth[flat], len(sizes))
        taken = np.where(beyond < 0, often, 0.0)
        bound = float(times @ worth + taken @ beyond)
        best, best_bound, stale = (
            (worth, bound, 0) if bound > best_bound else (best, best_bound, stale + 1)
        )
        slope = times - np.bincount(flat, taken[owner], len(times))
        length = float(slope @ slope)
        if length == 0.0 or best_bound >= above:
            break
        if stale >= _HALVE_AFTER:
            worth, scale, stale = best, scale / 2, 0
        worth = worth + slope * (scale * (above - bound) / length)
    return [int(value) for value in best]


def _greedy(kernels: Kernels) -> float:
    """A cost that some set of kernels reaches or nearly so: what the climb aims at."""
    order = sorted(
        range(len(kernels.costs)), key=lambda k: kernels.costs[k] / len(kernels.nodes[k])
    )
    done: set[int] = set()
    total = 0.0
    for number in order:
        nodes = kernels.nodes[number]
        if done.isdisjoint(nodes):
            done.update(nodes)
            total += float(kernels.costs[number] * kernels.times[nodes[0]])
    return total


def _repaired(kernels: Kernels, worth: list[int]) -> list[int]:
    """Feasible in whole numbers: a kernel that is undercut takes its loss from its nodes."""
    for cost, nodes in zip(kernels.costs, kernels.nodes, strict=True):
        lacking = sum(worth[node] for node in nodes) - cost
        if lacking > 0:
            each, rest = divmod(lacking, len(nodes))
            for place, node in enumerate(nodes):
                worth[node] -= each + (place < rest)
    return worth


def _risen(kernels: Kernels, worth: list[int]) -> list[int]:
    """No node's worth could rise alone."""
    beyond = [
        cost - sum(worth[node] for node in nodes)
        for cost, nodes in zip(kernels.costs, kernels.nodes, strict=True)
    ]
    runs: list[list[int]] = [[] for _ in worth]
    for number, nodes in enumerate(kernels.nodes):
        for node in nodes:
            runs[node].append(number)
    for node, numbers in enumerate(runs):
        rise: Any = min((beyond[number] for number in numbers), default=0)
        worth[node] += rise
        for number in numbers:
            beyond[number] -= rise
    return worth
