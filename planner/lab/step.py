"""A whole decode step in torch, from a program: the planned graph as plain data.

A program is ``{"batch", "context", "blocks": [{"times", "inputs", "outputs", "nodes": [{"id", "op",
"in", "out", …attributes}]}]}``. Repeated blocks own weights and caches of their own, so that every
layer reads its own from memory, as a model does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from planner.lab.bench import Bench, values
from planner.lab.journal import Point
from planner.lab.operators import MAKERS, Function, Surroundings
from planner.lab.refusal import LabRefused
from planner.lab.timing import CudaStopwatch, sampled, summary

TRACE = "trace.json.gz"
_PROFILED = 6
_WARM = 3
_MOST_SAMPLES = 400
_MOST_MEMORY = 0.8
"""Share of the memory that a step may take."""
Named = Callable[[str], AbstractContextManager[Any]]


def check(program: dict[str, Any]) -> None:
    """Raises LabRefused naming operators that the lab cannot run."""
    used = {node["op"] for block in program["blocks"] for node in block["nodes"]}
    unknown = sorted(used - MAKERS.keys())
    if unknown:
        hint = f"it runs {', '.join(sorted(MAKERS))}"
        raise LabRefused(f"the lab cannot run the operators {', '.join(unknown)}", hint)


def needed_bytes(program: dict[str, Any], element_bytes: int) -> int:
    """What a step takes: matrices, embeddings, K and V; vectors are left out."""
    tokens = program["batch"] * program["context"]
    elements = 0
    for block in program["blocks"]:
        for node in block["nodes"]:
            elements += block["times"] * _elements(node, tokens)
    return elements * element_bytes


def _elements(node: dict[str, Any], tokens: int) -> int:
    if node["op"] == "linear" and not node.get("tied"):
        return int(node["depth"] * node["features"])
    if node["op"] == "embedding":
        return int(node["rows"] * node["features"])
    if node["op"] == "kv_cache_write":
        return int(2 * tokens * node["kv_heads"] * node["head_dim"])
    return 0


class Step:
    """One decode step with its weights and caches allocated."""

    def __init__(self, bench: Bench, program: dict[str, Any]) -> None:
        check(program)
        torch, batch = bench.torch, int(program["batch"])
        around = Surroundings(torch, bench.dtype, bench.job.device, batch, int(program["context"]))
        self._blocks = [
            (block, [(node, MAKERS[node["op"]](node, around)) for node in block["nodes"]])
            for block in program["blocks"]
            for _ in range(block["times"])
        ]
        self._ids = torch.zeros(batch, dtype=torch.int64, device=bench.job.device)

    def run(self, named: Named | None = None) -> tuple[Any, ...]:
        """Every node in order; ``named`` opens a range of the profiler around each."""
        flowing: tuple[Any, ...] = (self._ids,)
        for block, nodes in self._blocks:
            at_hand = dict(zip(block["inputs"], flowing, strict=True))
            for node, function in nodes:
                _run_node(node, function, at_hand, named)
            flowing = tuple(at_hand[name] for name in block["outputs"])
        return flowing


def _run_node(
    node: dict[str, Any], function: Function, at_hand: dict[str, Any], named: Named | None
) -> None:
    with named(node["id"]) if named else nullcontext():
        found = function(*(at_hand[name] for name in node["in"]))
    at_hand.update(zip(node["out"], found, strict=True))


def measure(bench: Bench, budget_s: float, folder: Path) -> Iterator[Point]:
    """Steps one after another; on a GPU also replayed from one graph; and a trace of a few.

    Yields nothing where the job has no step.
    """
    program = bench.job.step
    if program is None:
        return
    sizes = {"batch": program["batch"], "context": program["context"]}
    known = [bench.journal.known("step", sizes | {"mode": mode}) for mode in ("eager", "graph")]
    if known[0] and (folder / TRACE).exists():
        yield from (point for point in known if point)
        return
    _check_memory(bench, program)
    step = Step(bench, program)
    with bench.torch.inference_mode():
        yield _eager(bench, step, sizes, budget_s)
        if isinstance(bench.stopwatch, CudaStopwatch):
            yield _replayed(bench, bench.stopwatch, step, sizes, budget_s / 4)
        _trace(bench, step, folder / TRACE)


def _check_memory(bench: Bench, program: dict[str, Any]) -> None:
    needed, have = needed_bytes(program, bench.element_bytes), bench.machine.memory_bytes
    if needed > _MOST_MEMORY * have:
        raise LabRefused(
            f"the step needs {needed / 2**30:.3g} GiB of the {have / 2**30:.3g} GiB there are",
            "take a smaller model, batch or context",
        )


def _eager(bench: Bench, step: Step, sizes: dict[str, Any], budget_s: float) -> Point:
    def once() -> None:
        step.run()
        if bench.job.device == "cuda":
            bench.torch.cuda.synchronize()

    for _ in range(_WARM):
        once()
    samples = sampled(lambda: once, budget_s)[:_MOST_SAMPLES]
    found = values(summary(samples)) | {"samples_s": samples}
    return bench.journal.add(Point("step", sizes | {"mode": "eager"}, found))


def _replayed(
    bench: Bench, stopwatch: CudaStopwatch, step: Step, sizes: dict[str, Any], budget_s: float
) -> Point:
    graph = stopwatch.captured([step.run])

    def once() -> None:
        graph.replay()
        bench.torch.cuda.synchronize()

    samples = sampled(lambda: once, budget_s)[:_MOST_SAMPLES]
    found = values(summary(samples)) | {"samples_s": samples}
    return bench.journal.add(Point("step", sizes | {"mode": "graph"}, found))


def _trace(bench: Bench, step: Step, path: Path) -> None:
    """A few steps under the profiler, each a range of its own."""
    profiler = bench.torch.profiler
    activities = [profiler.ProfilerActivity.CPU]
    if bench.job.device == "cuda":
        activities.append(profiler.ProfilerActivity.CUDA)
    schedule = profiler.schedule(wait=1, warmup=1, active=_PROFILED, repeat=1)
    with profiler.profile(activities=activities, schedule=schedule) as profile:
        for _ in range(2 + _PROFILED):
            step.run()
            if bench.job.device == "cuda":
                bench.torch.cuda.synchronize()
            profile.step()
    profile.export_chrome_trace(str(path))
