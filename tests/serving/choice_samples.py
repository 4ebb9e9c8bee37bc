"""Servings with round figures, and deployments small enough to plan often."""

from __future__ import annotations

from dataclasses import replace

from planner.plan.serving_types import Range, ServingPlan, StepKind
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Question, ask

CATALOG = Catalog.standard()
SMALL = """\
name: small
model: qwen2.5-0.5b-instruct
gpu: {gpu}
backend: {{name: vllm, version: "0.26"}}
workload: {{concurrency: {users}, input: 512, output: 64}}
"""


def question(gpu: str = "l4", users: int = 16) -> Question:
    """Half a billion parameters on one GPU."""
    deployment = load_text(SMALL.format(gpu=gpu, users=users), "small.yaml", "deployment")
    return ask(deployment, CATALOG)


DECODE = StepKind(4, 0, 0.75, 0.010, 0.002, 0.010)
PREFILL = StepKind(4, 100, 0.25, 0.030, 0.002, 0.030)
SERVING = ServingPlan(
    concurrency=5,
    input=100,
    output=50,
    ttft_s=Range(0.040, 0.030, 0.060),
    tpot_s=Range(0.015, 0.012, 0.020),
    latency_s=Range(0.775, 0.618, 1.040),
    output_tokens_per_s=Range(100.0, 80.0, 125.0),
    total_tokens_per_s=300.0,
    output_tokens_per_s_per_gpu=100.0,
    tokens_per_s_per_user=1 / 0.015,
    requests_per_s=2.0,
    running=5,
    waiting=0,
    most_running=64,
    kv_share=0.1,
    device_share=1.0,
    decode=DECODE,
    prefill=PREFILL,
    limit="users",
)


def apart() -> ServingPlan:
    """The same where prompts have steps of their own."""
    return replace(SERVING, prefill=replace(PREFILL, sequences=0))
