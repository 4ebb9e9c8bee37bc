"""Measured runs to store, and what other processes do with them: ``python run_examples.py …``."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from planner.plan.runs import KernelStep, KernelTime, Metric, Run, Source, TracedSteps
from planner.store.database import open_store
from planner.store.runs import recorded
from planner.store.types import StoredRun

ROOT = Path(__file__).resolve().parents[2]
RUNS_PER_PROCESS = 250
FIRST = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def example_run(number: int = 0, plan_id: str | None = "0" * 12, **changes: Any) -> StoredRun:
    """A small run; each number is another file, recorded a second later: 3 figures, 2 samples."""
    raw = f"{{number: {number}}}\x00\xff".encode("latin-1")
    parts = {
        "source": Source(
            "vllm_bench_latency", "vllm 0.26", hashlib.sha256(raw).hexdigest(), len(raw)
        ),
        "metrics": (
            Metric("step", "mean", 0.0071),
            Metric("step", "p99", 0.0093),
            Metric("output_throughput", "mean", 1200.5),
        ),
        "samples": {"step": (0.007, 0.0072)},
        "context": {"gpu": "rtx-4090", "parallel.tensor": 1, "backend.flags.enforce_eager": False},
        "kernels": (KernelTime("gemm", 28, 0.003),),
        "notes": ("taken from the plan: gpu",),
        "traced": TracedSteps(4, 3, "argmax", (KernelStep("gemm", 0.0001),), 0.0071, 0.0065),
    }
    return recorded(
        Run(**{**parts, **changes}), raw, plan_id=plan_id, position=0,
        at=FIRST + timedelta(seconds=number),
    )  # fmt: skip


def recorder(url: str, first: int) -> subprocess.Popen[str]:
    """A process that saves runs and says the number of each once it is saved."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, __file__, url, str(first)],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip


def save_many(url: str, first: int) -> None:
    with open_store(url) as store:
        for number in range(first, first + RUNS_PER_PROCESS):
            assert store.save_run(example_run(number))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    save_many(sys.argv[1], int(sys.argv[2]))
