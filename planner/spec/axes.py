"""``--over gpu=h100-sxm,h200-sxm,tp=1:8``: the fields that a sweep varies, and their values."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from planner.errors import UsageError
from planner.spec.columns import field_fault, is_text
from planner.spec.overrides import OVER
from planner.spec.short import FIELDS
from planner.spec.types import DeploymentSpec

MOST_VALUES = 1_000_000
"""Values of one axis: no sweep needs more, and a slip of a step makes more at once."""
_RANGE = re.compile(r"(\d{1,12}):(\d{1,12})(?::(\d{1,12}))?")
_EXAMPLE = "as in --over gpu=h100-sxm,h200-sxm,tp=1:8,batch=1:512"


@dataclass(frozen=True)
class Axis:
    """One field and the values it takes, as texts that ``--set`` reads."""

    path: str
    values: tuple[str, ...]

    def setting(self, value: str) -> str:
        """The value as ``--set`` takes it: version 0.10 is no number."""
        return f"{OVER}{self.path}={json.dumps(value) if is_text(self.path) else value}"


def axes(texts: Sequence[str], deployment: DeploymentSpec) -> tuple[Axis, ...]:
    """The axes of ``--over`` texts, in their order.

    A text is NAME=VALUES, or several of them joined by commas. Values are joined by commas or
    ``|``; ``a:b`` doubles from a and ends with b, ``a:b:step`` counts. Raises UsageError.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        for name, values in _named(text):
            path = _path(name, deployment)
            if path in found:
                raise UsageError(f"--over names {path} twice", "give all its values at once")
            found[path] = [each for value in values for each in _expanded(value)]
            if len(found[path]) > MOST_VALUES:
                raise UsageError(f"--over {path} has more than {MOST_VALUES:,} values")
    return tuple(Axis(path, tuple(dict.fromkeys(values))) for path, values in found.items())


def _named(text: str) -> list[tuple[str, list[str]]]:
    """A piece without ``=`` is one more value of the name before it."""
    found: list[tuple[str, list[str]]] = []
    for piece in text.split(","):
        name, equals, value = piece.partition("=")
        if equals:
            found.append((name.strip(), []))
        elif not found:
            raise UsageError(f"--over {text[:60]!r} is no NAME=VALUES", _EXAMPLE)
        found[-1][1].extend((value if equals else piece).split("|"))
    for name, values in found:
        if not name or not all(value.strip() for value in values):
            raise UsageError(f"--over {text[:60]!r} has an empty name or value", _EXAMPLE)
    return found


def _path(name: str, deployment: DeploymentSpec) -> str:
    path = _of_load(deployment).get(name) or FIELDS.get(name, name)
    fault = field_fault(path)
    if fault:
        raise UsageError(f"--over {name[:60]}: {fault[0]}", fault[1])
    return path


def _of_load(deployment: DeploymentSpec) -> dict[str, str]:
    """What batch and context are of: the load that the file has."""
    step, workload = deployment.step, deployment.workload
    if workload:
        batch = "batch" if workload.batch else "concurrency"
        return {"batch": f"workload.{batch}", "context": "workload.input"}
    if step and step.prefill:
        return {"batch": "step.prefill.batch", "context": "step.prefill.tokens"}
    return {"batch": "step.decode.batch", "context": "step.decode.context"}


def _expanded(value: str) -> list[str]:
    """The values of a range; of anything else itself. Raises UsageError."""
    match = _RANGE.fullmatch(value.strip())
    if match is None:
        return [value.strip()]
    first, last, step = (int(part) if part else None for part in match.groups())
    assert first is not None
    assert last is not None
    if not 0 < first <= last or step == 0:
        raise UsageError(f"--over: {value} is no range", "as in 1:8 (1, 2, 4, 8) or 16:64:16")
    if step:
        if (last - first) // step >= MOST_VALUES:
            raise UsageError(f"--over: {value} has more than {MOST_VALUES:,} values")
        return [str(number) for number in range(first, last + 1, step)]
    doubled = [first << power for power in range((last // first).bit_length())]
    return [str(number) for number in dict.fromkeys((*doubled, last))]
