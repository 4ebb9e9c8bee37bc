"""What getting a kernel to run costs: launched one by one, and replayed from a CUDA Graph."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from planner.lab.bench import Bench, synchronise
from planner.lab.journal import Point
from planner.lab.narrow import narrow
from planner.lab.step import Step
from planner.lab.timing import Call, CudaStopwatch, sampled

_LAUNCHES = 500
_ROUNDS = 9
_FITTED = ("linear", "attention")
_ELEMENTS = 256
"""A kernel so small that it is all start and end."""


def measure(bench: Bench, budget_s: float) -> Iterator[Point]:
    """The cost of one launch in a loop, and of one in the step; on a GPU also of a replay and of a
    node in it.

    A CPU has no queue: what a call takes beyond its work is the cost of calling.
    """
    known = bench.journal.known("launch", {})
    if known:
        yield known
        return
    tiny = bench.random(_ELEMENTS)
    values = {"launch_s": _eager_s(bench, tiny)}
    if bench.job.step is not None:
        values |= {"call_s": _call_s(bench, bench.job.step, budget_s)}
    if isinstance(bench.stopwatch, CudaStopwatch):
        values |= _graph(bench, bench.stopwatch, tiny)
    yield bench.journal.add("launch", {}, values)


def _call_s(bench: Bench, program: dict[str, Any], budget_s: float) -> float:
    """Host time of a kernel in a step, with the Python between two: of a step so narrow that
    nothing else takes time.

    On a CPU the fits of products and attention hold their own call, so that theirs is left out.
    """
    step = Step(bench, narrow(program))
    kernels = launched(step.run)
    own_s = _products_s(step, program) if bench.job.device == "cpu" else 0.0
    samples = sampled(lambda: step.run, budget_s)
    synchronise(bench)
    return max(0.0, median(samples) - own_s) / kernels


def _products_s(step: Step, program: dict[str, Any]) -> float:
    """Wall time within products and attention of one step."""
    wanted = {
        node["id"]
        for block in program["blocks"]
        for node in block["nodes"]
        if node["op"] in _FITTED
    }
    spent: list[float] = []

    @contextmanager
    def clocked(name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        if name in wanted:
            spent[-1] += time.perf_counter() - began

    for _ in range(_ROUNDS):
        spent.append(0.0)
        step.run(clocked)
    return median(spent)


def launched(run: Call) -> int:
    """Operators in a call that make or change a tensor: views launch nothing."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):  # type: ignore[misc, unused-ignore]
        count = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            self.count += not _is_view(func)
            return func(*args, **(kwargs or {}))

    with Counter() as counter:
        run()
    return int(counter.count)


def _is_view(func: Any) -> bool:
    """Whether an operator gives its argument's memory in another shape."""
    schema = func._schema  # noqa: SLF001 - torch tells it nowhere else
    returned = [each.alias_info for each in schema.returns]
    shared = any(alias is not None and not alias.is_write for alias in returned)
    return shared or func.__name__.startswith("_unsafe_view")


def _eager_s(bench: Bench, tiny: Any) -> float:
    """Host time of one call in a loop that never waits for the device."""
    rounds = []
    for _ in range(_ROUNDS):
        synchronise(bench)
        began = time.perf_counter()
        for _ in range(_LAUNCHES):
            tiny.add_(1)
        rounds.append((time.perf_counter() - began) / _LAUNCHES)
    synchronise(bench)
    return median(rounds)


def _graph(bench: Bench, stopwatch: CudaStopwatch, tiny: Any) -> dict[str, float]:
    """Host time of a replay, device time of a node."""
    graph = stopwatch.captured([lambda: tiny.add_(1)] * _LAUNCHES)
    nodes = [stopwatch.elapsed_s(graph.replay) / _LAUNCHES for _ in range(_ROUNDS)]
    replays = []
    for _ in range(_ROUNDS):
        synchronise(bench)
        began = time.perf_counter()
        graph.replay()
        replays.append(time.perf_counter() - began)
    synchronise(bench)
    return {"graph_node_s": median(nodes), "replay_s": median(replays)}
