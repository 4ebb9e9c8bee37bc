"""JSON for programs: one object, format and kind first, numbers in SI under names with units."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from planner.plan.advice import Advice
from planner.plan.splits import Split
from planner.plan.types import Plan
from planner.plan.values import plain

FORMAT = 1
"""Version of every object. Fields may be added within a version, not renamed."""


def to_json(kind: str, body: Mapping[str, Any]) -> str:
    """The object as text with a newline. What JSON has no word for (an infinite ratio) is null."""
    document = {"format": FORMAT, "kind": kind, **body}
    return json.dumps(_strict(document), indent=2, allow_nan=False) + "\n"


def plan_document(
    plan: Plan, advice: Sequence[Advice] | None = None, splits: Sequence[Split] = ()
) -> dict[str, Any]:
    """A plan with its advice, which is null where none was asked for, and splits tried for it."""
    listed = None if advice is None else [plain(row) for row in advice]
    more = {"splits": [plain(row) for row in splits]} if splits else {}
    return {**plain(plan), "advice": listed, **more}


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _strict(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if isinstance(value, datetime) else value
