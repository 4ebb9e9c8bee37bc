"""Measured runs and small plans to hold them against, with round numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from planner.plan.assemble import assemble
from planner.plan.runs import Metric, Run, Source
from planner.plan.types import Plan, WorkloadPlan
from planner.resources import folder
from planner.spec.catalog import Catalog
from planner.spec.load import load_deployment
from planner.spec.question import ask

SOURCE = Source("vllm_bench_latency", "vllm 0.26.0", "ab" * 32, 100)


def run(context=None, samples=None, **means) -> Run:
    """A run with the mean of each metric given by name."""
    metrics = tuple(Metric(name, "mean", value) for name, value in means.items())
    return Run(SOURCE, metrics, samples or {}, context or {})


def sampled(*steps_s: float) -> Run:
    """A run that kept the times of its steps."""
    return run(samples={"step": steps_s})


@cache
def _real() -> Plan:
    spec = load_deployment(folder("specs") / "qwen2.5-7b-rtx4090.yaml", ())
    return assemble(ask(spec, Catalog.standard()))


def plan(workload: WorkloadPlan | None = None, **step) -> Plan:
    """Qwen2.5-7B on an RTX 4090, decode, batch 16, context 4,096, with a step of 10 ms (8 to 12 ms),
    a bare roofline of 5 ms, and whatever is given in their place."""
    real = _real()
    times = {"time_s": 0.010, "low_s": 0.008, "high_s": 0.012} | step
    return replace(
        real,
        step=replace(real.step, **times),
        totals=replace(real.totals, roofline_s=0.005),
        workload=workload,
    )


STATIC = WorkloadPlan(
    batch=4, input=100, output=11, ttft_s=0.1, tpot_s=0.010, latency_s=0.2,
    output_tokens_per_s=220, prefill_steps=1,
)  # fmt: skip
"""4 requests of 11 tokens: latency 0.1 + 10 × 0.010 = 0.2 s, 44 tokens in it = 220 a second."""
