"""An all-reduce and the norm behind it, apart and as one kernel: as measured and as planned.

The rows of docs/measured/fused-pairs.csv, all-reduces by size, and what public runs say of ranks
that wait, from served-runs.json. Made by `make fusion-gains`.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from statistics import median

from builders.markup import table
from builders.planned import linked, planned
from planner.plan.types import Plan

FOLDER = Path(__file__).resolve().parents[1] / "measured"
PAIRS, SERVED = FOLDER / "fused-pairs.csv", FOLDER / "served-runs.json"
_REDUCE = "o_proj.all_reduce"
_ENGINES = (("SGLang", "sglang", "0.5.10"), ("SGLang", "sglang", "0.5.14"))
_EIGHT = (
    "model: llama-3.1-70b-instruct, gpu: b200-sxm, parallel: {{tensor: 8}}, "
    'backend: {{name: {name}, version: "{version}"}}, '
    "step: {{decode: {{batch: {batch}, context: 600}}}}"
)
"""Rows of 8,192 values in 16 bit: 16 KiB a token."""
_BATCHES = (1, 8, 16)
_HEADER = ("source", "configuration", "measured", "planner", "saved", "planner saves")


def pairs() -> str:
    """Every pair: us apart and fused, and the difference."""
    with PAIRS.open(encoding="utf-8", newline="") as stream:
        return table(_HEADER, [_row(cells) for cells in csv.DictReader(stream)])


def _row(cells: dict[str, str]) -> tuple[str, ...]:
    apart, fused = (_pair_us(planned(cells["deployment"], cells[w])) for w in ("apart", "fused"))
    measured = " → ".join(cells[side] or "–" for side in ("apart_us", "fused_us"))
    return (
        linked(_name(cells["source"]), cells["source"]),
        cells["what"],
        measured if cells["fused_us"] else "",
        f"{apart:.1f} → {fused:.1f}",
        f"{float(cells['saved_us']):.1f}" if cells["saved_us"] else "",
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


def sizes() -> str:
    """What an all-reduce of eight B200 takes as planned, by its size and the engine's version."""
    header = ("engine", *(f"{16 * batch} KiB" for batch in _BATCHES))
    return table(header, [(f"{title} {v}", *_reduces(name, v)) for title, name, v in _ENGINES])


def _reduces(name: str, version: str) -> list[str]:
    plans = (planned(_EIGHT.format(name=name, version=version, batch=n)) for n in _BATCHES)
    return [
        f"{1e6 * next(k.time_s for k in plan.kernels if _REDUCE in k.nodes):.1f} us"
        for plan in plans
    ]


def waiting() -> str:
    """How the time of a token of public runs over eight ranks compares with the planned one."""
    rows = json.loads(SERVED.read_text(encoding="utf-8"))["rows"]
    found = [
        figure["ratio"]
        for row in rows
        if row["engine"] == "sglang" and row["cells"].get("parallel.tensor") == "8"
        for figure in row["figures"]
        if figure["figure"] == "tpot_ms" and figure["ratio"] is not None
    ]
    return (
        f"Over {len(found)} public runs of SGLang on eight GPUs the time of a token is "
        f"{median(found):.2f} times the planned one in the median, {min(found):.2f} to "
        f"{max(found):.2f}."
    )


PARTS = {"pairs": pairs, "sizes": sizes, "waiting": waiting}
