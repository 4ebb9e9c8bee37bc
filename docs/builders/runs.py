"""Whole steps that others have published, beside what is predicted for them today.

Nothing was fitted to them. Each is one deployment and one load, as `planner plan` takes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from builders.markup import table
from planner.plan.assemble import assemble
from planner.plan.types import StepTime
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import CostModel, ask


@dataclass(frozen=True)
class Run:
    """A decode step somebody measured. Times in milliseconds."""

    model: str
    gpu: str
    engine: str
    batch: int
    context: int
    measured_ms: float


_A100_MS = {
    (1, 128): 11.365,
    (1, 4096): 11.84,
    (1, 16384): 13.047,
    (1, 32640): 14.632,
    (8, 128): 11.522,
    (8, 4096): 14.606,
    (8, 16384): 23.926,
    (8, 32640): 36.07,
    (32, 128): 12.471,
    (32, 4096): 28.185,
}
A100 = tuple(
    Run("qwen3-8b", "a100-80gb-pcie", "vllm", batch, context, measured)
    for (batch, context), measured in _A100_MS.items()
)
"""https://github.com/vllm-project/vllm/pull/53060, 2026-08-21."""
OTHERS = (
    Run("qwen3-8b", "h200-sxm", "sglang", 1, 512, 1000 / 187),
    Run("qwen3-8b", "rtx-5090", "sglang", 1, 512, 1000 / 90),
    Run("qwen3-4b", "rtx-4090", "vllm", 1, 1152, 10.31),
    Run("qwen3-0.6b", "a100-80gb-pcie", "sglang", 1, 75, 2.37),
    Run("llama-3.1-8b-instruct", "h200-sxm", "vllm", 8, 96, 6.4),
)


def step(run: Run, cost_model: CostModel = "calibrated") -> StepTime:
    """The predicted step."""
    values = {
        "model": run.model,
        "gpu": run.gpu,
        "backend": {"name": run.engine},
        "step": {"decode": {"batch": run.batch, "context": run.context}},
    }
    deployment = load_text(json.dumps(values), "run", "deployment")
    return assemble(ask(deployment, Catalog.standard(), cost_model)).step


def a100() -> str:
    """A grid of batches and contexts on one GPU."""
    return _table(A100, ("batch", "context"), lambda run: (f"{run.batch}", f"{run.context:,}"))


def others() -> str:
    """Single figures of several GPUs and engines."""
    header = ("model", "GPU", "engine", "batch", "context")
    return _table(
        OTHERS,
        header,
        lambda run: (run.model, run.gpu, run.engine, f"{run.batch}", f"{run.context:,}"),
    )


def _table(
    runs: Iterable[Run], header: tuple[str, ...], names: Callable[[Run], tuple[str, ...]]
) -> str:
    times = ("measured", "predicted", "80 % interval", "off", "bare roofline")
    return table((*header, *times), ((*names(run), *_times(run)) for run in runs))


def _times(run: Run) -> Iterator[str]:
    predicted, bare = step(run), step(run, "roofline")
    assert predicted.low_s is not None
    assert predicted.high_s is not None
    yield f"{run.measured_ms:.2f} ms"
    yield f"{predicted.time_s * 1e3:.2f} ms"
    yield f"{predicted.low_s * 1e3:.2f} to {predicted.high_s * 1e3:.2f}"
    yield f"{predicted.time_s * 1e3 / run.measured_ms - 1:+.0%}"
    yield f"{bare.time_s * 1e3:.2f} ms"
