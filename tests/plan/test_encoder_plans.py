"""Encoders: embedders that keep nothing, and towers that run where prompts begin."""

import json

import pytest
from hf_towers import OTHERS

from planner.errors import SpecError
from planner.graph import totals
from planner.graph.build import model_graph
from planner.ops.types import Formats
from planner.plan.assemble import assemble
from planner.plan.types import Plan
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask, blocks_of

CATALOG = Catalog.standard()
FP16 = Formats("fp16", "fp16", "fp16", "fp16")


def planned(model: str, step: str, more: str = "") -> Plan:
    """The plan of a model's step on an H100."""
    text = f"model: {model}\ngpu: h100-sxm\n{step}\n{more}\n"
    return assemble(ask(load_text(text, "deploy.yaml"), CATALOG))


def flops(plan: Plan, node: str, block: str) -> float:
    """Matrix FLOPs of one occurrence of a node."""
    return next(row.matmul_flops for row in plan.nodes if (row.id, row.block) == (node, block))


def blocks(plan: Plan) -> set[str]:
    """Blocks that the step runs."""
    return {row.block for row in plan.nodes}


def graph_of(name: str):
    """The graph of a catalogue model in 16 bit."""
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), FP16)


def test_an_embedder_sees_keys_on_both_sides_and_keeps_none():
    """BERT large: 32 prompts of 512 tokens, 512 × 512 pairs each, 16 heads of 64."""
    plan = planned("bge-large-en-v1.5", "step: {prefill: {batch: 32, tokens: 512}}")
    assert flops(plan, "attention.scores", "layer") == 2 * 16 * 64 * 32 * 512 * 512
    assert plan.memory.kv_bytes == 0
    assert plan.model.kv_bytes_per_token == 0
    assert plan.memory.fits


@pytest.mark.parametrize(
    "step",
    ["step: {decode: {batch: 1, context: 9}}", "workload: {batch: 1, input: 9, output: 9}"],
)
def test_an_embedder_has_no_decode_step(step):
    """It generates nothing: the fault says how to plan it."""
    with pytest.raises(SpecError, match="an encoder keeps no cache and generates nothing"):
        planned("bge-large-en-v1.5", step)


def test_whispers_encoder_runs_where_a_request_begins_and_never_again():
    """1500 frames a request; a decode step holds the weights and runs the decoder alone."""
    first = planned("whisper-large-v3", "step: {prefill: {batch: 3, tokens: 4}}")
    assert flops(first, "fc1", "encoder-layer") == 2 * 3 * 1500 * 1280 * 5120
    assert flops(first, "fc1", "layer") == 2 * 3 * 4 * 1280 * 5120
    # two convolutions: 3000 frames of 3 × 128, 1500 of 3 × 1280
    assert flops(first, "conv1", "whisper-stem") == 2 * 3 * 3000 * 3 * 128 * 1280
    assert flops(first, "conv2", "whisper-stem") == 2 * 3 * 1500 * 3 * 1280 * 1280
    later = planned("whisper-large-v3", "step: {decode: {batch: 3, context: 100}}")
    assert "encoder-layer" in blocks(first)
    assert blocks(later) == {"embedding-positions", "layer", "lm-head-layer-norm"}
    assert later.memory.weights_bytes == first.memory.weights_bytes == 2 * 1_543_490_560


def test_keys_of_cross_attention_are_a_state_of_the_sequence():
    """32 layers × K and V of 1500 frames, 1280 wide, 2 bytes: 245.76 MB a request."""
    state = 32 * 2 * 1500 * 1280 * 2
    assert totals.state_bytes_per_sequence(graph_of("whisper-large-v3")) == state == 245_760_000
    # its own cache: 32 layers, K and V of 1280
    assert totals.kv_bytes_per_token(graph_of("whisper-large-v3")) == 32 * 2 * 1280 * 2
    plan = planned("whisper-large-v3", "step: {decode: {batch: 5, context: 160}}")
    assert plan.memory.kv_bytes == 5 * (state + 160 * 32 * 2 * 1280 * 2)
    row = next(row for row in plan.nodes if row.id == "cross_attention")
    # Q and the output of 5 tokens, and every key and value once
    assert row.hbm_bytes == 5 * (2 * 1280 * 2 + 2 * 1500 * 1280 * 2)
    assert row.matmul_flops == 5 * 4 * 1500 * 1280


def test_a_vision_tower_runs_for_the_images_a_prompt_brings():
    """Two prompts of two images of 400 patches: windows of 64 patches, or all 400."""
    step = "step: {prefill: {batch: 2, tokens: 300, items: 2, item_tokens: 400}}"
    plan = planned("qwen2.5-vl-7b-instruct", step)
    # 400 patches: six windows of 64 and one of 16; 16 heads of 80
    pairs = 6 * 64 * 64 + 16 * 16
    assert flops(plan, "attention.scores", "vision-window") == 2 * 16 * 80 * 4 * pairs
    assert flops(plan, "attention.scores", "vision-whole") == 2 * 16 * 80 * 4 * 400 * 400
    # four patches become one row of the merger
    assert flops(plan, "merge_fc1", "vision-merger") == 2 * 4 * 100 * 5120 * 5120
    assert flops(plan, "up_proj", "layer") == 2 * 600 * 3584 * 18_944


def test_a_prompt_without_images_and_every_decode_step_leave_the_tower_out():
    """Its weights stay in memory all the same: 676,550,144 of them."""
    prompt = planned("qwen2.5-vl-7b-instruct", "step: {prefill: {tokens: 300}}")
    decode = planned("qwen2.5-vl-7b-instruct", "step: {decode: {batch: 1, context: 300}}")
    text = planned("qwen2.5-7b-instruct", "step: {decode: {batch: 1, context: 300}}")
    assert blocks(prompt) == blocks(decode) == blocks(text)
    assert decode.step.time_s == text.step.time_s
    extra = decode.memory.weights_bytes - text.memory.weights_bytes
    assert extra == pytest.approx(2 * 676_550_144, rel=1e-9)
    assert decode.model.active_parameters == text.model.active_parameters


def test_an_encoder_decoder_model_is_not_cut_into_stages():
    """Its layers read what the encoder wrote; no engine sends that from stage to stage."""
    with pytest.raises(SpecError, match="no engine cuts an encoder-decoder model into stages"):
        planned(
            "whisper-large-v3",
            "step: {decode: {batch: 1, context: 9}}",
            "parallel: {pipeline: 2}",
        )


def test_gemma_averages_squares_of_16_patches_before_it_projects_them():
    """Three images of 4,096 patches of 3 × 14 × 14 colours; 256 rows each are projected."""
    plan = planned("gemma-3-4b-it", "step: {prefill: {batch: 3, tokens: 300, items: 1}}")
    assert flops(plan, "patch_embed", "vision-patches-positions") == 2 * 3 * 4096 * 588 * 1152
    assert flops(plan, "fc1", "vision-layer") == 2 * 3 * 4096 * 1152 * 4304
    assert flops(plan, "attention.scores", "vision-layer") == 2 * 3 * 4096 * 4096 * 1152
    assert flops(plan, "input_projection", "vision-pooler") == 2 * 3 * 256 * 1152 * 2560
    assert flops(plan, "up_proj", "local") == 2 * 3 * 300 * 2560 * 10_240


def test_every_patch_of_pixtral_is_a_token():
    """An image of 16 × 20 patches of 16 × 16 pixels."""
    step = "step: {prefill: {tokens: 400, items: 1, item_tokens: 320}}"
    plan = planned("pixtral-12b", step)
    assert flops(plan, "patch_conv", "vision-patches-normed") == 2 * 320 * 768 * 1024
    assert flops(plan, "attention.scores", "vision-layer") == 2 * 320 * 320 * 1024
    assert flops(plan, "adapter_out", "vision-adapter") == 2 * 320 * 5120 * 5120


def test_an_imported_config_runs_its_tower_for_the_images_of_a_prompt(tmp_path):
    """LLaVA 1.5: two images of 24 × 24 patches and a row for the whole, which no projector sees."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(OTHERS["llava-1.5-7b"]))
    plan = planned(str(file), "step: {prefill: {tokens: 1300, items: 2}}")
    assert flops(plan, "patch_embed", "vision-patches-class") == 2 * 2 * 576 * 588 * 1024
    assert flops(plan, "attention.scores", "vision-layer") == 2 * 2 * 577 * 577 * 1024
    assert flops(plan, "fc1", "vision-layer") == 2 * 2 * 577 * 1024 * 4096
    assert flops(plan, "adapter_out", "vision-adapter-class") == 2 * 2 * 576 * 4096 * 4096
    assert flops(plan, "up_proj", "layer") == 2 * 1300 * 4096 * 11_008
    # tower, 32 layers of Vicuna, two tables of 32,064 rows and the last norm
    layer = 4 * 4096**2 + 3 * 4096 * 11_008 + 2 * 4096
    text = 32 * layer + 2 * 32_064 * 4096 + 4096
    assert plan.memory.weights_bytes == 2 * (311_888_896 + text)


def test_a_tower_runs_ahead_of_the_first_stage_and_lies_on_every_one():
    """Four prompts are two micro-batches of two; the tower's 423 M weights are held twice."""
    step = "step: {prefill: {batch: 4, tokens: 300, items: 1}}"
    plan = planned("gemma-3-27b-it", step, "parallel: {pipeline: 2}")
    assert flops(plan, "fc1", "vision-layer") == 2 * 2 * 4096 * 1152 * 4304
    tower = 416_866_032 + 1152 * 5376 + 1152
    layer, table = 412_898_560, 262_208 * 5376
    # the first stage, the tighter one, has the table too, and no last norm
    assert plan.memory.weights_bytes == 2 * (tower + 31 * layer + table)
