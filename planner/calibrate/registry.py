"""Where families register themselves."""

from __future__ import annotations

from planner.calibrate.types import Family
from planner.registry import Registry

FAMILIES: Registry[Family] = Registry("calibration family")


def register(family: Family) -> Family:
    """File a family under its name. Raises ValueError when the name is taken."""
    return FAMILIES.register(family.name)(family)
