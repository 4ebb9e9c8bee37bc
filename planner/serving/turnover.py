"""What becomes of sequences in a KV cache that is too small for all of them, counted in steps.

An engine that admits by what sequences hold now, and not by what they will come to hold, lets too
many in: as they grow, those that began last must go, wait in front of all others, and compute their
tokens again. How often, and how long they are away, depends on no time: only on how many tokens
there are for how many sequences of which lengths. So the cache is replayed, a token a step for each
sequence that is in it, until the averages stand: from one sequence's end, or one eviction, to the
next.

Rates of all this have no closed form: memory that several sequences give back at once lets several
in, which later end together, so that even sequences which came one by one end up in waves. One law
holds whatever the waves. Each token of an output is generated once, so that the ages of those that
run are even, and a full cache of M tokens runs M / (p + o / 2) sequences of p and o tokens.

Numbers are rounded to ratios near each other before, so that many loops share an answer; a cache of
more than 64 sequences is taken for one of 64.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from planner.serving.replay import Cache, Replay, Turnover

_MOST = 64
"""Sequences of a replay."""
_FEW = 8
"""Up to so many their number matters."""
_MUCH, _MOST_PRESSURE = 2.5, 4.0
"""Sequences asked for, of those that fit: more of them only wait longer."""
_LEAST_OUTPUT = 16
_LONG = 16
"""Steps between the ends of two sequences: of longer ones only ratios matter."""


def turnover(cache: Cache) -> Turnover | None:
    """What becomes of sequences; None where nothing runs out."""
    if cache.enough or cache.holds < 1 or cache.output < 2:  # noqa: PLR2004 - nothing grows
        return None
    near = _near(cache)
    found = _replayed(near)
    if not found.evictions and not found.out:
        return None
    return replace(found, again=found.again * cache.output / near.output)


def _near(cache: Cache) -> Cache:
    """One like it, of those that many share."""
    holds = _between(min(_MOST, cache.holds), 16 if cache.holds < _FEW else 4)
    pressure = cache.sequences / cache.holds
    pressure = min(_MOST_PRESSURE, _rounded(pressure, 8 if pressure < _MUCH else 2))
    output = _output(cache, holds)
    prompt = max(1, round(output * _rounded(cache.prompt / cache.output, 6)))
    many = max(1, round(holds * pressure))
    near = Cache(cache.rule, 1, prompt, output, many, round(cache.spread, 1), cache.apart)
    return replace(near, tokens=math.ceil(holds / near.holds))


def _output(cache: Cache, holds: float) -> int:
    """Tokens of an output of the one that is replayed: as many sequences end in each step of it.

    Only an estimate, which falls by steps, keeps their own length.
    """
    if cache.rule == "estimate":
        return round(_rounded(cache.output, 4))
    scaled = cache.output * min(1.0, holds / cache.holds)
    return round(_rounded(max(_LEAST_OUTPUT, min(_LONG * holds, scaled)), 2))


def _between(ratio: float, cuts: int) -> float:
    """The same in the middle of two: no whole number of sequences, which would fit too well."""
    return float(2 ** ((math.floor(math.log2(ratio) * cuts) + 0.5) / cuts))


def _rounded(ratio: float, cuts: int) -> float:
    """The nearest of so many ratios to each doubling."""
    return float(2 ** (round(math.log2(ratio) * cuts) / cuts))


@lru_cache(maxsize=65_536)
def _replayed(cache: Cache) -> Turnover:
    return Replay(cache).turned()
