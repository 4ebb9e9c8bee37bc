"""NVFP4 caches: four bits an element and an FP8 scale for sixteen, where engine and GPU have it."""

import pytest

from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.types import Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()


def planned(
    backend: str, gpu: str = "b200-sxm", model: str = "llama-3.1-8b-instruct", more: str = ""
) -> Plan:
    """A decode step with an NVFP4 cache."""
    text = (
        f"{{model: {model}, gpu: {gpu}, backend: {{{backend}}}, precision: {{kv_cache: nvfp4{more}}},"
        " step: {decode: {batch: 64, context: 8192}}}\n"
    )
    return assemble(ask(load_text(text, "deploy.yaml"), CATALOG))


def test_a_token_takes_four_and_a_half_bits_an_element():
    """32 layers, K and V of 8 heads of 128: 65,536 elements, 32,768 bytes and 4,096 scales."""
    plan = planned("name: vllm")
    assert plan.model.kv_bytes_per_token == 32_768 + 65_536 / 16 == 36_864
    assert plan.memory.kv_bytes == 64 * 8192 * 36_864
    assert any("KV cache in nvfp4" in note for note in plan.notes)


def test_attention_reads_fewer_bytes_than_of_an_fp8_cache():
    """Same rates, nine sixteenths of the bytes: between that and all of the time."""
    narrow = planned("name: vllm")
    text = "{model: llama-3.1-8b-instruct, gpu: b200-sxm, precision: {kv_cache: fp8}, "
    text += "step: {decode: {batch: 64, context: 8192}}}\n"
    wide = assemble(ask(load_text(text, "deploy.yaml"), CATALOG))
    times = [
        next(each for each in plan.kernels if "attention" in " ".join(each.nodes)).time_s
        for plan in (narrow, wide)
    ]
    assert 9 / 16 * times[1] < times[0] < times[1]


@pytest.mark.parametrize(
    ("backend", "more", "reason"),
    [
        ("name: vllm, version: '0.20.1'", {}, "NVFP4 caches came with 0.21"),
        ("name: vllm", {"gpu": "h100-sxm"}, "need Blackwell of capability 10.0 or 10.3"),
        ("name: vllm", {"gpu": "rtx-5090"}, "need Blackwell of capability 10.0 or 10.3"),
        ("name: vllm", {"gpu": "mi300x"}, "need Blackwell of capability 10.0 or 10.3"),
        ("name: vllm, flags: {attention_backend: TRITON_ATTN}", {}, "FlashInfer alone"),
        ("name: vllm", {"model": "deepseek-v2-lite"}, "not those of latent attention"),
        ("name: tensorrt-llm, version: '1.0'", {}, "NVFP4 caches came with 1.2"),
        ("name: tensorrt-llm", {"gpu": "h100-sxm"}, "need Blackwell"),
        ("name: tensorrt-llm", {}, "runs FP8 weights alone"),
        ("name: sglang", {}, "experimental"),
        ("name: pytorch-eager", {}, "keeps the model's own format"),
    ],
)
def test_it_is_refused_with_the_engines_reason(backend, more, reason):
    with pytest.raises(SpecError, match=reason):
        planned(backend, **more)


def test_versions_between_the_described_ones_are_taken_as_asked():
    """0.22 is planned as 0.19, which had no such cache; 0.22 does."""
    assert planned("name: vllm, version: '0.22'").model.kv_bytes_per_token == 36_864


def test_tensorrt_llm_has_it_beside_fp8_weights():
    plan = planned("name: tensorrt-llm", more=", weights: fp8, activations: fp8")
    assert plan.model.kv_bytes_per_token == 36_864
