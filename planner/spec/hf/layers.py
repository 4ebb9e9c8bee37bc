"""Layers one by one to a short sequence: runs of like layers, and cycles of runs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from planner.spec.hf.fields import Config
from planner.spec.types import Scalar

LONGEST_CYCLE = 8
"""Runs in a cycle: five local layers and a global one are two."""


@dataclass(frozen=True)
class Use:
    """One layer: its block, its label in tables, and what it alone has."""

    block: str
    label: str = "layer"
    given: tuple[tuple[str, Scalar], ...] = ()

    def item(self, times: int) -> dict[str, Any]:
        """As a model's sequence writes it."""
        found: dict[str, Any] = {"block": self.block}
        if times > 1:
            found["times"] = times
        found["label"] = self.label
        if self.given:
            found["with"] = dict(self.given)
        return found


Run = tuple[Use, int]


def folded(layers: list[Use]) -> list[dict[str, Any]]:
    """The shortest plain way to write layers in their order: runs, and runs that repeat."""
    runs = [(use, len(list(group))) for use, group in groupby(layers)]
    items: list[dict[str, Any]] = []
    position = 0
    while position < len(runs):
        period, repeat = _cycle(runs[position:])
        if repeat > 1:
            cycle = runs[position : position + period]
            items.append({"repeat": repeat, "blocks": [use.item(times) for use, times in cycle]})
        else:
            use, times = runs[position]
            items.append(use.item(times))
        position += period * repeat
    return items


def _cycle(runs: list[Run]) -> tuple[int, int]:
    """How many runs make the first cycle and how often it repeats; (1, 1) for none."""
    best = (1, 1)
    for period in range(2, min(LONGEST_CYCLE, len(runs) // 2) + 1):
        repeat = 1
        while runs[period * repeat : period * (repeat + 1)] == runs[:period]:
            repeat += 1
        if repeat > 1 and period * repeat > best[0] * best[1]:
            best = (period, repeat)
    return best


def windows(
    config: Config, layers: int, window: int | None, *, every: int | None, first_full: int = 0
) -> list[int | None]:
    """The window of each layer; None sees all keys.

    ``layer_types`` of the config decides; without it every ``every``-th layer sees all keys and the
    others have the window (with ``every`` None all have it), the first ``first_full`` apart.
    """
    kinds = config.texts("layer_types")
    if not kinds:
        return [
            None if index < first_full or (every and (index + 1) % every == 0) else window
            for index in range(layers)
        ]
    if len(kinds) != layers:
        config.refuse("layer_types", f"names {len(kinds)} layers where there are {layers}")
    known = {"full_attention", "sliding_attention"}
    for position, kind in enumerate(kinds):
        if kind not in known:
            words = " or ".join(sorted(known))
            config.refuse("layer_types", f"layer {position} is {kind[:40]!r}; known is {words}")
            break
    return [window if kind == "sliding_attention" else None for kind in kinds]
