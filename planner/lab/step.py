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

from planner.lab.bench import Bench, synchronise, values
from planner.lab.journal import SAMPLES, Point
from planner.lab.operators import MAKERS, Function, Surroundings
from planner.lab.refusal import LabRefused
from planner.lab.timing import Call, CudaStopwatch, sampled, summary

TRACE = "trace.json.gz"
_PROFILED = 6
_WARM = 3
_MOST_SAMPLES = 400
_MOST_MEMORY = 0.8
"""Share of the memory that a step may take."""
Named = Callable[[str], AbstractContextManager[Any]]
_Mode = tuple[Callable[[Bench], Call], float]


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


class Steps:
    """The job's decode step, measured in every lap; its weights are allocated once."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace
        self._step: Step | None = None

    def measure(self, bench: Bench, budget_s: float) -> Iterator[Point]:
        """Steps one after another; on a GPU also replayed from one graph.

        Yields nothing where the job has no step. Raises LabRefused where memory cannot hold it.
        """
        program = bench.job.step
        if program is None:
            return
        sizes = {"batch": program["batch"], "context": program["context"]}
        modes: dict[str, _Mode] = {"eager": (self._eager, budget_s)}
        if isinstance(bench.stopwatch, CudaStopwatch):
            modes["graph"] = (self._replayed, budget_s / 4)
        for mode, (measured, within_s) in modes.items():
            at = sizes | {"mode": mode}
            yield bench.journal.known("step", at) or bench.journal.add(
                "step", at, _values(measured(bench), within_s)
            )

    def trace(self, bench: Bench) -> None:
        """A few steps under the profiler, where the folder has no trace of them."""
        if bench.job.step is not None and not self._trace.exists():
            _trace(bench, self._ready(bench), self._trace)

    def _ready(self, bench: Bench) -> Step:
        """The step, warmed up."""
        if self._step is None:
            assert bench.job.step is not None
            _check_memory(bench, bench.job.step)
            self._step = Step(bench, bench.job.step)
            for _ in range(_WARM):
                self._step.run()
        return self._step

    def _eager(self, bench: Bench) -> Call:
        step = self._ready(bench)

        def once() -> None:
            step.run()
            synchronise(bench)

        return once

    def _replayed(self, bench: Bench) -> Call:
        step = self._ready(bench)
        assert isinstance(bench.stopwatch, CudaStopwatch)
        graph = bench.stopwatch.captured([step.run])

        def once() -> None:
            graph.replay()
            synchronise(bench)

        return once


def _values(once: Call, budget_s: float) -> dict[str, Any]:
    samples = sampled(lambda: once, budget_s)[:_MOST_SAMPLES]
    return values(summary(samples)) | {SAMPLES: samples}


def _check_memory(bench: Bench, program: dict[str, Any]) -> None:
    needed, have = needed_bytes(program, bench.element_bytes), bench.machine.memory_bytes
    if needed > _MOST_MEMORY * have:
        raise LabRefused(
            f"the step needs {needed / 2**30:.3g} GiB of the {have / 2**30:.3g} GiB there are",
            "take a smaller model, batch or context",
        )


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
            synchronise(bench)
            profile.step()
    profile.export_chrome_trace(str(path))
