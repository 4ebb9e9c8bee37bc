"""Towers of Hugging Face configs: the catalogue's graphs, totals by hand, contradictions, notes."""

import copy
import functools
import json
from typing import Any

import pytest
from hf_configs_more import MORE
from hf_towers import BF16, CATALOGUE, CLIP, OTHERS

from planner.errors import SpecError
from planner.graph import totals
from planner.graph.build import model_graph
from planner.graph.names import model_names
from planner.graph.types import ModelGraph
from planner.ops.types import Formats
from planner.spec import hf
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of
from planner.spec.source import compose
from planner.spec.types import ModelSpec

CATALOG = Catalog.standard()
BLOCKS = functools.partial(CATALOG.find, "block")
WIDE = Formats("bf16", "bf16", "bf16", "bf16")
IN_MORE = "qwen3.5-4b", "qwen3.5-27b", "qwen3.5-397b-a17b", "gemma-4-26b-a4b-it", "gemma-4-31b-it"
IN_OTHERS = (
    *("llama-4-scout", "llama-4-maverick", "kimi-k2.5"),
    *("qwen3-vl-8b", "qwen3-vl-30b-a3b"),
)
KNOWN = (
    CATALOGUE | {name: MORE[name] for name in IN_MORE} | {name: OTHERS[name] for name in IN_OTHERS}
)
"""Configs of the catalogue's models with towers."""


def imported(config: dict) -> hf.Imported:
    return hf.converted(*compose(json.dumps(config, indent=2), "config.json"), BLOCKS)


@functools.cache
def graph(name: str) -> ModelGraph:
    return built(hf.model_of(imported((KNOWN | OTHERS)[name])))


def built(model: ModelSpec) -> ModelGraph:
    return model_graph(model, blocks_of(model, CATALOG), WIDE)


def tower(name: str) -> int:
    return totals.parameters(graph(name)) - totals.parameters(graph(name).alone)


def changed(name: str, change: dict[str, Any], part: str | None = "vision_config") -> dict:
    """A config with fields of a part changed; None takes a field away."""
    config = copy.deepcopy((CATALOGUE | OTHERS)[name])
    inner = config[part] if part else config
    inner |= change
    for key in [key for key, value in inner.items() if value is None]:
        del inner[key]
    return config


def evaluated(model: ModelSpec) -> dict[str, int]:
    """The dims of a model's tower as numbers."""
    assert model.encoder
    alone = model.model_copy(update={"dims": model.encoder.dims, "encoder": None})
    names = model_names(alone).whole_numbers()
    return {name: names[name] for name in model.encoder.dims}


# --- the catalogue's towers --------------------------------------------------------------------


def test_every_tower_of_the_catalogue_is_held_by_a_public_config():
    """All but Whisper's encoder, whose config says no vision."""
    models = (CATALOG.find("model", name) for name in CATALOG.names("model"))
    towers = {m.name for m in models if m.encoder and not m.name.startswith("whisper")}
    assert towers == set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_a_public_config_gives_the_tower_of_the_catalogue(name):
    """The same dims, blocks, rows of an image and parameters, tower included."""
    model, known = hf.model_of(imported(KNOWN[name])), CATALOG.find("model", name)
    assert isinstance(known, ModelSpec)
    assert model.encoder
    assert known.encoder
    mine, theirs = graph(name), built(known)

    assert evaluated(model) == evaluated(known)
    assert model.encoder.tokens == known.encoder.tokens
    assert model.encoder.options == known.encoder.options
    assert model.encoder.inputs == known.encoder.inputs
    sequence = [use.model_dump() for use in model.encoder.sequence]
    assert sequence == [use.model_dump() for use in known.encoder.sequence]
    assert totals.parameters(mine) == totals.parameters(theirs) == known.published.parameters


# --- totals by hand ----------------------------------------------------------------------------


def biased(h: int, m: int) -> int:
    """Two layer norms, Q, K, V and O with biases, an MLP of two biased layers."""
    return 2 * 2 * h + 4 * (h * h + h) + (h * m + m) + (m * h + h)


def gated(h: int, m: int) -> int:
    """Two RMS norms, Q, K, V and O, a gated MLP; no biases."""
    return 2 * h + 4 * h * h + 3 * h * m


def joined(rows: int, h: int, out: int) -> int:
    """Rows of several patches through two biased layers."""
    return (rows * h) ** 2 + rows * h + rows * h * out + out


CLIP_336 = 588 * 1024 + 1024 + 577 * 1024 + 2 * 1024 + 23 * biased(1024, 4096)
"""CLIP ViT-L/14 at 336 pixels up to its last layer but one: patches, a class vector, 24² + 1
positions, a norm ahead of the layers."""
SO400M = 588 * 1152 + 1152 + 27 * biased(1152, 4304) + 2 * 1152
"""SigLIP so400m without its positions: patches of 3 · 14² with a bias, 27 layers, the last norm."""
QWEN3_27 = 1536 * 1152 + 1152 + 2304 * 1152 + 27 * biased(1152, 4304)
"""Patches of 2 · 3 · 16² with a bias, 48² positions, 27 layers."""


def mtp(h: int, heads: int, kv_heads: int, m: int) -> int:
    """Qwen3.5's layer of multi-token prediction: Q with its gate, norms of heads, a gated MLP."""
    attention = h * 256 * (2 * heads + 2 * kv_heads + heads) + 2 * 256
    return 2 * h * h + attention + 3 * h * m + 5 * h


BY_HAND = {
    # transformers' modeling_llama4.py: pixel shuffle of 4, MLP 5632 → 4096 → 4096, projector
    "llama-4-scout": 588 * 1408 + 1408 + 577 * 1408 + 4 * 1408 + 34 * biased(1408, 5632)
    + 4 * 1408 * 4096 + 4096**2 + 4096 * 5120,
    # 32 layers of 1280 with an MLP of 4 · 1280, a merger behind a layer norm
    "qwen2-vl-7b": 1176 * 1280 + 32 * biased(1280, 5120) + 2 * 1280 + joined(4, 1280, 3584),
    # three layers are merged by mergers of their own, whose norm is 4 · 1152 wide
    "qwen3-vl-8b": QWEN3_27 + 2 * 1152 + joined(4, 1152, 4096)
    + 3 * (2 * 4 * 1152 + joined(4, 1152, 4096)),
    "qwen3-vl-30b-a3b": QWEN3_27 + 2 * 1152 + joined(4, 1152, 2048)
    + 3 * (2 * 4 * 1152 + joined(4, 1152, 2048)),
    # RMS norm, 4 · 1024 → 1024, 1024 → 5120 → 5120
    "mistral-small-3.1-24b": 588 * 1024 + 1024 + 24 * gated(1024, 4096)
    + 1024 + 4 * 1024**2 + 1024 * 5120 + 5120**2,
    "llava-1.5-7b": CLIP_336 + 1024 * 4096 + 4096 + 4096**2 + 4096,
    "llava-1.6-mistral-7b": CLIP_336 + 1024 * 4096 + 4096 + 4096**2 + 4096,
    # 26 layers, all of them run, so that the last norm is held: 27² positions
    "llava-onevision-7b": SO400M - biased(1152, 4304) + 27**2 * 1152
    + 1152 * 3584 + 3584 + 3584**2 + 3584,
    "paligemma-3b-224": SO400M + 16**2 * 1152 + 1152 * 2048 + 2048,
    "smolvlm-2b": SO400M + 27**2 * 1152 + 9 * 1152 * 2048,
    # a position for the row and one for the column, four norms a layer and two of 72 on heads, a
    # learned mean and spread, a projection behind a norm without weights
    "gemma-4-26b-a4b": 768 * 1152 + 2 * 10_240 * 1152
    + 27 * (gated(1152, 4304) + 2 * 1152 + 2 * 72) + 2 * 1152 + 1152 * 2816,
    # a layer's MLP is 4096 wide, the merger's 10944; a convolution of 2 × 2 merges
    "glm-4.5v": 1176 * 1536 + 1536 + 1536 + 24**2 * 1536 + 24 * gated(1536, 4096) + 1536
    + 4 * 1536 * 4096 + 4096 + 4096**2 + 2 * 4096 + 3 * 4096 * 10944,
    # two learned scales a layer, a class vector, 32² + 1 positions
    "internvl3-8b": 588 * 1024 + 1024 + 1024 + 1025 * 1024 + 24 * (biased(1024, 4096) + 2 * 1024)
    + 2 * 4096 + 4096 * 3584 + 3584 + 3584**2 + 3584,
    # 24 layers of 1024; 27 of 1152 for the larger ones, merged to the width of each
    "qwen3.5-4b": 1536 * 1024 + 1024 + 2304 * 1024 + 24 * biased(1024, 4096)
    + 2 * 1024 + joined(4, 1024, 2560),
    "qwen3.5-27b": QWEN3_27 + 2 * 1152 + joined(4, 1152, 5120),
    "qwen3.5-397b-a17b": QWEN3_27 + 2 * 1152 + joined(4, 1152, 4096),
    # a norm behind the layers and one ahead of the merging
    "kimi-k2.5": SO400M + 64 * 64 * 1152 + 2 * 1152 + joined(4, 1152, 7168),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_a_tower_has_the_parameters_that_its_maker_gives_it(name):
    assert tower(name) == BY_HAND[name]


@pytest.mark.parametrize(
    ("name", "published"),
    [
        # safetensors totals of the repositories, as public lists quote them; SmolVLM's, InternVL3's
        # and LLaVA 1.6's are recalled
        ("llama-4-scout", 108_641_793_536),
        ("llama-4-maverick", 401_583_781_376),
        # and less a layer of multi-token prediction: a gated attention layer, three norms more
        # and a matrix from 2 · hidden; 6.6e9 of them, counted in the checkpoint
        ("qwen3.5-4b", 4_659_865_088 - mtp(2560, 16, 4, 9216)),
        ("qwen3.5-27b", 27_781_427_952 - mtp(5120, 24, 4, 17408)),
        ("qwen3.5-397b-a17b", 403_397_928_944 - 6_595_568_128),
        ("gemma-4-31b-it", 31_273_088_876 - 60),
        ("qwen2-vl-7b", 8_291_375_616),
        ("qwen3-vl-8b", 8_767_123_696),
        ("qwen3-vl-30b-a3b", 31_070_754_032),
        ("mistral-small-3.1-24b", 24_011_361_280),
        ("paligemma-3b-224", 2_923_466_480),
        ("smolvlm-2b", 2_246_272_880),
        ("glm-4.5v", 107_710_933_120),
        ("internvl3-8b", 7_944_373_760),
        # less a factor of each layer, which is no node's parameter
        ("gemma-4-26b-a4b", 25_805_936_206 - 30),
        # less the layer behind vision_feature_layer and the last norm, which vLLM leaves out
        ("llava-1.5-7b", 7_063_427_072 - 12_596_224 - 2 * 1024),
        # and less image_newline, a row that ends each row of tiles
        ("llava-1.6-mistral-7b", 7_566_747_648 - 12_596_224 - 2 * 1024 - 4096),
    ],
)
def test_an_imported_model_has_its_published_total(name, published):
    assert totals.parameters(graph(name)) == published


@pytest.mark.parametrize(
    ("name", "rows", "becomes"),
    [
        ("llama-4-scout", 24**2 + 1, 144),  # 336 / 14 patches a side, four a token
        ("qwen3-vl-8b", 64**2, 1024),  # 1024 / 16
        ("mistral-small-3.1-24b", 110**2, 55**2),  # 1540 / 14
        ("llava-1.5-7b", 577, 576),
        ("smolvlm-2b", 27**2, 81),  # 384 // 14, squares of 3 × 3
        ("paligemma-3b-224", 256, 256),
        ("internvl3-8b", 1025, 256),
        ("gemma-3-27b-it", 4096, 256),
        ("gemma-4-26b-a4b", 9 * 280, 280),
    ],
)
def test_an_item_is_the_image_that_the_config_names(name, rows, becomes):
    made = imported((CATALOGUE | OTHERS)[name])
    assert made.data["encoder"]["tokens"] == rows
    assert (
        f"{rows:,} rows unless item_tokens says else; it becomes {becomes:,} tokens"
        in made.notes[0]
    )


# --- contradictions and what no block is for ---------------------------------------------------


@pytest.mark.parametrize(
    ("name", "part", "key", "value", "said"),
    [
        ("qwen2.5-vl-7b-instruct", "vision_config", "hidden_size", 1290, "1290 is not divisible by 16 heads"),
        ("gemma-3-27b-it", "vision_config", "hidden_size", 1150, "1150 is not divisible by 16 heads"),
        ("qwen2.5-vl-7b-instruct", "vision_config", "out_hidden_size", 2048, "the tower ends 2048 wide, the text model is 3584 wide"),
        ("qwen2-vl-7b", "vision_config", "hidden_size", 2048, "the tower ends 2048 wide, the text model is 3584 wide"),
        ("paligemma-3b-224", None, "projection_dim", 2304, "the tower ends 2304 wide"),
        ("qwen2.5-vl-7b-instruct", "vision_config", "window_size", 100, "100 pixels are no multiple of a token's 28"),
        ("qwen2.5-vl-7b-instruct", "vision_config", "fullatt_block_indexes", [7, 32], "expected numbers of layers from 0 to 31"),
        ("qwen3-vl-8b", "vision_config", "deepstack_visual_indexes", "8", "expected numbers of layers from 0 to 26"),
        ("gemma-3-27b-it", "vision_config", "image_size", 10, "10 pixels are less than a patch of 14"),
        ("gemma-3-27b-it", None, "mm_tokens_per_image", 200, "64 × 64 patches do not become 200 tokens by whole squares"),
        ("smolvlm-2b", None, "scale_factor", 4, "27 × 27 patches do not split into squares of 4 × 4"),
        ("mistral-small-3.1-24b", None, "spatial_merge_size", 4, "110 × 110 patches do not split into squares of 4 × 4"),
        ("llava-1.5-7b", None, "vision_feature_layer", -26, "there is no such layer: the tower has 24"),
        ("llama-4-scout", "vision_config", "vision_output_dim", 2048, "is not 4096, as projector_input_dim is"),
        ("internvl3-8b", "vision_config", "patch_size", [14, 16], "expected equal sides"),
        ("internvl3-8b", None, "downsample_ratio", 0.2, "does not join 32 × 32 patches evenly"),
        ("kimi-k2.5", "vision_config", "mm_hidden_size", 1024, "is not 1152, as the tower is wide"),
    ],
)  # fmt: skip
def test_a_tower_that_contradicts_itself_is_told_at_its_place(name, part, key, value, said):
    config = changed(name, {key: value}, part)
    lines = json.dumps(config, indent=2).split("\n")
    start = next(i for i, line in enumerate(lines) if part is None or f'"{part}": ' in line)
    depth = "  " if part is None else "    "
    row = next(
        i for i, line in enumerate(lines) if i >= start and line.startswith(f'{depth}"{key}": ')
    )
    at = f"config.json:{row + 1}:{lines[row].index(': ') + 3}: "

    with pytest.raises(SpecError) as caught:
        imported(config)
    (fault,) = (str(each).split("\n")[0] for each in caught.value.faults)
    assert fault.startswith(at)
    assert said in fault


@pytest.mark.parametrize("name", sorted(CATALOGUE | OTHERS))
def test_a_tower_without_a_patch_size_is_told_at_its_config(name):
    config = changed(name, {"patch_size": None})
    lines = json.dumps(config, indent=2).split("\n")
    row = next(i for i, line in enumerate(lines) if line.startswith('  "vision_config": '))

    with pytest.raises(SpecError) as caught:
        imported(config)
    (fault,) = (str(each).split("\n")[0] for each in caught.value.faults)
    assert fault == (
        f"config.json:{row + 1}:20: vision_config.patch_size: is missing, and without it no image"
        " can be counted"
    )


@pytest.mark.parametrize(
    ("config", "notes"),
    [
        (
            changed("internvl3-8b", {"use_qk_norm": True}),
            ("the text model of text_config alone", "without vision_config: no block is for its use_qk_norm true"),
        ),
        (
            changed("qwen3-vl-8b", {"num_experts": 4}),
            ("the text model of text_config alone", "without vision_config: no block is for its num_experts 4"),
        ),
        (
            # InternVL 2.5 and 3 name experts that none of their towers has
            changed("internvl3-8b", {"use_moe": True, "num_experts": 1, "moe_intermediate_size": 768}),
            ("the text model of text_config alone", "without vision_config: no block is for its use_moe true"),
        ),
        (
            changed("llava-1.5-7b", {"model_type": "dinov2"}),
            ("the text model of text_config alone", "without vision_config: no block is for its model_type 'dinov2'"),
        ),
        (
            changed("mistral-small-3.1-24b", {"multimodal_projector_bias": True}, None),
            ("the text model of text_config alone", "without vision_config: no block is for its multimodal_projector_bias true"),
        ),
        (
            changed("gemma-3-4b-it", {"audio_config": {"model_type": "usm"}}, None),
            ("without audio_config: no blocks are for such a part",),
        ),
    ],
)  # fmt: skip
def test_a_part_without_blocks_is_left_out_and_told(config, notes):
    made = imported(config)
    assert "encoder" not in made.data or "audio_config" in notes[0]
    assert [each for each in made.notes if "alone" in each or "without" in each] == list(notes)


def test_a_tower_of_another_kind_is_told_with_the_nearest_and_the_fields_that_differ():
    vision = {**CLIP, "model_type": "tiny_vision", "colour_space": "lab", "tube_length": 3}
    config = changed("llava-1.5-7b", {"architectures": ["TinyVLForConditionalGeneration"]}, None)
    made = imported({**config, "model_type": "tiny", "vision_config": vision})

    (note,) = (each for each in made.notes if each.startswith("without"))
    assert note == (
        "without vision_config: no blocks are for a tower of type 'tiny_vision' (the nearest is"
        " that of LlavaForConditionalGeneration, which knows no colour_space, tube_length)"
    )
    assert "encoder" not in made.data


def test_the_tower_points_into_the_config(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(OTHERS["llava-1.5-7b"], indent=2))
    model = CATALOG.find("model", str(file))
    lines = file.read_text().split("\n")
    row = next(i for i, line in enumerate(lines) if '"intermediate_size"' in line)

    fault = model.origin.at("encoder", "dims", "intermediate").fault("no")
    assert (fault.where.file, fault.where.line) == (str(file), row + 1)


# --- precision ---------------------------------------------------------------------------------

QWEN, GEMMA = "qwen2.5-vl-7b-instruct", "gemma-3-27b-it"
FP8 = {"quant_method": "fp8"}
TENSORS = {
    "quant_method": "compressed-tensors",
    "config_groups": {"a": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}},
}
TEXT_ONLY = copy.deepcopy(TENSORS)
TEXT_ONLY["config_groups"]["a"]["targets"] = ["re:.*language_model.*"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "quantised", "ignored"),
    [
        # tools that quantise the text model's layers alone
        (QWEN, {"quant_method": "awq", "bits": 4, "group_size": 128}, ["vision-*"]),
        (GEMMA, {"quant_method": "gptq", "bits": 4, "group_size": 128}, ["vision-*"]),
        (QWEN, {**FP8, "modules_to_not_convert": ["visual"]}, ["vision-*"]),
        (GEMMA, {**FP8, "modules_to_not_convert": ["vision_tower"]}, ["vision-*"]),
        (QWEN, {**TENSORS, "ignore": ["lm_head", "re:visual.*"]}, ["vision-*"]),
        ("mistral-small-3.1-24b", {**FP8, "modules_to_not_convert": ["model.vision_tower", "model.multi_modal_projector"]}, ["vision-*"]),
        (QWEN, {**TENSORS, "ignore": ["re:.*visual.*", "re:.*down_proj"]}, ["vision-*", "down_proj"]),
        (GEMMA, TEXT_ONLY, ["vision-*"]),
        # nothing says that the tower stays: its linear layers are quantised as the others
        (QWEN, FP8, None),
        # parts of it
        (QWEN, {**FP8, "modules_to_not_convert": ["visual.merger"]}, ["vision-merger"]),
        (QWEN, {**FP8, "modules_to_not_convert": ["re:visual.*.attn.qkv"]},
         [f"{label}.{node}" for label in ("vision-window", "vision-whole") for node in ("q_proj", "k_proj", "v_proj")]),
        ("internvl3-8b", {**FP8, "modules_to_not_convert": ["re:.*vision_tower.*attention.*"]},
         [f"vision-layer.{node}" for node in ("q_proj", "k_proj", "v_proj", "o_proj")]),
        # one name, two meanings: the text model's o_proj alone
        (GEMMA, {**FP8, "modules_to_not_convert": ["re:.*self_attn.o_proj"]}, ["local.o_proj", "global.o_proj"]),
        ("llava-1.5-7b", {**FP8, "modules_to_not_convert": ["multi_modal_projector"]}, ["vision-adapter-class"]),
    ],
)  # fmt: skip
def test_a_tower_stays_in_16_bit_where_its_checkpoint_leaves_it(name, quantised, ignored):
    config = changed(name, {"quantization_config": quantised}, None)
    assert imported(config).data["quantization"].get("ignore") == ignored


def test_rules_for_layers_of_the_text_model_mean_none_of_the_tower():
    """The first layer's down_proj stays wide; the tower's first layer has one too."""
    kept = {**FP8, "modules_to_not_convert": ["model.layers.0.mlp.down_proj"]}
    config = changed(QWEN, {"quantization_config": kept}, None)
    assert imported(config).data["quantization"]["modules"] == [
        {"match": "layer.down_proj", "layers": "0", "weights": "bf16"}
    ]


def test_what_the_text_config_says_of_precision_leaves_the_tower_alone():
    assert imported(OTHERS["kimi-k2.5"]).data["quantization"]["ignore"][0] == "vision-*"


def test_modules_kept_in_some_layers_of_a_tower_are_told():
    kept = {**FP8, "modules_to_not_convert": ["visual.blocks.0.attn.proj"]}
    notes = imported(changed(QWEN, {"quantization_config": kept}, None)).notes
    assert "kept wide in some layers, counted as quantised: vision-window.o_proj" in notes


def test_a_config_that_names_no_class_is_read_by_its_model_type():
    config = {key: value for key, value in OTHERS["llava-1.5-7b"].items() if key != "architectures"}
    assert imported({**config, **BF16}).data["encoder"]["tokens"] == 577
