"""What an engine does not start with, by the rules of its catalogue file."""

from __future__ import annotations

from planner.cost.engine import Engine
from planner.errors import SpecError
from planner.spec.conditions import holds
from planner.spec.types import DeploymentSpec


def check_refusals(deployment: DeploymentSpec, engine: Engine) -> None:
    """Raise SpecError with everything that the engine refuses, each at what asks for it."""
    title = engine.spec.title
    faults = [
        deployment.origin.at(*rule.at.split(".")).fault(
            f"{title} refuses this: {rule.refuse}", rule.hint, key=True
        )
        for rule in engine.spec.refusals
        if holds(rule.when, engine.facts)
    ]
    piped = deployment.parallel.pipeline > 1 and deployment.speculation is not None
    if piped and not faults:
        message = f"drafts in a pipeline are not described for {title}"
        faults = [
            deployment.origin.at("speculation").fault(message, "use parallel.tensor", key=True)
        ]
    if faults:
        raise SpecError(faults)
