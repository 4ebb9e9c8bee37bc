"""Measured rows of the very shape that a plan asks for.

All sizes must be the same but one, along which two neighbours may stand in: tokens of a prefill,
the context of a decode step, bytes of a message. GEMMs and experts have no such size: their times
step with tiles, and tables time 128 rows and 129 for that reason. Of routed experts the busiest
rank's pairs and touched experts must be the plan's as well.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.calibrate.types import Rows
from planner.num import Number

FURTHEST = 2.0
"""How many times as large as the lower neighbour the upper one may be."""
ALIKE = 1e-3
"""By how much expected loads of a rank may differ: they are computed, not measured."""


@dataclass(frozen=True)
class Sizes:
    """By which sizes rows of a family are told apart."""

    fixed: Callable[[Any], tuple[Number, ...]]
    """These must be the same."""
    along: Callable[[Any], Number] = lambda _: 1.0
    """Along this neighbours may stand in; without it none do."""
    alike: Callable[[Any], tuple[Number, ...]] = lambda _: ()
    """These must be the same within `ALIKE`."""
    protocol: tuple[str, ...] = ()
    """Fields that say how a benchmark ran and not what it computed."""


SIZES: Mapping[str, Sizes] = {
    "gemm": Sizes(
        lambda s: (s.rows, s.depth, s.features),
        protocol=("weight_copies", "input_copies", "weight_bytes", "quantised"),
    ),
    "attention_prefill": Sizes(
        lambda s: (s.batch, s.kv_tokens - s.new_tokens, *_heads(s)), lambda s: s.new_tokens
    ),
    "attention_decode": Sizes(lambda s: (s.batch, s.new_tokens, *_heads(s)), lambda s: s.kv_tokens),
    "mla_prefill": Sizes(
        lambda s: (s.batch, s.kv_tokens - s.new_tokens, *_latent(s)), lambda s: s.new_tokens
    ),
    "mla_decode": Sizes(lambda s: (s.batch, s.new_tokens, *_latent(s)), lambda s: s.kv_tokens),
    "moe": Sizes(
        lambda s: (s.tokens, s.hidden, s.intermediate, s.top_k, s.gated),
        alike=lambda s: (s.pairs, s.touched),
    ),
    "recurrent": Sizes(lambda s: (s.steps, s.pieces, s.states, s.moved_bytes)),
    "collective": Sizes(lambda s: (s.ranks, s.eager), lambda s: s.bytes, protocol=("copied",)),
}
"""By family; streaming kernels have no shape to meet again."""


def _heads(shape: Any) -> tuple[Number, ...]:
    value = shape.value_dim + (shape.value_dim == 0) * shape.head_dim
    return shape.heads, shape.kv_heads, shape.head_dim, value, shape.window


def _latent(shape: Any) -> tuple[Number, ...]:
    value = shape.value_dim + (shape.value_dim == 0) * shape.head_dim
    return shape.heads, shape.latent_dim, shape.rope_dim, shape.head_dim, value


@dataclass(frozen=True)
class Counterpart:
    """What was measured of a shape."""

    time_s: float
    shape: Any
    """The shape asked for, run as the benchmark ran it."""
    exact: bool
    """Whether that very shape was measured; otherwise two neighbours stand in."""


class Counterparts:
    """Rows of one variant, found by shape."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.sizes = SIZES[rows.family]
        count = len(rows.time_s)
        self.along = np.broadcast_to(np.asarray(self.sizes.along(rows.shape), np.float64), count)
        self.alike = [np.broadcast_to(each, count) for each in self.sizes.alike(rows.shape)]
        self.places: dict[tuple[float, ...], list[int]] = defaultdict(list)
        columns = [np.broadcast_to(each, count) for each in self.sizes.fixed(rows.shape)]
        for place, key in enumerate(zip(*columns, strict=True)):
            self.places[_key(key)].append(place)

    def find(self, shape: Any) -> Counterpart | None:
        """The measured time of a shape of plain numbers; None where no row is like it."""
        places = np.array(self.places.get(_key(self.sizes.fixed(shape)), ()), np.int64)
        for asked, measured in zip(self.sizes.alike(shape), self.alike, strict=True):
            places = places[np.abs(measured[places] / asked - 1) <= ALIKE]
        if not len(places):
            return None
        wanted = float(self.sizes.along(shape))
        here = places[self.along[places] == wanted]
        if len(here):
            return self._told(shape, here[0], float(np.median(self.rows.time_s[here])), exact=True)
        below, above = places[self.along[places] < wanted], places[self.along[places] > wanted]
        if not len(below) or not len(above):
            return None
        low = below[np.argmax(self.along[below])]
        high = above[np.argmin(self.along[above])]
        if self.along[high] > FURTHEST * self.along[low]:
            return None
        return self._told(shape, low, self._between(low, high, wanted), exact=False)

    def _between(self, low: int, high: int, wanted: float) -> float:
        """Straight in logarithms."""
        ends = self.along[low], self.along[high]
        share = math.log(wanted / ends[0]) / math.log(ends[1] / ends[0])
        times = self.rows.time_s[low], self.rows.time_s[high]
        return float(times[0] * (times[1] / times[0]) ** share)

    def _told(self, shape: Any, place: int, time_s: float, *, exact: bool) -> Counterpart:
        def of_row(name: str) -> float:
            return float(np.broadcast_to(getattr(self.rows.shape, name), len(self.along))[place])

        ran = {name: of_row(name) for name in self.sizes.protocol}
        return Counterpart(time_s, dataclasses.replace(shape, **ran), exact)


def _key(values: tuple[Any, ...]) -> tuple[float, ...]:
    return tuple(round(float(value), 6) for value in values)
