"""Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5: images of any size, four patches a token."""

from __future__ import annotations

from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use
from planner.spec.hf.tower import Modules, Parts, Tower, tower
from planner.spec.hf.tower_sizes import (
    Sizes,
    Words,
    free,
    layers_of,
    same_width,
    started,
    told,
    unlike,
)

WORDS = Words(layers="depth", heads="num_heads")
QWEN2 = Sizes(1280, 0, 32, 16)
QWEN25 = Sizes(1280, 3420, 32, 16)
QWEN3 = Sizes(1152, 4304, 27, 16)
_MERGE = 2
_ATTENTION = {
    "q_proj": "attn.qkv",
    "k_proj": "attn.qkv",
    "v_proj": "attn.qkv",
    "o_proj": "attn.proj",
}
_ENDS = {"merge_fc1": "visual.merger.mlp.0", "merge_fc2": "visual.merger.mlp.2"}
_GELU = ("gelu_pytorch_tanh", "quick_gelu", "gelu")


def _frames(config: Config) -> int:
    """Frames of a video in one patch; an image is repeated to as many."""
    told(config, "spatial_patch_size", "tokens_per_second")
    return config.count("temporal_patch_size", 2)


def _merged(made: Tower) -> None:
    free(made, _MERGE)
    made.inputs = {"patches": ["tokens", "patch_elements"]}


@tower("Qwen2VLForConditionalGeneration", "qwen2_vl")
def qwen2(parts: Parts) -> Tower | str:
    """Qwen2-VL: its `hidden_size` is the text model's, the tower's own is `embed_dim`."""
    config = parts.vision
    words = Words("embed_dim", "", WORDS.layers, WORDS.heads)
    made = started(parts, QWEN2, words, _frames(config))
    ratio = config.number("mlp_ratio", 4.0)
    made.put("intermediate", max(1, int(made.dims["hidden"] * ratio)), "mlp_ratio")
    if odd := unlike(config, hidden_act=_GELU, spatial_merge_size=(_MERGE,)):
        return odd
    same_width(parts, config, "hidden_size")
    _merged(made)
    nodes = {**_ATTENTION, "fc1": "mlp.fc1", "fc2": "mlp.fc2"}
    made.modules = Modules("visual.blocks.{}", nodes, _ENDS)
    layers = [Use("vision-qwen2", "vision-layer")] * layers_of(made, words, QWEN2.layers)
    made.stack("vision-patches", layers, "vision-merger-layer-norm")
    return made


@tower("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl")
def qwen25(parts: Parts) -> Tower | str:
    """Qwen2.5-VL: attention within windows but for `fullatt_block_indexes`."""
    config = parts.vision
    made = started(parts, QWEN25, WORDS, _frames(config))
    if odd := unlike(config, hidden_act=("silu",), spatial_merge_size=(_MERGE,)):
        return odd
    same_width(parts, config, "out_hidden_size")
    _merged(made)
    whole, window = Use("vision-qwen2.5", "vision-whole"), _window(made)
    count = layers_of(made, WORDS, QWEN25.layers)
    given = _numbers(config, "fullatt_block_indexes", [7, 15, 23, 31], count)
    mlp = {name: f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")}
    made.modules = Modules("visual.blocks.{}", {**_ATTENTION, **mlp}, _ENDS)
    layers = [whole if number in given else window for number in range(count)]
    made.stack("vision-patches", layers, "vision-merger")
    return made


def _window(made: Tower) -> Use:
    """A layer with attention within squares of `window_size` pixels."""
    pixels, unit = made.config.count("window_size", 112), _MERGE * made.patch
    if pixels % unit:
        made.config.refuse("window_size", f"{pixels} pixels are no multiple of a token's {unit}")
    side = max(1, pixels // made.patch)
    return Use("vision-qwen2.5", "vision-window", (("chunk", side**2),))


def _numbers(config: Config, key: str, default: list[int], layers: int) -> list[int]:
    """Numbers of layers, counted from 0."""
    value = config.get(key)
    given = default if value is None else value
    good = isinstance(given, list) and all(type(each) is int for each in given)
    if not good or (value is not None and any(not 0 <= each < layers for each in given)):
        config.refuse(key, f"expected numbers of layers from 0 to {layers - 1}")
        return []
    return [each for each in given if each < layers]


@tower("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe")
@tower("Qwen3_5ForConditionalGeneration", "qwen3_5")
def qwen35(parts: Parts) -> Tower | str:
    """Qwen3.5: the tower of Qwen3-VL, which stays in 16 bit in its maker's FP8 checkpoints."""
    made = qwen3(parts)
    if isinstance(made, Tower):
        made.options["quantized_tower"] = False
    return made


@tower("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe")
@tower("Qwen3VLForConditionalGeneration", "qwen3_vl")
def qwen3(parts: Parts) -> Tower | str:
    """Qwen3-VL, which hands layers within the tower on too (DeepStack); Qwen3.5's doesn't.

    Without `deepstack_visual_indexes` nothing is handed on, as in Qwen3.5's configs.
    """
    config = parts.vision
    made = started(parts, QWEN3, WORDS, _frames(config))
    if odd := unlike(config, hidden_act=_GELU, spatial_merge_size=(_MERGE,)):
        return odd
    same_width(parts, config, "out_hidden_size")
    made.dim("positions", "num_position_embeddings", 2304)
    _merged(made)
    made.inputs["position_ids"] = ["tokens"]
    ends = {"merge_fc1": "visual.merger.linear_fc1", "merge_fc2": "visual.merger.linear_fc2"}
    lists = "visual.deepstack_merger_list.{}"
    ends |= {f"deep_{fc}": f"{lists}.linear_{fc}" for fc in ("fc1", "fc2")}
    nodes = {**_ATTENTION, "fc1": "mlp.linear_fc1", "fc2": "mlp.linear_fc2"}
    made.modules = Modules("visual.blocks.{}", nodes, ends)
    count = layers_of(made, WORDS, QWEN3.layers)
    deep = _numbers(config, "deepstack_visual_indexes", [], count)
    layers: list[Use] = []
    for number in range(count):
        layers.append(Use("vision-qwen2", "vision-layer"))
        if number in deep:
            layers.append(Use("vision-deepstack", "vision-deepstack"))
    made.stack("vision-patches-positions", layers, "vision-merger-layer-norm")
    return made
