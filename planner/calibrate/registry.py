"""Where families register themselves."""

from __future__ import annotations

from planner.calibrate.types import Family
from planner.errors import UsageError
from planner.registry import Registry

FAMILIES: Registry[Family] = Registry("calibration family")


def register(family: Family) -> Family:
    """File a family under its name. Raises ValueError when the name is taken."""
    return FAMILIES.register(family.name)(family)


def family(name: str) -> Family:
    """The family of that name. Raises UsageError for an unknown one."""
    found = FAMILIES.get(name)
    if found is None:
        near = FAMILIES.nearest(name)
        hint = f"did you mean '{near}'?" if near else f"there are {', '.join(FAMILIES.names())}"
        raise UsageError(f"there is no kernel family '{name}' to calibrate", hint)
    return found
