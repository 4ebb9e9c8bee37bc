"""Does everything plan: every model of a catalogue on GPUs of every kind."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from planner.errors import PlannerError
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.question import ask
from planner.spec.types import DeploymentSpec

GPUS = (
    "a100-80gb-sxm",
    "b200-sxm",
    "h100-sxm",
    "h200-sxm",
    "l4",
    "l40s",
    "mi300x",
    "rtx-4090",
    "rtx-5090",
    "rtx-pro-6000",
)
"""Ten that people rent, of seven architectures."""
_STEPS = (
    {"decode": {"batch": 8, "context": 1024}},
    {"prefill": {"batch": 1, "tokens": 256}},
)
"""What is planned; of a model that does not decode, the second."""


@dataclass(frozen=True)
class Planned:
    """One model on one GPU: planned, or why it cannot be."""

    model: str
    gpu: str
    reason: str | None


def planned_everywhere(
    folders: Sequence[Path], progress: Callable[[str], None]
) -> Iterator[Planned]:
    """Every model on each of `GPUS`, over all cores. ``folders`` of one's own come first.

    A bug keeps its traceback: only refusals are reasons.
    """
    names = Catalog.standard(folders).names("model")
    with ProcessPoolExecutor(initializer=_collect_rarely) as pool:
        for name, found in zip(
            names, pool.map(partial(_of_model, tuple(folders)), names), strict=True
        ):
            progress(f"planned: {name}")
            yield from found


def _collect_rarely() -> None:
    """Graphs are kept and plans leave few cycles: each collection walks much and finds little,
    nothing at all in what was there before.
    """
    gc.freeze()
    gc.set_threshold(1_000_000)


_catalog = cache(Catalog.standard)


def _of_model(folders: tuple[Path, ...], model: str) -> list[Planned]:
    catalog = _catalog(folders)
    return [Planned(model, gpu, _reason(catalog, model, gpu)) for gpu in GPUS]


def _reason(catalog: Catalog, model: str, gpu: str) -> str | None:
    """Why a model plans in none of the steps; None where it does."""
    reasons = []
    for step in _STEPS:
        deployment = DeploymentSpec.model_validate({"model": model, "gpu": gpu, "step": step})
        try:
            plan_question(ask(deployment, catalog))
        except PlannerError as error:
            reasons.append(str(error).partition("\n")[0])
        else:
            return None
    return reasons[0]
