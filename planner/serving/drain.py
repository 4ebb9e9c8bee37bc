"""The end of a counted run: users who have no next request to send, while others still wait.

A run of n requests is counted from the first send to the last answer. Where lengths vary, its
places empty one after another. With lengths even between 1 − s and 1 of the longest, of mean m and
mean square q, a request that is found running has q / 2m left on average (the inspection paradox of
renewal processes); where every place has one request in all, m. More than x is left, near the
longest request, with the probability (1 − x)² / 2sm, so that the longest rest of c places falls
short of the longest request by √(πsm / 2c); of one request in all, by s / (c + 1). So n / c rounds
last

    n / c · m − rest + tail

of the longest request. Steps of the tail are faster, the more of the places are empty. Requests
that are all alike end together: of them only the places of a last round that is not full are idle,
and its steps are faster, as far as they are not those of a single sequence.
"""

from __future__ import annotations

import math


def served_share(requests: int, places: int, spread: float, alone: float) -> float:
    """Of the places' time in a whole run, the share in which they hold a request.

    ``alone`` is how long a step of one sequence takes, as a share of one with all places taken.
    """
    rounds = max(1.0, requests / places)
    if not spread:
        full = math.floor(rounds)
        last = rounds - full
        return rounds / (full + (alone + (1 - alone) * last if last else 0.0))
    mean = 1 - spread / 2
    square = (1 + (1 - spread) + (1 - spread) ** 2) / 3
    rest = square / (2 * mean) if rounds > 1 else mean
    short = (
        math.sqrt(math.pi * spread * mean / (2 * places)) if rounds > 1 else spread / (places + 1)
    )
    longest = max(rest, 1 - short)
    tail = alone * longest + (1 - alone) * rest
    return min(1.0, rounds * mean / (rounds * mean - rest + tail))
