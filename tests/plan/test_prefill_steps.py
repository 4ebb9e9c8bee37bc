"""How a static batch is prefilled: under the tokens that the engine's scheduler gives a step."""

from pathlib import Path

import pytest

from planner.plan.prepare import prepare
from planner.plan.workload import prefill_steps
from planner.resources import folder
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog((Path(folder("catalog")),))


def steps(backend: str, batch: int, tokens: int, gpu: str = "h100-sxm") -> list[int]:
    """New tokens of each step, in order."""
    text = f"""
model: llama-3.1-8b-instruct
gpu: {gpu}
backend: {backend}
workload: {{batch: {batch}, input: {tokens}, output: 2}}
"""
    prepared = prepare(ask(load_text(text, "deploy.yaml", "deployment"), CATALOG))
    found = prefill_steps(prepared, batch, tokens)
    return [int(step.tokens) for step, times in found for _ in range(times)]


@pytest.mark.parametrize(
    ("backend", "gpu", "expected"),
    [
        # 8 × 2,048 tokens under 8,192: four prompts a step
        ("{name: vllm, version: '0.26'}", "h100-sxm", [8192, 8192]),
        # 2,048 on 24 GiB: one prompt a step
        ("{name: vllm, version: '0.26'}", "rtx-4090", [2048] * 8),
        ("{name: sglang, version: '0.5.6'}", "rtx-4090", [2048] * 8),
        ("{name: tensorrt-llm, version: '1.0'}", "h100-sxm", [8192, 8192]),
        ("{name: tensorrt-llm, flags: {max_num_tokens: 4096}}", "h100-sxm", [4096] * 4),
        # V0 with sequences of up to 8,192 tokens: whole prompts, 8,192 tokens a step
        (
            "{name: vllm, version: '0.6.4', flags: {max_model_len: 8192}}",
            "h100-sxm",
            [8192, 8192],
        ),
        # and with the model's own 131,072: chunks of 512
        ("{name: vllm, version: '0.6.4'}", "h100-sxm", [512] * 32),
        ("{name: pytorch-eager}", "h100-sxm", [8192, 8192]),
    ],
)
def test_prompts_share_a_step_as_the_scheduler_lets_them(backend, gpu, expected):
    assert steps(backend, 8, 2048, gpu) == expected
