"""Plans to store, and processes that store them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from planner.errors import StoreError
from planner.store.database import open_store
from planner.store.types import StoredPlan

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def example_plan(number: int = 0, **changes: Any) -> StoredPlan:
    """A small plan; each number gives another id and a time one second later."""
    kernels = [
        {
            "name": f"kernel_{position}",
            "block": "decoder" if position else None,
            "repeat": 28,
            "nodes": ["q_proj"],
            "hbm_bytes": 1000.5 + position,
            "time_s": 1e-6 * (position + 1),
            "bound": "memory",
            "evidence": "roofline",
        }
        for position in range(3)
    ]
    plan = StoredPlan(
        plan_id=f"{number:012x}",
        result_hash="aa" * 32,
        name="chat",
        created_at=datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC) + timedelta(seconds=number),
        model="qwen2.5-7b-instruct",
        gpu="rtx-4090",
        backend="vllm 0.26",
        step_time_s=0.0171,
        fits=True,
        parts={"model": "11", "precision": "22"},
        document={"deployment": "name: chat\nprice: 0.69 USD/h  # naïve €\n", "kernels": kernels},
    )
    return replace(plan, **changes)


def actor(*arguments: object) -> subprocess.Popen[str]:
    """Another process; see ``store_actor.py`` for what it can do."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, HERE / "store_actor.py", *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip


def start_together(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Let go, at one moment, of processes that said they are ready; what each wrote then."""
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return [finish(process) for process in processes]


def finish(process: subprocess.Popen[str]) -> str:
    """What the process wrote; fails the test when it failed."""
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out.strip()


def refusal(url: object, **options) -> str:
    """The sentence with which opening is refused."""
    with pytest.raises(StoreError) as refused:
        open_store(str(url), **options)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def refused_save(store, number: int = 1) -> str:
    with pytest.raises(StoreError) as refused:
        store.save_plan(example_plan(number))
    assert "\n" not in str(refused.value)
    return str(refused.value)
