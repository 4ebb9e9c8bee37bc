"""Speed of planning static batches one by one, beside NVIDIA aiconfigurator's estimator.

Run with ``make bench``. A ratio below 1 is a peer that is faster.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from itertools import product

import pytest

from planner.plan.prepare import prepare
from planner.plan.types import WorkloadPlan
from planner.plan.workload import workload_plan
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Question, ask

CATALOG = Catalog.standard()
BATCHES = list(product((1, 3, 7, 16, 24, 32, 48, 64), (128, 200, 256, 400, 512, 1024)))
"""Batch, and tokens in and out."""


def question(batch: int, tokens: int) -> Question:
    load = f"{{batch: {batch}, input: {tokens}, output: {tokens}}}"
    text = (
        "model: qwen3-32b\ngpu: h100-sxm\nparallel: {tensor: 4}\nbackend: {name: vllm}\n"
        f"workload: {load}\n"
    )
    return ask(load_text(text, "deploy.yaml"), CATALOG)


def figures_alone(asked: Question) -> WorkloadPlan:
    """Latency, TTFT and TPOT, without kernels, modes, rule sets and memory."""
    assert asked.deployment.workload is not None
    return workload_plan(prepare(asked), asked.deployment.workload)


def rate(estimate: Callable[[int, int], object]) -> float:
    """Estimates a second, the first one left aside."""
    estimate(2, 100)
    start = time.process_time()
    for batch, tokens in BATCHES:
        estimate(batch, tokens)
    return len(BATCHES) / (time.process_time() - start)


@pytest.mark.benchmark(group="static")
def test_against_static_estimates_of_aiconfigurator(benchmark):
    """The same 48 distinct batches, the peer with its model made anew for each, as for ours."""
    database = pytest.importorskip("aiconfigurator_core.sdk.perf_database")
    from aiconfigurator_core.sdk import common, config
    from aiconfigurator_core.sdk.backends.factory import get_backend
    from aiconfigurator_core.sdk.models import get_model

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    theirs, engine = database.get_database("h100_sxm", "vllm", "0.24.0"), get_backend("vllm")
    formats = config.ModelConfig(
        tp_size=4,
        gemm_quant_mode=common.GEMMQuantMode.bfloat16,
        kvcache_quant_mode=common.KVCacheQuantMode.bfloat16,
        fmha_quant_mode=common.FMHAQuantMode.bfloat16,
    )

    def peer(batch: int, tokens: int) -> object:
        model = get_model("Qwen/Qwen3-32B", formats, "vllm")
        asked = config.RuntimeConfig(batch_size=batch, beam_width=1, isl=tokens, osl=tokens)
        return engine.run_static(model, theirs, asked, "static")

    their_rate = rate(peer)
    figures_rate = rate(lambda batch, tokens: figures_alone(question(batch, tokens)))
    plans_rate = rate(lambda batch, tokens: plan_question(question(batch, tokens)))
    benchmark.extra_info |= {
        "figures_per_s": figures_rate,
        "plans_per_s": plans_rate,
        "aiconfigurator_per_s": their_rate,
        "figures_times_aiconfigurator": figures_rate / their_rate,
        "plans_times_aiconfigurator": plans_rate / their_rate,
    }
    benchmark.pedantic(lambda: plan_question(question(16, 512)), rounds=5)
