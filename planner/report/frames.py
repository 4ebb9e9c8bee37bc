"""Tables of values as data frames, of pandas or polars, whichever is there."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from planner.display import Library
from planner.errors import UsageError
from planner.plan.diff import PlanDiff
from planner.plan.types import Plan
from planner.plan.values import plain
from planner.plan.verdict import Verdict
from planner.registry import nearest

Rows = list[dict[str, Any]]
_LIBRARIES: tuple[Library, ...] = ("pandas", "polars")


def _listed(name: str) -> Callable[[Any], Rows]:
    def rows(value: Any) -> Rows:
        found: Rows = plain(getattr(value, name))
        return found

    return rows


def _modes(plan: Plan) -> Rows:
    return [{"mode": name, **plain(mode)} for name, mode in plan.step.modes.items()]


def _parts(plan: Plan) -> Rows:
    return [
        {"part": name, "described": plan.described[name], "sha256": plan.parts[name]}
        for name in plan.parts
    ]


TABLES: Mapping[type, Mapping[str, Callable[[Any], Rows]]] = {
    Plan: {
        "kernels": _listed("kernels"),
        "nodes": _listed("nodes"),
        "modes": _modes,
        "parts": _parts,
    },
    PlanDiff: {name: _listed(name) for name in ("parts", "flips", "groups")},
    Verdict: {"judgements": _listed("judgements")},
}
"""By the kind of value; the first is what is given where none is named."""


def frame(value: Any, table: str | None = None, library: Library | None = None) -> Any:
    """A table of a value. Raises UsageError for an unknown one, and without pandas and polars."""
    tables = next(tables for kind, tables in TABLES.items() if isinstance(value, kind))
    name = table or next(iter(tables))
    if name not in tables:
        near = nearest(name, tables)
        hint = f"did you mean {near!r}?" if near else f"one of {', '.join(tables)}"
        raise UsageError(f"there is no table {name[:40]!r}", hint)
    return _library(library).DataFrame(tables[name](value))


def _library(wanted: Library | None) -> Any:
    if wanted and wanted not in _LIBRARIES:
        hint = f"one of {', '.join(_LIBRARIES)}"
        raise UsageError(f"data frames are not of {wanted[:40]!r}", hint)
    for name in (wanted,) if wanted else _LIBRARIES:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    missing = f"{wanted} is not" if wanted else "neither pandas nor polars is"
    raise UsageError(f"{missing} installed", f"pip install {wanted or 'pandas'}")
