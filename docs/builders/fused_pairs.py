"""An all-reduce and the norm behind it, apart and as one kernel: as measured and as planned.

The rows of docs/measured/fused-pairs.csv. Made by `make fusion-gains`.
"""

from __future__ import annotations

import csv
from pathlib import Path

from builders.markup import table
from builders.planned import linked, planned
from planner.plan.types import Plan

PAIRS = Path(__file__).resolve().parents[1] / "measured" / "fused-pairs.csv"
_REDUCE = "o_proj.all_reduce"
_HEADER = ("source", "configuration", "measured", "planner", "saved", "planner saves")


def pairs() -> str:
    """Every pair: us apart and fused, and the difference."""
    with PAIRS.open(encoding="utf-8", newline="") as stream:
        return table(_HEADER, [_row(cells) for cells in csv.DictReader(stream)])


def _row(cells: dict[str, str]) -> tuple[str, ...]:
    apart, fused = (_pair_us(planned(cells["deployment"], cells[w])) for w in ("apart", "fused"))
    measured = " → ".join(filter(None, (cells["apart_us"], cells["fused_us"])))
    return (
        linked(_name(cells["source"]), cells["source"]),
        cells["what"],
        measured,
        f"{apart:.1f} → {fused:.1f}",
        f"{float(cells['saved_us']):.1f}",
        f"{apart - fused:.1f}",
    )


def _name(source: str) -> str:
    """``vllm 22086`` of a pull request's address."""
    *_, repository, _, number = source.split("/")
    return f"{repository} {number}"


def _pair_us(plan: Plan) -> float:
    """What a layer's all-reduce behind attention and the norm behind it take, whatever runs them.

    Layers without attention have such a pair as well, in which the norm is called the same.
    """
    layers = max(kernel.repeat for kernel in plan.kernels if _REDUCE in kernel.nodes)
    pair = {_REDUCE, "attention_residual", "post_attention_norm"}
    return 1e6 * sum(
        kernel.time_s
        for kernel in plan.kernels
        if kernel.repeat == layers and pair.intersection(kernel.nodes)
    )
