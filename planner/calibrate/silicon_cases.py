"""From a row of public serving measurements to the deployment that ran."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from planner.calibrate.aiconfigurator import ENGINES, MACHINES
from planner.calibrate.silicon import INFERENCEX
from planner.calibrate.silicon_commands import flags, requests, utilization
from planner.calibrate.silicon_formats import MODELS, formats
from planner.calibrate.silicon_lint import Flagged
from planner.errors import UsageError
from planner.spec.load import load_text
from planner.spec.types import DeploymentSpec

SPREAD = 0.2
"""InferenceX draws lengths evenly from 0.8 of the stated ones to them (RANDOM_RANGE_RATIO=0.8 of
its scripts; `sample_random_requests` of kimbochen/bench_serving)."""
_ACCEPTED: dict[int, dict[str, Any]] = {
    1: {"acceptance": 0.85},
    2: {"acceptance": 0.75},
    3: {"length": 2.75},
}
"""What becomes of drafts. DeepSeek-V3's report (arXiv 2412.19437, 5.4.3) has 85 to 90 % of one
accepted; https://github.com/sgl-project/sglang/pull/3582 2.5 to 3 tokens of four drafts, which is
0.75 of each: 1 + 0.75 + 0.75² + 0.75³ = 2.73. Qwen3.5's are taken to be as good."""
_DRAFTS = {"qwen3.5-397b-a17b": "qwen3.5-397b-a17b-mtp"}
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
_RELEASES: dict[str, tuple[tuple[str, str], ...]] = {
    "vllm": (
        ("2025-09-13", "0.10.2"),
        ("2025-10-02", "0.11.0"),
        ("2025-12-03", "0.12.0"),
        ("2026-01-20", "0.14.0"),
        ("2026-01-29", "0.15.0"),
        ("2026-02-25", "0.16.0"),
        ("2026-03-07", "0.17.0"),
        ("2026-03-20", "0.18.0"),
        ("2026-04-03", "0.19.0"),
    ),
    "sglang": (
        ("2025-09-11", "0.5.2"),
        ("2025-10-06", "0.5.3"),
        ("2025-10-26", "0.5.4"),
        ("2025-11-06", "0.5.5"),
        ("2025-12-03", "0.5.6"),
        ("2026-01-01", "0.5.7"),
        ("2026-01-23", "0.5.8"),
        ("2026-02-24", "0.5.9"),
    ),
    "trtllm": (("2025-09-24", "1.0.0"), ("2025-12-15", "1.1.0"), ("2026-02-01", "1.2.0")),
}
"""Days of releases (release pages on GitHub; recalled, right to some days)."""


def version_of(engine: str, label: str, measured: str | None) -> str | None:
    """The engine's version as a deployment spells it.

    A build without a number (a nightly, an image of one model, nothing) is the newest release of
    its day; None where no day is known either.
    """
    if found := _VERSION.match(label):
        return found[0]
    if measured is None:
        return None
    releases = _RELEASES[engine]
    older = [version for day, version in releases if day <= measured]
    return older[-1] if older else releases[0][1]


def deployment(flagged: Flagged) -> DeploymentSpec:
    """What ran. Raises UsageError where the labels say what no deployment can, SpecError where the
    catalogue has no such thing.
    """
    text = json.dumps(document(flagged))
    return cast("DeploymentSpec", load_text(text, f"{flagged.row.id}.yaml", "deployment"))


def document(flagged: Flagged) -> dict[str, Any]:
    """A deployment as plain data. Raises UsageError as `deployment`."""
    row = flagged.row
    if row.model not in MODELS:
        raise UsageError(f"model {row.model!r} is not in the catalogue")
    found: dict[str, Any] = {
        "model": MODELS[row.model],
        "gpu": MACHINES[row.system].gpu,
        "parallel": _parallel(flagged),
        "backend": {"name": ENGINES[row.engine], "flags": flags(row, flagged.drafts)},
        "workload": _workload(flagged),
    }
    if tokens := flagged.drafts:
        draft = _DRAFTS.get(found["model"], "deepseek-v3-mtp")
        found["speculation"] = _ACCEPTED[tokens] | {"tokens": tokens, "draft": draft}
    if precision := formats(row):
        found["precision"] = precision
    if (share := utilization(row, flagged.split.gpus)) is not None:
        found["memory"] = {"utilization": share}
    if version := version_of(row.engine, row.version, row.measured):
        found["backend"]["version"] = version
    return found


def _parallel(flagged: Flagged) -> dict[str, int]:
    """Ranks of `tensor` and `data`; experts go over all of them, or are not parallel at all."""
    split = flagged.split
    if split.data > 1 and split.moe_tensor > 1:
        message = (
            f"experts split {split.moe_tensor} ways over {split.data} ranks of data-parallel"
            " attention: a deployment replicates them or shares them out whole"
        )
        raise UsageError(message)
    if split.expert > split.gpus:
        raise UsageError(f"{split.expert} expert ranks on {split.gpus} GPUs")
    return {"tensor": split.tensor, "data": split.data, "expert": split.expert}


def _workload(flagged: Flagged) -> dict[str, Any]:
    row = flagged.row
    found: dict[str, Any] = {
        "concurrency": row.concurrency,
        "input": flagged.input,
        "output": row.output,
        "requests": requests(row),
    }
    if row.family == INFERENCEX:
        found["spread"] = SPREAD
    return found
