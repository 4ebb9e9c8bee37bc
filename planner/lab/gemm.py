"""The seed's GEMM lab: achieved FLOP/s of a projection as M grows, its weights read cold."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from planner.lab.bench import Bench, shares
from planner.lab.job import Projection
from planner.lab.journal import Point
from planner.lab.laps import SENTINEL

_SENTINELS = {"compute": (64, 1024, 1024), "memory": (1, 1024, 4096)}
"""M, K and N of the products that are timed all through a lap: one in the cache, one read cold.

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
        (projection, rows if index == 0 else tuple(m for m in rows if m in _OTHERS))
        for index, projection in enumerate(bench.job.projections)
        for rows in (bench.job.rows,)
    ]
    each_s = shares(budget_s, sum(len(rows) for _, rows in plans))
    for projection, rows in plans:
        yield from _projection(bench, projection, rows, each_s)


def _projection(
    bench: Bench, projection: Projection, rows: tuple[int, ...], each_s: float
) -> Iterator[Point]:
    depth, features, biased = projection
    copies = bench.copies(depth * features * bench.element_bytes)
    before: tuple[int, float] | None = None
    for m in rows:
        if before and before[1] * max(1.0, m / before[0] / 2) > each_s:
            bench.progress(f"gemm {depth} x {features}: M from {m} on is left out, too long")
            return
        sizes = {
            "rows": m,
            "depth": depth,
            "features": features,
            "bias": biased,
            "copies": copies,
            "dtype": bench.job.dtype,
        }
        point = bench.measure("gemm", sizes, partial(_calls, bench, sizes), each_s)
        before = m, point.values["median_s"]
        yield point


def _calls(bench: Bench, sizes: dict[str, Any]) -> list[Any]:
    m, depth, features = (sizes[name] for name in ("rows", "depth", "features"))
    linear = bench.torch.nn.functional.linear
    inputs = bench.random(m, depth)
    bias = bench.random(features) if sizes["bias"] else None
    weights = bench.pool.cut(sizes["copies"], (features, depth))
    return [partial(linear, inputs, weight, bias) for (weight,) in weights]


def vector(bench: Bench, budget_s: float) -> Iterator[Point]:
    """An FP32 product: the rate of the vector units, where matrix units lack the format."""
    torch, (m, depth, features) = bench.torch, _VECTOR
    torch.backends.cuda.matmul.allow_tf32 = False
    left = bench.random(m, depth, dtype=torch.float32)
    right = bench.random(depth, features, dtype=torch.float32)
    sizes = {"rows": m, "depth": depth, "features": features, "dtype": "fp32"}
    yield bench.measure("vector", sizes, lambda: [partial(torch.mm, left, right)], budget_s)


def sentinels(bench: Bench, budget_s: float, moment: str) -> Iterator[Point]:
    """Products that tell whether the machine keeps its pace, by what bounds them."""
    for bound, (m, depth, features) in _SENTINELS.items():
        copies = bench.copies(depth * features * bench.element_bytes) if bound == "memory" else 1
        shape = {"rows": m, "depth": depth, "features": features, "bias": False, "copies": copies}
        sizes = {"moment": moment, "bound": bound, "dtype": bench.job.dtype}
        make = partial(_calls, bench, shape)
        yield bench.measure(SENTINEL, sizes, make, shares(budget_s, len(_SENTINELS)))
