"""Decode attention over a KV cache that is read cold, by batch and context."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from planner.lab.bench import Bench, shares
from planner.lab.journal import Point

BATCHES = (1, 2, 4, 8, 16, 32)
CONTEXTS = (32, 64, 128, 256, 512, 1024, 2048, 4096)


def measure(bench: Bench, budget_s: float) -> Iterator[Point]:
    """A point for each layout of heads, batch and context, the shortest context first."""
    count = len(bench.job.heads) * len(BATCHES) * len(CONTEXTS)
    each_s = shares(budget_s, count)
    for heads in bench.job.heads:
        for batch in BATCHES:
            yield from _contexts(bench, heads, batch, each_s)


def _contexts(
    bench: Bench, heads: tuple[int, int, int], batch: int, each_s: float
) -> Iterator[Point]:
    query_heads, kv_heads, head_dim = heads
    for context in CONTEXTS:
        kv_bytes = 2 * batch * kv_heads * context * head_dim * bench.element_bytes
        if kv_bytes > bench.machine.memory_bytes / 16:
            return
        sizes = {
            "batch": batch,
            "context": context,
            "heads": query_heads,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "copies": bench.copies(kv_bytes),
            "dtype": bench.job.dtype,
        }
        point = bench.measure("attention", sizes, partial(_calls, bench, sizes), each_s)
        yield point
        if point.values["median_s"] * 2 > each_s:
            return


def _calls(bench: Bench, sizes: dict[str, Any]) -> list[Any]:
    batch, kv_heads, head_dim = sizes["batch"], sizes["kv_heads"], sizes["head_dim"]
    query = bench.random(batch, sizes["heads"], 1, head_dim)
    attend = bench.torch.nn.functional.scaled_dot_product_attention
    cache = (batch, kv_heads, sizes["context"], head_dim)
    caches = bench.pool.cut(sizes["copies"], cache, cache)
    return [partial(attend, query, keys, values, enable_gqa=True) for keys, values in caches]
