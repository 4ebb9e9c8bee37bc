"""A deployment that a plan was made of, as the spec it was: quantities get their units back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from planner.spec.load import load_text
from planner.spec.types import DeploymentSpec

_UNITS = (("price", "USD/h"), ("host.launch", "s"))


def spec_again(document: Mapping[str, Any]) -> dict[str, Any]:
    """The deployment in a plan's JSON as plain data that a spec may hold."""
    data: dict[str, Any] = json.loads(json.dumps(document))
    for path, unit in _UNITS:
        *parents, last = path.split(".")
        place = data
        for parent in parents:
            place = place.get(parent) or {}
        if place.get(last) is not None:
            place[last] = f"{place[last]!r} {unit}"
    return data


def deployment_again(document: Mapping[str, Any], name: str) -> DeploymentSpec:
    """The deployment in a plan's JSON; ``name`` is what faults call it. Raises SpecError."""
    text = json.dumps(spec_again(document))
    return cast("DeploymentSpec", load_text(text, name, "deployment"))
