"""What the store hands out: plans, runs and baselines as they were saved, and lines of listings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from planner.plan.runs import Metric, Run


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


@dataclass(frozen=True)
class RunRow:
    """One measured run as a listing shows it, without its file and single measurements."""

    run_id: str
    plan_id: str | None
    """The plan it was recorded against."""
    recorded_at: datetime
    """When it was first recorded, in UTC."""
    format: str
    tool: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True)
class StoredRun:
    """One measured run with the file it came from."""

    run_id: str
    """First 12 hex digits of the hash over file, place in it, plan and circumstances."""
    plan_id: str | None
    recorded_at: datetime
    position: int
    """Which run of its file, from 0."""
    run: Run
    raw: bytes
    """The file, whole and as it was."""


@dataclass(frozen=True)
class Removable:
    """Plans and runs older than a moment that nothing in the store refers to."""

    before: datetime
    plans: tuple[PlanRow, ...]
    """The oldest first, as the runs."""
    runs: tuple[RunRow, ...]
    file_bytes: int
    """Of the files that the runs were read from, which the store keeps whole."""


@dataclass(frozen=True)
class Contents:
    """How much a store holds."""

    plans: int
    runs: int
    baselines: int
    """Names that stand for a run at present."""
    size_bytes: int | None
    """Of a SQLite file with its journal; None for a server and in memory."""


@dataclass(frozen=True)
class BaselineRow:
    """One run that a name stands for, or stood for until another superseded it."""

    baseline_id: str
    name: str
    run_id: str
    set_at: datetime
    set_by: str
    supersedes: str | None
    """``baseline_id`` of the one it replaced; None for the first of its name."""


@dataclass(frozen=True)
class StoredSweep:
    """A sweep of a service."""

    sweep_id: str
    created_at: datetime
    status: str
    """``queued``, ``running``, ``done``, ``cancelled`` or ``failed``."""
    rows: int
    """Answered so far."""
    total: int
    owner: str
    """The service that is at it."""
    seen_at: datetime
    """When that service last said so."""
    starts: int
    """How often it was begun; more than once where services ended meanwhile."""
    asked: dict[str, Any]
    answer: dict[str, Any]
    """``error`` and ``summary``, each null where there is none; of an unfinished sweep the summary
    is of the rows that it counts.
    """
