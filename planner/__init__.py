"""Plan an LLM deployment before renting the hardware.

Names load when they are first used, so that ``import planner`` and ``planner --help`` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from planner.cost.roofline import Roofline, roofline
    from planner.errors import PlannerError, SpecError, StoreError, UsageError
    from planner.plan.advice import Advice, advise
    from planner.plan.diff import PlanDiff, diff
    from planner.plan.types import Plan
    from planner.plan.values import plain, restore
    from planner.serving.plan import plan_question
    from planner.spec.catalog import Catalog
    from planner.spec.load import load_deployment
    from planner.spec.question import Question, ask

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "Catalog",
    "Plan",
    "PlanDiff",
    "PlannerError",
    "Question",
    "Roofline",
    "SpecError",
    "StoreError",
    "UsageError",
    "__version__",
    "advise",
    "ask",
    "diff",
    "load_deployment",
    "plain",
    "plan_file",
    "plan_question",
    "restore",
    "roofline",
]

_HOMES = {
    "planner.cost.roofline": ("Roofline", "roofline"),
    "planner.errors": ("PlannerError", "SpecError", "StoreError", "UsageError"),
    "planner.plan.advice": ("Advice", "advise"),
    "planner.serving.plan": ("plan_question",),
    "planner.plan.diff": ("PlanDiff", "diff"),
    "planner.plan.types": ("Plan",),
    "planner.plan.values": ("plain", "restore"),
    "planner.spec.catalog": ("Catalog",),
    "planner.spec.load": ("load_deployment",),
    "planner.spec.question": ("Question", "ask"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def plan_file(
    path: str | Path, sets: Sequence[str] = (), catalogs: Iterable[str | Path] = ()
) -> Plan:
    """The plan of a deployment file.

    ``sets`` change it as ``--set PATH=VALUE`` does; ``catalogs`` are folders of your own specs,
    which count before the catalogue that ships. Raises PlannerError for whatever is wrong with
    the input.
    """
    from pathlib import Path

    from planner.serving.plan import plan_question
    from planner.spec.catalog import Catalog
    from planner.spec.load import load_deployment
    from planner.spec.question import ask

    catalog = Catalog.standard([Path(folder) for folder in catalogs])
    return plan_question(ask(load_deployment(Path(path), tuple(sets)), catalog))


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
