"""Plan an LLM deployment before renting the hardware.

Names load when they are first used, so that ``import planner`` and ``planner --help`` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from planner import display

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from planner.charts.block import block_chart
    from planner.charts.files import save_chart
    from planner.charts.front import front_chart
    from planner.charts.gpus import diff_chart, gpus_chart
    from planner.charts.history import history_chart
    from planner.charts.launches import timeline_chart
    from planner.charts.memory import memory_chart
    from planner.charts.modes import modes_chart
    from planner.charts.roofline import roofline_chart
    from planner.charts.sweep import sweep_chart
    from planner.cost.roofline import Roofline, roofline
    from planner.desk.history import recorded
    from planner.errors import PlannerError, SpecError, StoreError, UsageError
    from planner.plan.advice import Advice, advise
    from planner.plan.diff import PlanDiff, diff, side_by_side
    from planner.plan.types import Plan
    from planner.plan.values import plain, restore
    from planner.plan.verdict import Verdict
    from planner.plan.wiring import wires
    from planner.serving.around import around
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
    "Verdict",
    "__version__",
    "advise",
    "around",
    "ask",
    "block_chart",
    "diff",
    "diff_chart",
    "front_chart",
    "gpus_chart",
    "history_chart",
    "load_deployment",
    "memory_chart",
    "modes_chart",
    "plain",
    "plan_file",
    "plan_question",
    "recorded",
    "restore",
    "roofline",
    "roofline_chart",
    "save_chart",
    "side_by_side",
    "sweep_chart",
    "timeline_chart",
    "wires",
]

_HOMES = {
    "planner.charts.block": ("block_chart",),
    "planner.charts.files": ("save_chart",),
    "planner.charts.front": ("front_chart",),
    "planner.charts.gpus": ("diff_chart", "gpus_chart"),
    "planner.charts.history": ("history_chart",),
    "planner.charts.launches": ("timeline_chart",),
    "planner.charts.memory": ("memory_chart",),
    "planner.charts.modes": ("modes_chart",),
    "planner.charts.roofline": ("roofline_chart",),
    "planner.charts.sweep": ("sweep_chart",),
    "planner.cost.roofline": ("Roofline", "roofline"),
    "planner.desk.history": ("recorded",),
    "planner.errors": ("PlannerError", "SpecError", "StoreError", "UsageError"),
    "planner.plan.advice": ("Advice", "advise"),
    "planner.serving.plan": ("plan_question",),
    "planner.serving.around": ("around",),
    "planner.plan.diff": ("PlanDiff", "diff", "side_by_side"),
    "planner.plan.types": ("Plan",),
    "planner.plan.values": ("plain", "restore"),
    "planner.plan.verdict": ("Verdict",),
    "planner.plan.wiring": ("wires",),
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


def _html(value: Any) -> str:
    from planner.report.notebook import html

    return html(value)


def _frame(value: Any, table: str | None, library: display.Library | None) -> Any:
    from planner.report.frames import frame

    return frame(value, table, library)


display.register(_html, _frame)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
