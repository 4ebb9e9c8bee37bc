"""The step as one persistent kernel: by hand, beside other groupings, and beside published ones."""

from __future__ import annotations

from functools import cache

import pytest

from planner.plan.assemble import assemble
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask


@cache
def sets(model: str, gpu: str, step: str, more: str = ""):
    text = f"model: {model}\ngpu: {gpu}\nstep: {step}\n{more}"
    plan = assemble(ask(load_text(text, "deploy.yaml", "deployment"), Catalog.standard()))
    return plan.step


def test_a_decode_step_reads_weights_and_caches_once():
    """Llama-3.1-8B, 16 sequences of 4096 tokens on an H100 with 3350 GB/s.

    Weights 8,030,261,248, less the embedding's 128,256 × 4096 but for 16 rows; 131,072 B of K and V
    a token, read for 16 × 4096 and written for 16; in each of 32 layers 16 rows of a rotation table
    of 128 numbers. Two bytes each. One kernel starts, one graph is replayed.
    """
    step = sets("llama-3.1-8b-instruct", "h100-sxm", "{decode: {batch: 16, context: 4096}}")
    weights = 2 * (8_030_261_248 - 128_256 * 4096 + 16 * 4096)
    cache_bytes = 131_072 * (16 * 4096 + 16)
    table = 2 * 32 * 16 * 128
    fixed = step.fixed_s["replay_s"] + step.fixed_s["graph_node_s"]
    expected = (weights + cache_bytes + table) / 3350e9 + fixed
    assert step.rule_sets["megakernel"].time_s == pytest.approx(expected, rel=1e-6)
    assert step.rule_sets["megakernel"].kernels == 1
    assert step.rule_sets["blocks"].kernels == 1 + 32 + 1


@pytest.mark.parametrize(
    ("model", "gpu", "step", "more"),
    [
        ("llama-3.1-8b-instruct", "h100-sxm", "{decode: {batch: 16, context: 4096}}", ""),
        ("llama-3.1-8b-instruct", "h100-sxm", "{prefill: {batch: 1, tokens: 4096}}", ""),
        (
            "llama-3.3-70b-instruct",
            "h100-sxm",
            "{decode: {batch: 64, context: 1024}}",
            "parallel: {tensor: 4}\nprecision: {weights: fp8}\n",
        ),
        ("qwen3-30b-a3b", "h100-sxm", "{decode: {batch: 16, context: 4096}}", ""),
        (
            "qwen2.5-7b-instruct",
            "rtx-4090",
            "{decode: {batch: 16, context: 4096}}",
            "backend: {name: vllm, flags: {enforce_eager: true}}\n",
        ),
    ],
)
def test_no_grouping_beats_fewer_larger_kernels(model, gpu, step, more):
    rows = sets(model, gpu, step, more).rule_sets
    times = [rows[name].time_s for name in ("megakernel", "blocks", "ideal", "flags", "engine")]
    assert times == sorted(times)


def test_published_megakernels_stay_above_the_limit():
    """Llama-3.2-1B in BF16, one sequence, 32 tokens in and 128 out, on an H100: less than 1 ms at
    78 % of the bandwidth (Hazy Research, "Look Ma, No Bubbles!", May 2025). The limit is the step
    at 100 % of it.
    """
    step = sets("llama-3.2-1b-instruct", "h100-sxm", "{decode: {batch: 1, context: 96}}")
    limit_s = step.rule_sets["megakernel"].time_s
    assert limit_s < 1e-3
    bytes_s = limit_s - step.fixed_s["replay_s"] - step.fixed_s["graph_node_s"]
    assert bytes_s / 0.78 < 1e-3


def test_stages_of_a_pipeline_have_no_such_limit():
    """A stage waits for the others: no kernel spans them."""
    found = sets(
        "llama-3.1-8b-instruct",
        "h100-sxm",
        "{decode: {batch: 16, context: 4096}}",
        "parallel: {pipeline: 2}\n",
    )
    assert set(found.rule_sets) == {"engine", "flags", "ideal"}
