"""Models that read images, served for text alone: what an engine holds and what it refuses."""

import pytest

from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.plan.types import Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
DECODE = "step: {decode: {batch: 1, context: 1024}}"

# towers by hand: tests/spec/test_hf_towers.py
QWEN35_4B, SCOUT, GEMMA3_4B = 333_514_240, 871_932_416, 419_816_832 + 2560


def planned(model: str, backend: str, step: str = DECODE) -> Plan:
    """The plan of a model's step on an H200."""
    text = f"model: {model}\ngpu: h200-sxm\nbackend: {{{backend}}}\n{step}\n"
    return assemble(ask(load_text(text, "deploy.yaml"), CATALOG))


def weights(model: str, backend: str) -> float:
    return planned(model, backend).memory.weights_bytes


def test_language_model_only_frees_the_tower_for_the_cache():
    """333,514,240 parameters in two bytes; tokens of 8 layers × 2 × 4 heads × 256 in two bytes."""
    whole, text = (
        planned("qwen3.5-4b", f'name: vllm, version: "0.26"{flags}')
        for flags in ("", ", flags: {language_model_only: true}")
    )
    freed = whole.memory.weights_bytes - text.memory.weights_bytes
    assert freed == 2 * QWEN35_4B
    assert text.memory.kv_available_bytes - whole.memory.kv_available_bytes == pytest.approx(freed)
    assert text.memory.kv_tokens > whole.memory.kv_tokens
    assert "vLLM holds no tower here: language_model_only leaves it out" in text.notes
    assert not any("tower" in note for note in whole.notes)
    assert text.step == whole.step


def test_limits_of_nought_came_with_010():
    with pytest.raises(SpecError, match="language_model_only"):
        planned("qwen3.5-4b", 'name: vllm, version: "0.8", flags: {language_model_only: true}')


@pytest.mark.parametrize(
    ("model", "flags", "version", "freed"),
    [
        # Llama 4's is built where images are asked for; Gemma 3's always
        ("llama-4-scout", "", "0.5.9", SCOUT),
        ("llama-4-scout", ", flags: {enable_multimodal: true}", "0.5.9", 0),
        ("llama-4-scout", "", "0.4", 0),
        ("gemma-3-4b-it", "", "0.5.9", 0),
        ("qwen3.5-4b", "", "0.5.9", 0),
    ],
)
def test_sglang_builds_llama_4s_tower_where_images_are_asked_for(model, flags, version, freed):
    held = weights(model, 'name: vllm, version: "0.26"')
    mine = weights(model, f'name: sglang, version: "{version}"{flags}')
    assert held - mine == 2 * freed


def test_tensorrt_llm_runs_qwen35_as_a_text_model():
    held = weights("qwen3.5-4b", 'name: vllm, version: "0.26"')
    assert held - weights("qwen3.5-4b", 'name: tensorrt-llm, version: "1.2"') == 2 * QWEN35_4B


def test_images_without_a_tower_are_refused_at_their_place():
    step = "step: {prefill: {batch: 1, tokens: 2048, items: 1}}"
    with pytest.raises(SpecError) as caught:
        planned("qwen3.5-4b", "name: vllm, flags: {language_model_only: true}", step)
    (fault,) = caught.value.faults
    assert (fault.where.line, fault.where.column) == (4, 49)
    assert "vLLM holds no tower here: language_model_only leaves it out" in fault.message


def test_an_encoder_that_the_text_model_attends_to_stays():
    whole = weights("whisper-large-v3", "name: vllm")
    assert weights("whisper-large-v3", "name: vllm, flags: {language_model_only: true}") == whole
