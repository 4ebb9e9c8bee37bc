"""How many users a deployment carries within its limits."""

from __future__ import annotations

from planner.serving.bench import Bench
from planner.serving.candidates import Candidate
from planner.serving.targets import Targets, margins

_FINE = 64
"""The answer is within this share of itself, and never too many."""


def most_users(bench: Bench, candidate: Candidate, replicas: int, targets: Targets) -> int:
    """The most users whose latencies keep their limits, nobody waiting for room; 0 where not even
    one does.

    Limits of throughput are left aside: more users bring more tokens. Sought by halving, since a
    user more never makes the others faster; what is returned has been planned.
    """
    limits = targets.latencies
    total = replicas * candidate.question.deployment.parallel.data

    def fine(users: int) -> bool:
        found = bench.serve(candidate, replicas, users)
        return found is not None and all(each.inside for each in margins(limits, found))

    one = bench.serve(candidate, replicas, 1)
    if one is None or not fine(1):
        return 0
    low, high = 1, one.most_running * total
    if fine(high):
        return high
    while high - low > max(1, low // _FINE):
        middle = (low + high) // 2
        if fine(middle):
            low = middle
        else:
            high = middle
    return low
