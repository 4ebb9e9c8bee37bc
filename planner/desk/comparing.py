"""One deployment planned on several GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.plan.types import Plan
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.question import CostModel, ask
from planner.spec.types import DeploymentSpec


def plans_on(
    load: Callable[[Sequence[str]], DeploymentSpec],
    gpus: Sequence[str],
    sets: Sequence[str],
    catalog: Catalog,
    cost_model: CostModel = "calibrated",
) -> dict[str, Plan]:
    """The plans of one deployment on several GPUs, in the order given.

    Its price is its own GPU's: on others the deployment has none. Raises UsageError for an unknown
    GPU.
    """
    names = list(dict.fromkeys(name.strip() for name in gpus))
    for name in names:
        catalog.find("gpu", name)
    own = load(sets).gpu
    elsewhere = {name: [*sets, f"gpu={name}", "price=null"] for name in names}
    chosen = {name: sets if name == own else elsewhere[name] for name in names}
    return {
        name: plan_question(ask(load(each), catalog, cost_model)) for name, each in chosen.items()
    }
