"""How long a call takes: on a CPU by the clock, on a GPU by events around replayed graphs.

Calls come in several copies, each with operands of its own, so that a loop over them finds none of
its weights in the cache: serving reads them cold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Protocol

import numpy as np

Call = Callable[[], object]
LEAST = 3
_MOST = 2000
_GRAPH_CALLS = 24
"""Calls in one captured graph: enough that its launch does not show."""


@dataclass(frozen=True)
class Timed:
    """Times of one call, in seconds."""

    median_s: float
    low_s: float
    """Tenth percentile."""
    high_s: float
    """Ninetieth percentile."""
    count: int


def summary(samples: Sequence[float]) -> Timed:
    """Median and the middle eight tenths. Raises ValueError without samples."""
    low, median, high = np.quantile(np.asarray(samples, float), (0.1, 0.5, 0.9))
    return Timed(float(median), float(low), float(high), len(samples))


class Stopwatch(Protocol):
    """Times calls on one device."""

    def time(self, calls: Sequence[Call], budget_s: float) -> Timed:
        """Calls in turn until the budget is spent, unmeasured at first; at least 3 of them."""
        ...


class CpuStopwatch:
    """Wall time of each call: CPU operators return when they are done."""

    def time(self, calls: Sequence[Call], budget_s: float) -> Timed:
        """Every call by the clock, whose own cost of 0.1 us is left in.

        One call warms up: what torch sets up for a shape is set up once, and operands are cold.
        """
        calls[0]()
        return summary(sampled(cycle(calls).__next__, budget_s))


def sampled(next_call: Callable[[], Call], budget_s: float) -> list[float]:
    """Wall times of calls, one after another."""
    samples: list[float] = []
    end = time.perf_counter() + budget_s
    while len(samples) < LEAST or (time.perf_counter() < end and len(samples) < _MOST):
        call = next_call()
        began = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began)
    return samples


class CudaStopwatch:
    """Device time of a call as a node of a graph: several are captured and replayed together."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def time(self, calls: Sequence[Call], budget_s: float) -> Timed:
        """Replays of a graph that holds each call some times; what one takes is its share."""
        torch = self._torch
        repeats = max(1, -(-_GRAPH_CALLS // len(calls)))
        graph = self.captured([*calls] * repeats)
        torch.cuda.synchronize()
        samples: list[float] = []
        end = time.perf_counter() + budget_s
        while len(samples) < LEAST or (time.perf_counter() < end and len(samples) < _MOST):
            samples.append(self.elapsed_s(graph.replay) / (len(calls) * repeats))
        return summary(samples)

    def captured(self, calls: Sequence[Call]) -> Any:
        """A CUDA graph of the calls, warmed up and replayed once."""
        torch = self._torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for call in calls:
                call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        graph.replay()
        return graph

    def elapsed_s(self, call: Call) -> float:
        """Device time between two events around a call."""
        torch = self._torch
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3


def stopwatch(torch: Any, device: str) -> Stopwatch:
    """The stopwatch of a device."""
    return CudaStopwatch(torch) if device == "cuda" else CpuStopwatch()
