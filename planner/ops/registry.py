"""Where operator families are registered."""

from __future__ import annotations

from planner.ops.types import Operator
from planner.registry import Registry

OPERATORS: Registry[type[Operator]] = Registry("operator")
"""Every operator a node's ``op`` may name."""

operator = OPERATORS.register
