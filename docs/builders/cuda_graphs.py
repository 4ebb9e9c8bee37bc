"""Eager steps against replayed ones, published and planned, and what graphs were seen to cost.

The rows of docs/measured/eager-graph.csv and graph-capture.csv. Made by `make fusion-gains`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from builders.markup import table
from builders.planned import linked, planned
from planner.plan.types import Plan

FOLDER = Path(__file__).resolve().parents[1] / "measured"
RATIOS, LEFT_OUT = FOLDER / "eager-graph.csv", FOLDER / "eager-graph-left-out.csv"
COSTS = FOLDER / "graph-capture.csv"
WITHIN = 0.25


@dataclass(frozen=True)
class Pair:
    """A measurement without graphs and one with them, beside the planner's."""

    cells: Mapping[str, str]
    eager_s: float
    graph_s: float

    @property
    def stated(self) -> float:
        """Eager over graph, as measured."""
        return float(self.cells["eager"]) / float(self.cells["graph"])

    @property
    def predicted(self) -> float:
        """The same of the plans."""
        return self.eager_s / self.graph_s

    @property
    def near(self) -> bool:
        """Whether the ratio is within a quarter of the measured one."""
        return abs(self.predicted / self.stated - 1) <= WITHIN


@cache
def pairs() -> tuple[Pair, ...]:
    """Every case with its plans."""
    with RATIOS.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return tuple(
        Pair(row, *(_time_s(planned(row["deployment"], row[side]), row) for side in _SIDES))
        for row in rows
    )


_SIDES = ("eager_flags", "graph_flags")


def _time_s(plan: Plan, cells: Mapping[str, str]) -> float:
    """A token's time where requests are served: of a whole one where that was measured."""
    if plan.workload is not None:
        whole = float(plan.workload.latency_s) / plan.workload.output
        return whole if cells["of"] == "request" else float(plan.workload.tpot_s)
    if plan.serving is None:
        return plan.step.time_s
    if cells["of"] == "request":
        return float(plan.serving.latency_s.value) / plan.serving.output
    return float(plan.serving.tpot_s.value)


def ratios() -> str:
    """Every pair, with its ratio and ours."""
    rows = (
        (
            linked(pair.cells["case"], pair.cells["source"]),
            pair.cells["what"],
            f"{pair.cells['eager']} → {pair.cells['graph']} {pair.cells['unit']}",
            f"{pair.eager_s * 1e3:.2f} → {pair.graph_s * 1e3:.2f} ms",
            f"{pair.stated:.2f}",
            f"{pair.predicted:.2f}",
            f"{pair.predicted / pair.stated:.2f}",
            "yes" if pair.near else "**no**",
            pair.cells["open"] or "nothing",
            pair.cells["note"],
        )
        for pair in pairs()
    )
    header = ("case", "what", "measured", "planned, a token", "ratio", "ours", "ours / measured")
    return table((*header, "within 25 %", "its source leaves open", "about it"), rows)


def summary() -> str:
    """How many ratios are near, of sources that state enough and of all."""
    stated = [pair.near for pair in pairs() if not pair.cells["open"]]
    near = sum(pair.near for pair in pairs())
    return (
        f"{sum(stated)} of {len(stated)} ratios whose sources state enough are within 25 % of the "
        f"measured ones, and {near} of all {len(pairs())}."
    )


def left_out() -> str:
    """Cases that do not state enough, and why."""
    with LEFT_OUT.open(encoding="utf-8", newline="") as stream:
        rows = [
            (linked(row["case"], row["source"]), row["what"], row["why"])
            for row in csv.DictReader(stream)
        ]
    return table(("case", "what", "why it is not planned"), rows)


def costs() -> str:
    """What graphs took, each, where their number is known."""
    with COSTS.open(encoding="utf-8", newline="") as stream:
        return table(
            ("case", "engine", "model", "graphs", "memory", "a graph", "time", "a graph"),
            _costs(csv.DictReader(stream)),
        )


def _costs(rows: Iterator[Mapping[str, str]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        count = int(row["graphs"])
        memory, time = row["gib"], row["seconds"]
        yield (
            linked(row["case"], row["source"]),
            row["engine"],
            row["model"],
            f"{count}",
            f"{memory} GiB" if memory else "",
            f"{float(memory) * 1024 / count:.1f} MiB" if memory else "",
            f"{time} s" if time else "",
            f"{float(time) / count:.2f} s" if time else "",
        )


PARTS = {"ratios": ratios, "summary": summary, "left-out": left_out, "costs": costs}
