"""What a lab run is to measure: plain values that travel as JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.lab.refusal import LabRefused

FORMAT = 2
QUICK_S = 55.0
"""Seconds of measuring in quick mode; operands, the step's weights and fits come on top: 90 s."""
FULL_S = 300.0
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
"""M of the seed's GEMM lab."""

Projection = tuple[int, int, bool]
"""Depth K, features N, and whether a bias is added, which takes a CPU time of its own."""


@dataclass(frozen=True)
class Job:
    """One lab run. Sizes are those of the model whose step is run, so that they matter."""

    device: str
    """``cuda`` or ``cpu``."""
    dtype: str
    """``bf16``, ``fp16`` or ``fp32``: of weights and activations."""
    projections: tuple[Projection, ...]
    """GEMMs, the seed's square one first."""
    heads: tuple[tuple[int, int, int], ...]
    """Query heads, KV heads and head size of attention."""
    hidden: int
    step: dict[str, Any] | None = None
    """The decode step as a program: see `planner.lab.step`."""
    context: dict[str, Any] = field(default_factory=dict)
    """The step's circumstances by the dotted paths of a deployment, for the run's file."""
    rows: tuple[int, ...] = ROWS
    budget_s: float = QUICK_S

    @property
    def digest(self) -> str:
        """What tells one job's measurements from another's."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def to_json(job: Job) -> str:
    """A job as text."""
    return json.dumps({"planner_lab_job": FORMAT, **dataclasses.asdict(job)}, indent=1)


def load(path: Path) -> Job:
    """The job in a file. Raises LabRefused when there is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values.pop("planner_lab_job") != FORMAT:
            raise LabRefused(f"{path} is a job of another version", "make it with this version")
        values |= {name: tuple(map(tuple, values[name])) for name in ("projections", "heads")}
        return Job(**values | {"rows": tuple(values["rows"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LabRefused(f"{path} holds no lab job: {error}", "`planner lab job`") from error
