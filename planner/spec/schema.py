"""JSON Schema of every kind of spec, for editors."""

from __future__ import annotations

from typing import Any

from planner.errors import UsageError
from planner.spec.faults import did_you_mean
from planner.spec.types import KINDS


def json_schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind, a key of `KINDS`.

    It knows fields, types, ranges and choices; quantities it knows as text only, and what
    `planner.spec.deployment.check` asks it doesn't know. Raises UsageError for an unknown kind.
    """
    if kind not in KINDS:
        kinds = ", ".join(KINDS)
        hint = did_you_mean(kind, KINDS) or f"one of {kinds}"
        raise UsageError(f"there is no kind of spec named {kind!r}", hint)
    body = KINDS[kind].model_json_schema(by_alias=True, mode="validation")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"planner {kind}",
    }
    return {**head, **{key: value for key, value in body.items() if key != "title"}}
