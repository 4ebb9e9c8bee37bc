"""The circumstances of a run by the paths of a deployment: which are the same, which are not.

Tools spell models, GPUs and versions in their own ways. What is compared is what the spelling
means, and only where both sides say something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.dtypes import operand
from planner.errors import UsageError
from planner.plan.runs import Run
from planner.plan.types import Plan

PARTS = ("model", "precision", "parallel", "device", "backend", "workload")
"""The parts in which two runs must agree to be compared."""

_PART_OF = {
    "gpu": "device",
    "memory": "backend",
    "host": "backend",
    "step": "workload",
    "experts": "workload",
}
_NO_CIRCUMSTANCE = {"kind", "name", "price", "calibration"}
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}
_NO_MODEL = {"instruct", "chat", "it", "base", "hf", "meta"}
"""Words in a model's name that change no operator."""
_FORMS = {"pcie": "pcie", "nvl": "nvl", "sxm": "sxm", "sxm4": "sxm", "sxm5": "sxm"}


@dataclass(frozen=True)
class Difference:
    """One circumstance in which two sides disagree."""

    part: str
    path: str
    one: Any
    other: Any

    def __str__(self) -> str:
        return f"{self.part}: {self.path} is {self.one}, not {self.other}"


def part_of(path: str) -> str:
    """The part of a plan's identity that a dotted path belongs to."""
    head = path.partition(".")[0]
    return _PART_OF.get(head, head)


def planned(plan: Plan) -> dict[str, Any]:
    """What a plan says of the circumstances, by dotted path."""
    return deployed(plan.deployment) | {"model": plan.model.name, "gpu": plan.gpu}


def deployed(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """What a deployment, as plain data, says of the circumstances, by dotted path."""
    return dict(_flat({k: v for k, v in deployment.items() if k not in _NO_CIRCUMSTANCE}, ""))


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif value is not None:
        yield path, value


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Where two sides that both say something disagree, in the order of ``PARTS``."""
    found = [
        Difference(part_of(path), path, one[path], other[path])
        for path in one.keys() & other.keys()
        if part_of(path) in PARTS and not _alike(path, one[path], other[path])
    ]
    found += [*_loads(one, other), *(_turned(each) for each in _loads(other, one))]
    return tuple(sorted(found, key=lambda each: (PARTS.index(each.part), each.path)))


def completed(run: Run, plan: Plan) -> Run:
    """The run, with what its file does not say taken from the plan it is recorded against.

    Raises UsageError where the file contradicts the plan, naming the part.
    """
    expected = planned(plan)
    against = differences(run.context, expected)
    if against:
        said = "; ".join(str(each) for each in against)
        hint = "record it against the plan of what ran, or say what ran with --set PATH=VALUE"
        raise UsageError(f"the run contradicts plan {plan.plan_id}: {said}", hint)
    taken = {path: value for path, value in expected.items() if path not in run.context}
    note = f"taken from the plan: {', '.join(sorted(taken))}"
    notes = (*run.notes, note) if taken else run.notes
    return replace(run, context={**run.context, **taken}, notes=notes)


def _alike(path: str, one: Any, other: Any) -> bool:
    if path == "model":
        return _model(one) == _model(other)
    if path == "gpu":
        return same_gpu(str(one), str(other))
    if path == "backend.version":
        return all(a == b for a, b in zip(_version(one), _version(other), strict=False))
    if path == "backend.name":
        return "".join(_tokens(one)) == "".join(_tokens(other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return float(one) == float(other)
    return operand(_word(one)) == operand(_word(other))  # files tell no groups and no blocks


def _word(value: Any) -> str:
    text = str(value).lower()
    return _DTYPES.get(text, text)


def _tokens(value: Any) -> list[str]:
    return re.findall(r"[a-z0-9]+", str(value).lower())


def _model(name: Any) -> list[str]:
    """``meta-llama/Meta-Llama-3.1-8B-Instruct`` and ``llama-3.1-8b`` are one architecture."""
    return [t for t in _tokens(str(name).rstrip("/").rpartition("/")[2]) if t not in _NO_MODEL]


def _version(value: Any) -> list[str]:
    """``v0.26.1+cu129`` as numbers; a shorter version stands for all that begin so."""
    return str(value).lower().removeprefix("v").partition("+")[0].split(".")


def same_gpu(one: str, other: str) -> bool:
    """One chip name in common, and no two forms or memory sizes (``NVIDIA H100 80GB HBM3``)."""
    first, second = set(_tokens(one)), set(_tokens(other))
    for kind in (_chips, _forms, _sizes):
        a, b = kind(first), kind(second)
        if a and b and not a & b:
            return False
    return bool(_chips(first) & _chips(second)) or first == second


def _chips(tokens: set[str]) -> set[str]:
    named = {t for t in tokens if any(c.isdigit() for c in t)}
    return {t for t in named if t not in _FORMS and not re.fullmatch(r"\d+gb|hbm\w*|gddr\w*", t)}


def _forms(tokens: set[str]) -> set[str]:
    return {_FORMS[token] for token in tokens & _FORMS.keys()}


def _sizes(tokens: set[str]) -> set[str]:
    return {token for token in tokens if re.fullmatch(r"\d+gb", token)}


def _loads(run: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[Difference]:
    """A run's requests held against a plan of one step, or of a static batch."""
    batch_path = "workload.concurrency" if "workload.concurrency" in run else "workload.batch"
    batch = run.get(batch_path)
    for path in ("step.decode.batch", "step.prefill.batch", "workload.batch"):
        other = plan.get(path)
        if None not in (batch, other) and path != batch_path and batch != other:
            yield Difference("workload", batch_path, batch, f"the {other} of {path}")
    first, context = run.get("workload.input"), plan.get("step.decode.context")
    if first is None or context is None:
        return
    last = first + run.get("workload.output", context)
    if not first <= context <= last:
        seen = f"one that reaches the {context:,} of step.decode.context"
        yield Difference("workload", "workload.input", first, seen)


def _turned(each: Difference) -> Difference:
    """A difference found from the other side."""
    return Difference(each.part, each.path, f"{each.other} here", each.one)
