"""Families that can be calibrated: one file each, registered by being in this folder."""

from __future__ import annotations

import importlib
import pkgutil

from planner.calibrate.registry import FAMILIES

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["FAMILIES"]
