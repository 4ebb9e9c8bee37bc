"""Operators as formulas: one file per family, registered by being in this folder."""

from __future__ import annotations

import importlib
import pkgutil

from planner.ops.registry import OPERATORS

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["OPERATORS"]
