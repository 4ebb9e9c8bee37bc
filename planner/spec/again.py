"""A deployment that a plan was made of, as the spec it was: quantities get their units back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from planner.spec.load import load_text
from planner.spec.types import DeploymentSpec

_UNITS = (("price", "USD/h"), ("host.launch", "s"))


def deployment_again(document: Mapping[str, Any], name: str) -> DeploymentSpec:
    """The deployment in a plan's JSON; ``name`` is what faults call it. Raises SpecError."""
    data = json.loads(json.dumps(document))
    for path, unit in _UNITS:
        *parents, last = path.split(".")
        place = data
        for parent in parents:
            place = place.get(parent) or {}
        if place.get(last) is not None:
            place[last] = f"{place[last]!r} {unit}"
    return cast("DeploymentSpec", load_text(json.dumps(data), name, "deployment"))
