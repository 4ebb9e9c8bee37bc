"""Names of the parts of a plan's report, for those that ask for some of them."""

from __future__ import annotations

PARTS = (
    "serving",
    "kernels",
    "intensity",
    "fusion",
    "launch",
    "groupings",
    "memory",
    "advice",
    "notes",
)
"""What a plan's report is made of below its headline."""
