"""The seed's GEMM lab: achieved FLOP/s of a projection as M grows, its weights read cold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from planner.lab.bench import Bench, shares
from planner.lab.journal import Point

SENTINELS = {"compute": (64, 1024, 1024), "memory": (1, 1024, 4096)}
"""M, K and N of the products that are timed first and last: one in the cache, one read cold.

Neighbours of a virtual machine take memory bandwidth and leave the cores alone.
"""
_OTHERS = (1, 2, 4, 8, 16, 32, 64, 256)
"""M of the further projections: their climb is that of the first."""
_VECTOR = (1024, 1024, 1024)


def measure(bench: Bench, budget_s: float) -> Iterator[Point]:
    """A point for each projection and M, the smallest M first.

    An M that would take more than its share of the time is left out, and so are larger ones.
    """
    plans = [
        (depth, features, rows if index == 0 else tuple(m for m in rows if m in _OTHERS))
        for index, (depth, features) in enumerate(bench.job.projections)
        for rows in (bench.job.rows,)
    ]
    each_s = shares(budget_s, sum(len(rows) for *_, rows in plans))
    for depth, features, rows in plans:
        yield from _projection(bench, depth, features, rows, each_s)


def _projection(
    bench: Bench, depth: int, features: int, rows: tuple[int, ...], each_s: float
) -> Iterator[Point]:
    weights: list[Any] = []
    copies = bench.copies(depth * features * bench.element_bytes)
    before: tuple[int, float] | None = None
    for m in rows:
        if before and before[1] * max(1.0, m / before[0] / 2) > each_s:
            bench.progress(f"gemm {depth} x {features}: M from {m} on is left out, too long")
            return
        sizes = _sizes(bench, m, depth, features, copies)
        if not weights and not bench.journal.known("gemm", sizes):
            weights += [bench.random(features, depth) for _ in range(copies)]
        point = bench.measure("gemm", sizes, partial(_calls, bench, m, depth, weights), each_s)
        before = m, point.values["median_s"]
        yield point


def _sizes(bench: Bench, m: int, depth: int, features: int, copies: int) -> dict[str, Any]:
    return {
        "rows": m,
        "depth": depth,
        "features": features,
        "copies": copies,
        "dtype": bench.job.dtype,
    }


def _calls(bench: Bench, m: int, depth: int, weights: list[Any]) -> list[Any]:
    linear = bench.torch.nn.functional.linear
    inputs = bench.random(m, depth)
    return [partial(linear, inputs, weight) for weight in weights]


def vector(bench: Bench, budget_s: float) -> Iterator[Point]:
    """An FP32 product: the rate of the vector units, where matrix units lack the format."""
    torch, (m, depth, features) = bench.torch, _VECTOR
    torch.backends.cuda.matmul.allow_tf32 = False
    left = bench.random(m, depth, dtype=torch.float32)
    right = bench.random(depth, features, dtype=torch.float32)
    sizes = {"rows": m, "depth": depth, "features": features, "dtype": "fp32"}
    yield bench.measure("vector", sizes, lambda: [partial(torch.mm, left, right)], budget_s)


def sentinels(bench: Bench, moment: str) -> dict[str, float]:
    """Seconds of the products that tell whether the machine keeps its pace, by what bounds them."""
    found = {}
    for bound, (m, depth, features) in SENTINELS.items():
        size = depth * features * bench.element_bytes
        copies = bench.copies(size) if bound == "memory" else 1
        weights = [bench.random(features, depth) for _ in range(copies)]
        sizes = {"moment": moment, "bound": bound, "dtype": bench.job.dtype}
        point = bench.measure("sentinel", sizes, partial(_calls, bench, m, depth, weights), 0.4)
        found[bound] = float(point.values["median_s"])
    return found
