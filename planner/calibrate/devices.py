"""The catalogue's GPUs, as calibration needs them."""

from __future__ import annotations

import functools

from planner.cost.types import Device, device
from planner.spec.catalog import Catalog


@functools.cache
def gpu_device(name: str) -> Device:
    """A GPU of the shipped catalogue as formulas see it. Raises SpecError for an unknown one."""
    return device(Catalog.standard().find("gpu", name))
