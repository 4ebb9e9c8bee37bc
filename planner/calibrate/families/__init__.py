"""Families that can be calibrated: one file each, registered by being in this folder."""

from __future__ import annotations

import importlib
import pkgutil

from planner.calibrate.registry import FAMILIES
from planner.calibrate.types import Family
from planner.errors import UsageError

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["FAMILIES", "family"]


def family(name: str) -> Family:
    """The family of that name. Raises UsageError for an unknown one."""
    found = FAMILIES.get(name)
    if found is None:
        near = FAMILIES.nearest(name)
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(FAMILIES.names())}"
        raise UsageError(f"there is no kernel family '{name}' to calibrate", hint)
    return found
