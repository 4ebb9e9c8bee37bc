"""Speed of sweeps of prefill steps, static batches and closed loops, on one core.

Each against planning the same rows one by one, and where aiconfigurator 0.12 is installed against
its estimates, all within one run. Run with ``make bench``.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.plan.batches import batches
from planner.plan.sweep import prefills
from planner.serving.loops import loops
from planner.serving.plan import plan_question
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Question, ask

CATALOG = Catalog.standard()
MODELS = ("llama-3.1-8b-instruct", "llama-3.3-70b-instruct", "qwen3-235b-a22b", "gpt-oss-120b")
GPUS = ("h100-sxm", "h200-sxm", "b200-sxm", "a100-80gb-sxm")
LOADS = {
    "prefill": (prefills, "step: {{prefill: {{batch: {}, tokens: {}}}}}", 20_000),
    "batch": (batches, "workload: {{batch: {}, input: {}, output: {}}}", 5_000),
    "loop": (loops, "workload: {{concurrency: {}, input: {}, output: {}}}", 500),
}
"""How it is swept, its words, and rows of each deployment."""
FASTER = 20
"""How many times faster than one by one a sweep must be at least, within one run."""


def question(model: str, gpu: str, load: str, tensor: int = 8) -> Question:
    text = f"model: {model}\ngpu: {gpu}\nparallel: {{tensor: {tensor}}}\n{load}\n"
    return ask(load_text(text, "deploy.yaml"), CATALOG)


def drawn(count: int, sizes: int) -> np.ndarray:
    """Batches up to 64, prompts up to 8,192 tokens, outputs up to 1,024."""
    draw = np.random.default_rng(0)
    return np.array([draw.integers(1, most, count) for most in (65, 8193, 1025)[:sizes]])


def rate(rows: int, work: Callable[[], object]) -> float:
    """Rows a second of this process."""
    start = time.process_time()
    work()
    return rows / (time.process_time() - start)


@pytest.mark.benchmark(group="sweep of loads")
@pytest.mark.parametrize("load", LOADS)
def test_random_rows_of_16_deployments(benchmark, load):
    """Four models on four GPUs; of prefill steps the target is 20,000 rows a second."""
    sweep, words, count = LOADS[load]
    sizes = drawn(count, words.count("{}"))
    first = words.format(*sizes[:, 0])
    asked = [question(model, gpu, first) for model, gpu in product(MODELS, GPUS)]

    def swept() -> float:
        return rate(len(asked) * count, lambda: [sweep(each, *sizes) for each in asked])

    cold, warm = swept(), benchmark.pedantic(swept, rounds=2)
    few = sizes[:, :3].T.tolist()
    single = [question(m, GPUS[0], words.format(*row)) for m in MODELS for row in few]
    plans = rate(len(single), lambda: [plan_question(each) for each in single])
    benchmark.extra_info |= {
        "rows": len(asked) * count,
        "rows_per_s_cold": cold,
        "rows_per_s_warm": warm,
        "plans_per_s": plans,
        "times_a_plan": warm / plans,
    }
    assert warm / plans > FASTER


def quiet() -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")


def core_rate(rows: Sequence[Any]) -> float:
    """Static estimates a second of aiconfigurator's compiled engine, latency alone."""
    from aiconfigurator_core.sdk import common, config, perf_database
    from aiconfigurator_core.sdk.backends.factory import get_backend
    from aiconfigurator_core.sdk.models import get_model

    tables, engine = perf_database.get_database("h100_sxm", "vllm", "0.24.0"), get_backend("vllm")
    formats = config.ModelConfig(
        tp_size=4,
        gemm_quant_mode=common.GEMMQuantMode.bfloat16,
        kvcache_quant_mode=common.KVCacheQuantMode.bfloat16,
        fmha_quant_mode=common.FMHAQuantMode.bfloat16,
    )
    model = get_model("Qwen/Qwen3-32B", formats, "vllm")

    def work(some: Sequence[Any]) -> None:
        for b, i, o in some:
            asked = config.RuntimeConfig(batch_size=b, isl=i, osl=o)
            engine.run_static_latency_only(model, tables, asked, "static")

    work(rows[:100])
    return rate(len(rows) - 100, lambda: work(rows[100:]))


def estimate_rate(rows: Sequence[Any]) -> float:
    """Static estimates a second of the function behind its ``cli estimate``, in one process."""
    from aiconfigurator.cli.api import cli_estimate

    def work(some: Sequence[Any]) -> None:
        for b, i, o in some:
            cli_estimate(
                "Qwen/Qwen3-32B", "h100_sxm", mode="static", backend_name="vllm",
                backend_version="0.24.0", isl=i, osl=o, batch_size=b, tp_size=4,
            )  # fmt: skip

    work(rows[:3])
    return rate(len(rows) - 3, lambda: work(rows[3:]))


@pytest.mark.benchmark(group="sweep of loads")
def test_static_batches_against_aiconfigurator(benchmark):
    """Distinct static batches of Qwen3-32B on 4 H100s under vLLM."""
    pytest.importorskip("aiconfigurator")
    quiet()
    sizes = drawn(20_000, 3)
    sizes[2] += 1
    rows = sizes.T.tolist()
    theirs, estimates = core_rate(rows[:3_000]), estimate_rate(rows[:100])
    asked = question("qwen3-32b", "h100-sxm", LOADS["batch"][1].format(1, 10, 10), tensor=4)
    ours = benchmark.pedantic(
        lambda: rate(len(rows), lambda: batches(asked, *sizes)), rounds=3, warmup_rounds=1
    )
    benchmark.extra_info |= {
        "rows_per_s": ours,
        "aiconfigurator_core_per_s": theirs,
        "aiconfigurator_estimates_per_s": estimates,
        "times_the_core": ours / theirs,
        "times_the_estimates": ours / estimates,
    }
    assert ours > theirs


PLAN = """model: qwen3-32b
gpu: h100-sxm
parallel: {tensor: 4}
workload: {batch: 16, input: 2048, output: 256}
"""


@pytest.mark.benchmark(group="cold command")
def test_cold_commands(benchmark, tmp_path):
    """A plan of a static batch and theirs, each in a new process; wall time, best of three."""
    pytest.importorskip("aiconfigurator")
    file = tmp_path / "deploy.yaml"
    file.write_text(PLAN, encoding="utf-8")
    own = [sys.executable, "-m", "planner", "plan", str(file)]
    other = [str(Path(sys.executable).with_name("aiconfigurator")), "cli", "estimate"]
    other += ["--model-path", "Qwen/Qwen3-32B", "--system", "h100_sxm", "--backend", "vllm"]
    other += ["--perf-db-version", "0.24.0", "--estimate-mode", "static", "--tp-size", "4"]
    other += ["--isl", "2048", "--osl", "256", "--batch-size", "16"]

    def best(command: list[str]) -> float:
        return min(_wall_s(command) for _ in range(3))

    theirs_s = best(other)
    ours_s = benchmark.pedantic(lambda: best(own), rounds=1)
    benchmark.extra_info |= {
        "planner_s": ours_s,
        "aiconfigurator_s": theirs_s,
        "times_aiconfigurator": theirs_s / ours_s,
    }
    assert ours_s < theirs_s


def _wall_s(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start
