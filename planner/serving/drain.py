"""The end of a counted run: users who have no next request to send, while others still wait.

A run of n requests is counted from the first send to the last answer. Where lengths vary, its
places empty one after another. With lengths even between 1 − s and 1 of the longest, of mean m and
mean square q, a request that is found running has q / 2m left on average (the inspection paradox of
renewal processes); where every place has one request in all, m. The longest rest is about the
longest request. So n / c rounds on c places last

    n / c · m − rest + tail

of the longest request, the tail being faster than the rest of the run, since on average only the
share ``rest`` of the places is still taken in it. Requests that are all alike end together: of them
only the places of a last round that is not full are idle.
"""

from __future__ import annotations

import math


def served_share(requests: int, places: int, spread: float, alone: float) -> float:
    """Of the places' time in a whole run, the share in which they hold a request.

    ``alone`` is how long a step of one sequence takes, as a share of one with all places taken.
    """
    rounds = max(1.0, requests / places)
    if not spread:
        return rounds / math.ceil(rounds)
    mean = 1 - spread / 2
    square = (1 + (1 - spread) + (1 - spread) ** 2) / 3
    rest = square / (2 * mean) if rounds > 1 else mean
    tail = alone + (1 - alone) * rest
    return min(1.0, rounds * mean / (rounds * mean - rest + tail))
