"""Which kernel of the models an engine's rules give routed experts and attention."""

from __future__ import annotations

import json
from typing import cast

import pytest

from planner.calibrate.families.moe import tuned_shapes
from planner.cost.kernels.attention_decode import dispatched
from planner.plan.load import step_load
from planner.plan.prepare import prepare
from planner.plan.solve import solve_step
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask
from planner.spec.types import DeploymentSpec


def kernels(model: str, gpu: str, engine: str, **more: object) -> dict[str, tuple[object, object]]:
    """Of each group of a decode step that has one: the kernel that fills and the one that decodes.

    ``engine`` is a name and a version, ``more`` further parts of the deployment.
    """
    name, version = engine.split()
    step = {"decode": {"batch": 4, "context": 512}}
    backend = {"name": name, "version": version}
    asked = {"name": "t", "model": model, "gpu": gpu, "backend": backend, "step": step, **more}
    deployment = cast("DeploymentSpec", load_text(json.dumps(asked), "t", "deployment"))
    question = ask(deployment, Catalog.standard())
    chosen = solve_step(prepare(question), step_load(deployment), modes=()).chosen
    found = [kernel.asked for run in chosen.runs for kernel in run.kernels]
    return {kernel.edge.nodes[-1][1]: (kernel.name, kernel.decodes) for kernel in found}


FP8 = {"weights": "fp8", "activations": "fp8"}
TP2 = {"tensor": 2}


@pytest.mark.parametrize(
    ("model", "gpu", "engine", "more", "kernel"),
    [
        # sglang 0.5.14 ships E=8,N=7168 for the H100, and no file for a Mixtral on one GPU
        ("mixtral-8x7b", "h100-sxm", "sglang 0.5.14", {"parallel": TP2}, "triton-tuned"),
        ("mixtral-8x7b", "h100-sxm", "sglang 0.5.14", {}, "triton"),
        ("qwen3-30b-a3b", "b200-sxm", "sglang 0.5.14", {}, "trtllm"),
        ("mixtral-8x7b", "b200-sxm", "sglang 0.5.14", {}, "triton"),
        ("qwen3-30b-a3b", "b200-sxm", "vllm 0.24", {}, "trtllm"),
        ("qwen3-30b-a3b", "b200-sxm", "vllm 0.19", {}, "triton"),
        ("qwen3-30b-a3b", "h100-sxm", "vllm 0.24", {"precision": FP8}, "cutlass"),
        ("qwen3-30b-a3b", "rtx-pro-6000-server", "vllm 0.24", {}, "cutlass"),
        ("kimi-k2-thinking", "h200-sxm", "vllm 0.24", {"parallel": {"tensor": 8}}, "marlin"),
    ],
)
def test_experts_run_on_the_kernel_that_the_engine_takes(model, gpu, engine, more, kernel):
    """As the tables of aiconfigurator-core 0.12.0 name what ran."""
    assert kernels(model, gpu, engine, **more)["experts"] == (kernel, None)


@pytest.mark.parametrize(
    ("gpu", "engine", "more", "expected"),
    [
        ("h100-sxm", "tensorrt-llm 1.2", {}, ("fmha-hopper", "xqa")),
        ("b200-sxm", "tensorrt-llm 1.2", {}, ("trtllm-gen", None)),
        ("l40s", "tensorrt-llm 1.2", {}, ("fmha-v2", "xqa")),
        (
            "l40s",
            "tensorrt-llm 1.2",
            {"precision": {"kv_cache": "fp8"}},
            ("fmha-v2", "xqa-unsplit"),
        ),
        ("b200-sxm", "sglang 0.5.14", {}, ("trtllm-gen", None)),
        ("b200-sxm", "sglang 0.5.6", {}, ("flashinfer", None)),
        ("rtx-pro-6000-server", "sglang 0.5.14", {}, ("flashinfer", None)),
        ("b200-sxm", "vllm 0.24", {"precision": {"kv_cache": "fp8"}}, ("trtllm-gen", None)),
        ("l40s", "vllm 0.24", {"precision": {"kv_cache": "fp8"}}, ("flashinfer", None)),
    ],
)
def test_attention_may_decode_with_another_kernel_than_it_fills_with(gpu, engine, more, expected):
    assert expected in kernels("llama-3.1-8b-instruct", gpu, engine, **more).values()


@pytest.mark.parametrize(
    ("heads", "kv_heads", "kernel"), [(32, 8, "xqa"), (8, 8, "mmha"), (64, 1, "mmha")]
)
def test_xqa_leaves_single_and_very_many_heads_to_the_fallback(heads, kv_heads, kernel):
    """It packs 2 to 32 query heads of a KV head: four do, one and 64 do not."""
    assert dispatched("xqa", heads, kv_heads) == kernel
    assert dispatched("fa3", heads, kv_heads) == "fa3"


def test_tuned_shapes_of_an_engine_are_those_of_one_gpu_and_format():
    """Names of files in the wheel of SGLang 0.5.14; the one of L40S is for another width."""
    assert {"E=8,N=7168", "E=128,N=768"} <= tuned_shapes("sglang", "h100-sxm", "bf16")
    assert "E=8,N=7168" not in tuned_shapes("sglang", "l40s", "bf16")
    assert "E=128,N=768" not in tuned_shapes("sglang", "h100-sxm", "fp8")
