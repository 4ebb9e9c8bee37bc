"""What getting a kernel to run costs: launched one by one, and replayed from a CUDA Graph."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from planner.lab.bench import Bench
from planner.lab.journal import Point
from planner.lab.timing import CudaStopwatch

_LAUNCHES = 500
_ROUNDS = 9
_ELEMENTS = 256
"""A kernel so small that it is all start and end."""


def measure(bench: Bench, budget_s: float) -> Iterator[Point]:
    """The cost of one launch; on a GPU also of a replay and of a node in it.

    A CPU has no queue: what a call takes beyond its work is the cost of calling.
    """
    del budget_s  # a fixed number of launches: well under a second
    known = bench.journal.known("launch", {})
    if known:
        yield known
        return
    small = bench.random(_ELEMENTS)
    values = {"launch_s": _eager_s(bench, small)}
    if isinstance(bench.stopwatch, CudaStopwatch):
        values |= _graph(bench, bench.stopwatch, small)
    yield bench.journal.add(Point("launch", {}, values))


def _eager_s(bench: Bench, small: Any) -> float:
    """Host time of one call in a loop that never waits for the device."""
    rounds = []
    for _ in range(_ROUNDS):
        _synchronise(bench)
        began = time.perf_counter()
        for _ in range(_LAUNCHES):
            small.add_(1)
        rounds.append((time.perf_counter() - began) / _LAUNCHES)
    _synchronise(bench)
    return median(rounds)


def _graph(bench: Bench, stopwatch: CudaStopwatch, small: Any) -> dict[str, float]:
    """Host time of a replay, device time of a node."""
    graph = stopwatch.captured([lambda: small.add_(1)] * _LAUNCHES)
    nodes = [stopwatch.elapsed_s(graph.replay) / _LAUNCHES for _ in range(_ROUNDS)]
    replays = []
    for _ in range(_ROUNDS):
        _synchronise(bench)
        began = time.perf_counter()
        graph.replay()
        replays.append(time.perf_counter() - began)
    _synchronise(bench)
    return {"graph_node_s": median(nodes), "replay_s": median(replays)}


def _synchronise(bench: Bench) -> None:
    if bench.job.device == "cuda":
        bench.torch.cuda.synchronize()
