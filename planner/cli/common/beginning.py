"""A first deployment: from a few answers to a commented file that plans at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from planner.errors import PlannerError, UsageError
from planner.plan.types import Plan
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog, is_path
from planner.spec.load import load_text
from planner.spec.question import ask
from planner.spec.types import DeploymentSpec, GpuSpec
from planner.spec.write import written

USERS = {"concurrency": 16, "input": 1024, "output": 256}
STEP = {"batch": 16, "context": 4096}
"""What is planned where nothing is asked for: users of an engine that serves, else a step."""
_PROMPT = {"batch": 16, "tokens": 512}
_WAYS = (1, 2, 4, 8)
"""Tensor-parallel GPUs that are tried: those of a node."""

Load = Mapping[str, Any]


@dataclass(frozen=True)
class Answers:
    """What somebody said of a deployment to be."""

    model: str
    gpu: str
    engine: str
    tensor: int | None = None
    """Tensor-parallel GPUs; None: the fewest that it fits on."""
    load: Load | None = None
    """``workload`` or ``step`` as a file has it; None: the first of the usual ones that runs."""


@dataclass(frozen=True)
class Begun:
    """A deployment and what it plans to."""

    text: str
    plan: Plan


def begun(answers: Answers, catalog: Catalog, file: Path) -> Begun:
    """The deployment of some answers, as ``file`` will hold it, planned.

    Where nothing fits it is the one over most GPUs. Raises what the first try raises where none
    plans: SpecError for names and sizes that are wrong, UsageError for an engine without requests.
    """
    first: PlannerError | None = None
    for load in _loads(answers):
        large: Begun | None = None
        for tensor in (answers.tensor,) if answers.tensor else _WAYS:
            try:
                found = _planned(answers, load, tensor, catalog, file)
            except PlannerError as error:
                first = first or error
                continue
            if found.plan.memory.fits:
                return found
            large = found
        if large:
            return large
    raise first or UsageError("there is nothing to plan")


def _loads(answers: Answers) -> Iterator[Load]:
    """The load that was asked for; else users, or a step where the model takes no requests."""
    if answers.load is not None:
        yield answers.load
        return
    yield {"workload": USERS}
    yield {"step": {"decode": STEP}}
    yield {"step": {"prefill": _PROMPT}}


def _planned(answers: Answers, load: Load, tensor: int, catalog: Catalog, file: Path) -> Begun:
    text = _text(answers, load, tensor, catalog)
    deployment = cast("DeploymentSpec", load_text(text, str(file), "deployment"))
    return Begun(text, plan_question(ask(deployment, catalog)))


def _text(answers: Answers, load: Load, tensor: int, catalog: Catalog) -> str:
    engine = catalog.find("backend", answers.engine)
    gpu = catalog.find("gpu", answers.gpu)
    model = Path(answers.model).stem if is_path(answers.model) else answers.model
    data = {
        "name": f"{model}-{answers.gpu}".lower().replace("/", "-"),
        "model": answers.model,
        "gpu": answers.gpu,
        "parallel": {"tensor": tensor},
        **_narrowed(answers, gpu, catalog),
        "backend": {"name": engine.name, "version": engine.versions[-1]},
        **load,
    }
    head = f"{model} on {gpu.title} under {engine.title}. Made by `planner init`."
    return written(data, {"": [head], **_COMMENTS, next(iter(load)): [_LOADS[next(iter(load))]]})


def _narrowed(answers: Answers, gpu: GpuSpec, catalog: Catalog) -> Load:
    """FP16 in place of a model's BF16 on a GPU that multiplies only the former."""
    named = answers.model in catalog.names("model")
    wide = named and catalog.find("model", answers.model).weights == "bf16"
    if not wide or "bf16" in gpu.matrix or "fp16" not in gpu.matrix:
        return {}
    return {"precision": dict.fromkeys(("weights", "activations", "kv_cache"), "fp16")}


_COMMENTS = {
    "model": ["A name of `planner catalog list models`, or the path of a spec or config.json"],
    "gpu": ["A name of `planner catalog list gpus`"],
    "parallel": ["GPUs used = tensor × pipeline × data"],
    "backend": [
        "Number formats are the model's own, if nothing else is said:",
        "precision: {weights: fp8, activations: fp8, kv_cache: fp8}",
        "The version is text, in quotes; `planner catalog show backends NAME` lists flags, set as",
        "in flags: {max_num_seqs: 128}",
    ],
    "end": [
        "Share of the GPU's memory that the engine may take, if not its default:",
        "memory: {utilization: 0.9}",
        "What a GPU costs; the plan then says what a million tokens do:",
        "price: 2.50 USD/h",
    ],
}
_LOADS = {
    "workload": "Users in a closed loop: each sends its next request when the last one is answered."
    "\nOr an open loop, {rate: 2.5, input: 1024, output: 256}; or one step in place of workload:"
    "\nstep: {decode: {batch: 16, context: 4096}}",
    "step": "One step of the engine: decode: {batch, context} or prefill: {batch, tokens}."
    "\nOr users, in place of step: workload: {concurrency: 16, input: 1024, output: 256}",
}


def save(path: Path, text: str, *, force: bool) -> None:
    """Put a whole file in place, or none: whatever stops it leaves nothing behind.

    Raises UsageError where the file exists and ``force`` is not set, or cannot be written.
    """
    refuse_existing(path, force=force)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def refuse_existing(path: Path, *, force: bool) -> None:
    """Raises UsageError where a file stands in the way and may not be written over."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists", "--force writes over it")
