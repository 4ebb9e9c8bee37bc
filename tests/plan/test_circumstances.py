"""Which circumstances of two runs are the same, however tools spell them."""

from __future__ import annotations

import pytest
from run_samples import plan, run

from planner.errors import UsageError
from planner.plan.circumstances import completed, differences


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("model", "meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"),
        ("model", "/models/Qwen2.5-7B-Instruct/", "qwen2.5-7b-instruct"),
        ("gpu", "NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("gpu", "NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("gpu", "NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("backend.version", "0.26.1", "0.26"),
        ("backend.version", "v0.26.0+cu129", "0.26.0"),
        ("backend.name", "vLLM", "vllm"),
        ("backend.name", "TensorRT-LLM", "tensorrt-llm"),
        ("precision.weights", "bfloat16", "bf16"),
        ("precision.weights", "int4", "awq"),
        ("precision.weights", "fp8", "fp8_block"),
        ("memory.utilization", 0.90, 0.9),
        ("parallel.tensor", 2.0, 2),
        ("note", "what is", "no circumstance"),
    ],
)
def test_two_spellings_of_one_thing(path, one, other):
    assert differences({path: one}, {path: other}) == ()


@pytest.mark.parametrize(
    ("path", "one", "other", "part"),
    [
        ("model", "llama-3-8b-instruct", "llama-3.1-8b-instruct", "model"),
        ("model", "qwen2.5-7b-instruct-awq", "qwen2.5-7b-instruct", "model"),
        ("gpu", "NVIDIA H100 PCIe", "h100-sxm", "device"),
        ("gpu", "NVIDIA A100-SXM4-40GB", "a100-sxm-80gb", "device"),
        ("gpu", "NVIDIA L40", "l40s", "device"),
        ("backend.version", "0.25.1", "0.26", "backend"),
        ("backend.version", "0.2", "0.26", "backend"),
        ("backend.flags.enforce_eager", True, False, "backend"),
        ("precision.kv_cache", "fp8", "bf16", "precision"),
        ("precision.weights", "int4", "nvfp4", "precision"),
        ("parallel.tensor", 4, 2, "parallel"),
        ("workload.input", 1024, 512, "workload"),
    ],
)
def test_two_things_are_told_apart_and_the_part_is_named(path, one, other, part):
    (found,) = differences({path: one}, {path: other})
    assert (found.part, str(found)) == (part, f"{part}: {path} is {one}, not {other}")


def test_what_only_one_side_says_is_no_difference():
    assert differences({"gpu": "l40s"}, {"model": "gpt2"}) == ()


def test_requests_in_flight_are_held_against_a_planned_step():
    """Batch 16 is planned; 8 at once are something else."""
    (found,) = differences({"workload.concurrency": 8}, {"step.decode.batch": 16})
    assert found.part == "workload"
    assert differences({"workload.concurrency": 16}, {"step.decode.batch": 16}) == ()


@pytest.mark.parametrize(
    ("context", "same"), [(1024, True), (1152, True), (1153, False), (1000, False)]
)
def test_a_planned_context_must_lie_on_the_way_of_the_requests(context, same):
    """From 1,024 prompt tokens to 1,024 + 128 = 1,152."""
    said = {"workload.input": 1024, "workload.output": 128}
    assert (differences(said, {"step.decode.context": context}) == ()) is same


def test_a_difference_is_found_from_either_side():
    one, other = {"workload.batch": 8}, {"step.decode.batch": 16}
    assert [d.part for d in differences(one, other)] == ["workload"]
    assert [d.part for d in differences(other, one)] == ["workload"]


def test_what_a_file_does_not_say_is_taken_from_the_plan_and_said_so():
    found = completed(run({"backend.version": "0.26.1"}, step=0.01), plan())
    assert found.context["gpu"] == "rtx-4090"
    assert found.context["step.decode.batch"] == 16
    assert found.context["backend.version"] == "0.26.1"
    assert "gpu" in found.notes[-1]
    assert "backend.version" not in found.notes[-1]


def test_a_file_that_contradicts_the_plan_is_refused_naming_each_part():
    said = {"parallel.tensor": 4, "gpu": "NVIDIA L40S"}
    with pytest.raises(UsageError) as refused:
        completed(run(said, step=0.01), plan())
    assert "parallel: parallel.tensor is 4, not 1; device: gpu is NVIDIA L40S, not rtx-4090" in str(
        refused.value
    )
