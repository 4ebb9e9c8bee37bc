"""Speed and memory of sweeps: decode steps a second on one core, against planning row by row.

Run with ``make bench``.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
import warnings
from itertools import product

import numpy as np
import pytest

from planner.plan.assemble import assemble
from planner.plan.load import decode
from planner.plan.prepare import prepare
from planner.plan.solve import solve_step
from planner.plan.sweep import decodes
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Question, ask

CATALOG = Catalog.standard()
MODELS = (
    "llama-3.1-8b-instruct", "llama-3.3-70b-instruct", "qwen2.5-7b-instruct",
    "qwen2.5-72b-instruct", "qwen3-32b", "qwen3-235b-a22b", "deepseek-v3", "gpt-oss-120b",
)  # fmt: skip
TENSOR = (2, 4)
FORMATS = ("bf16", "fp8")
OWN_WEIGHTS = {"deepseek-v3", "gpt-oss-120b"}
"""Their checkpoints are quantised: the KV cache is what varies."""
ENGINES = ("vllm", "sglang")
GPUS = ("h100-sxm", "h200-sxm", "b200-sxm", "a100-80gb-sxm")
BATCHES = np.unique(np.geomspace(1, 512, 64).astype(int))
CONTEXTS = np.linspace(512, 131_072, 64).astype(int)
FASTER = 200
"""How many times faster than one by one a sweep must be at least, within one run."""


def question(
    model: str, gpu: str, tensor: int, dtype: str, engine: str, *, row: tuple[int, int]
) -> Question:
    field = "kv_cache" if model in OWN_WEIGHTS else "weights"
    precision = f"precision: {{{field}: {dtype}}}\n"
    text = (
        f"model: {model}\ngpu: {gpu}\nparallel: {{tensor: {tensor}}}\nbackend: {{name: {engine}}}\n"
        f"{precision}step: {{decode: {{batch: {row[0]}, context: {row[1]}}}}}\n"
    )
    return ask(load_text(text, "deploy.yaml"), CATALOG)


def questions() -> list[Question]:
    """64 structures on 4 GPUs."""
    return [
        question(model, gpu, tensor, dtype, engine, row=(16, 4096))
        for model, tensor, dtype, engine, gpu in product(MODELS, TENSOR, FORMATS, ENGINES, GPUS)
    ]


def grid() -> tuple[np.ndarray, np.ndarray]:
    batch, context = np.meshgrid(BATCHES, CONTEXTS, indexing="ij")
    return batch.ravel(), context.ravel()


def swept(asked: list[Question], batch: np.ndarray, context: np.ndarray) -> float:
    """Rows a second of this process."""
    start = time.process_time()
    for each in asked:
        decodes(each, batch, context)
    return len(asked) * len(batch) / (time.process_time() - start)


@pytest.mark.benchmark(group="sweep")
def test_a_grid_of_64_structures_and_4_gpus(benchmark):
    """The target is 100,000 rows a second, structures and graphs known or not."""
    asked = questions()
    batch, context = grid()
    cold = swept(asked, batch, context)
    warm = benchmark.pedantic(lambda: swept(asked, batch, context), rounds=3)
    one = asked[0]
    rows = list(zip(batch[::97].tolist(), context[::97].tolist(), strict=True))
    start = time.process_time()
    for b, c in rows:
        solve_step(prepare(one), decode(b, c), modes=())
    steps = len(rows) / (time.process_time() - start)
    few = rows[:10]
    start = time.process_time()
    for row in few:
        assemble(question(MODELS[0], GPUS[0], TENSOR[0], FORMATS[0], ENGINES[0], row=row))
    plans = len(few) / (time.process_time() - start)
    benchmark.extra_info |= {
        "rows": len(asked) * len(batch),
        "rows_per_s_cold": cold,
        "rows_per_s_warm": warm,
        "times_a_solved_step": warm / steps,
        "times_a_plan": warm / plans,
    }
    assert warm / steps > FASTER


@pytest.mark.benchmark(group="sweep")
@pytest.mark.parametrize(
    ("model", "gpu", "tensor"),
    [("llama-3.3-70b-instruct", "h100-sxm", 4), ("deepseek-v3", "h200-sxm", 8)],
)
def test_batches_and_contexts_of_one_deployment(benchmark, model, gpu, tensor):
    batch, context = (np.tile(each, 16) for each in grid())
    asked = question(model, gpu, tensor, "bf16", "vllm", row=(16, 4096))
    benchmark.extra_info["rows"] = len(batch)
    rate = benchmark(lambda: swept([asked], batch, context))
    benchmark.extra_info["rows_per_s"] = rate


@pytest.mark.benchmark(group="sweep")
def test_against_decode_steps_of_aiconfigurator(benchmark):
    """Distinct decode steps of one deployment, one by one in its compiled engine, latency alone."""
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
    model = get_model("Qwen/Qwen3-32B", formats, "vllm")
    draw = np.random.default_rng(0)
    batch, context = draw.integers(1, 512, 50_000), draw.integers(2, 32_768, 50_000)

    def peer(count: int) -> float:
        start = time.process_time()
        for b, c in zip(batch[:count].tolist(), context[:count].tolist(), strict=True):
            asked = config.RuntimeConfig(batch_size=b, isl=c - 1, osl=2)
            engine.run_static_latency_only(model, theirs, asked, "static_gen")
        return count / (time.process_time() - start)

    peer(100)
    their_rate = peer(3_000)
    ours = [question("qwen3-32b", "h100-sxm", 4, "bf16", "vllm", row=(16, 4096))]
    swept(ours, batch, context)
    rate = benchmark.pedantic(lambda: swept(ours, batch, context), rounds=5)
    benchmark.extra_info |= {
        "rows_per_s": rate,
        "aiconfigurator_rows_per_s": their_rate,
        "times_aiconfigurator": rate / their_rate,
    }
    assert rate > their_rate


MEMORY = """
import json, resource, sys
import numpy as np
from planner.plan.sweep import decodes
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask
text = "model: deepseek-v3\\ngpu: h200-sxm\\nparallel: {tensor: 8}\\n"
text += "step: {decode: {batch: 16, context: 4096}}\\n"
asked = ask(load_text(text, "deploy.yaml"), Catalog.standard())
draw = np.random.default_rng(0)
found = decodes(asked, draw.integers(1, 65_536, 1_000_000), draw.integers(1, 131_072, 1_000_000))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
json.dump({"peak_bytes": peak, "rows": len(found.steps)}, sys.stdout)
"""


@pytest.mark.benchmark(group="sweep memory")
def test_a_million_rows_take_less_than_a_gibibyte(benchmark):
    """All at once, batches and contexts at random; the whole process counts."""
    command = [sys.executable, "-c", MEMORY]
    found = benchmark.pedantic(lambda: json.loads(subprocess.check_output(command)), rounds=1)
    benchmark.extra_info |= found
    assert found["rows"] == 1_000_000
    assert found["peak_bytes"] < 2**30
