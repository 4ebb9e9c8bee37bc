"""What the store hands out: a plan as it was saved, and its line in a listing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class PlanRow:
    """One stored plan as a listing shows it, without its document."""

    plan_id: str
    """First 12 hex digits of the hash over the parts: what was asked."""
    result_hash: str
    """Hash of what was answered; differs under one ``plan_id`` only when the model changed."""
    name: str
    created_at: datetime
    """When the plan was first saved, in UTC."""
    model: str
    gpu: str
    backend: str
    step_time_s: float
    fits: bool
    """Whether weights, KV cache and the rest fit the GPU's memory."""


@dataclass(frozen=True)
class StoredPlan(PlanRow):
    """One plan with all that is needed to print, compare or repeat it."""

    parts: dict[str, str]
    """Part of the deployment (model, precision, …) -> SHA-256 of its canonical JSON."""
    document: dict[str, Any]
    """The plan's JSON. ``deployment`` holds the deployment's YAML text; each of ``kernels`` has
    ``name, block, repeat, hbm_bytes, time_s, bound, evidence``."""
