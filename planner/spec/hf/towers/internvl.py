"""InternVL: tiles of one size, a class row, layers with learned scales."""

from __future__ import annotations

from planner.spec.hf.layers import Use
from planner.spec.hf.tower import Modules, Parts, Tower, tower
from planner.spec.hf.tower_sizes import (
    STANDARD,
    Sizes,
    grid,
    layers_of,
    started,
    told,
    unlike,
    with_class,
)
from planner.spec.hf.towers.siglip import GELU

INTERNVIT = Sizes(1024, 4096, 24, 16)
_MERGED = 4
"""Patches of one token."""
_MOST = 8
"""Patches at a side of one token's that any config asks for, and more."""
_SILENT = (
    "use_absolute_position_embeddings",
    "use_mean_pooling",
    "use_mask_token",
    "layer_scale_init_value",
    "initializer_factor",
    "drop_path_rate",
    "dropout",
    "projection_dropout",
    "use_flash_attn",
    "hidden_dropout_prob",
)
"""Fields that change neither the tower's graph nor its sizes."""


_QKV = ("q_proj", "k_proj", "v_proj")
_MLP = {"fc1": "mlp.fc1", "fc2": "mlp.fc2"}
_STANDARD = Modules(
    "vision_tower.encoder.layer.{}",
    {
        **{name: f"attention.{name}" for name in _QKV},
        "o_proj": "attention.projection_layer",
        **_MLP,
    },
    {
        "adapter_in": "multi_modal_projector.linear_1",
        "adapter_out": "multi_modal_projector.linear_2",
    },
)
_CHAT = Modules(
    "vision_model.encoder.layers.{}",
    {**dict.fromkeys(_QKV, "attn.qkv"), "o_proj": "attn.proj", **_MLP},
    {"adapter_in": "mlp1.1", "adapter_out": "mlp1.3"},
)
"""Names in transformers' checkpoints, and in the maker's."""


@tower("InternVLForConditionalGeneration", "internvl")
@tower("InternVLChatModel", "internvl_chat")
def internvl(parts: Parts) -> Tower | str:
    """InternVL with InternViT 300M; the one of 6B norms Q and K, which no block does."""
    config = parts.vision
    made = started(parts, INTERNVIT)
    told(config, *_SILENT)
    told(config, *(key for key in config.data if "expert" in key or "moe" in key))
    told(parts.outer, "vision_feature_select_strategy", "ps_version", "projector_hidden_act")
    plain = unlike(config, hidden_act=GELU, norm_type=("layer_norm",), use_qk_norm=(False,))
    normed = unlike(config, qk_normalization=(False,))
    more = unlike(config, use_moe=(False,), attention_bias=(True,), qkv_bias=(True,))
    last = unlike(parts.outer, vision_feature_layer=(-1,), select_layer=(-1,))
    if odd := plain or normed or more or last:
        return odd
    ratio = parts.outer.number("downsample_ratio", 0.5)
    joined, side = round(1 / ratio) if 1 / _MOST <= ratio <= 1 else 0, grid(made, 448)
    if (not joined or side % joined) and not config.faults:
        parts.outer.refuse("downsample_ratio", f"does not join {side} × {side} patches evenly")
    made.merged = max(1, joined**2)
    made.option("merged", made.merged, _MERGED)
    with_class(made, side)
    made.modules = _CHAT if "llm_config" in parts.outer.data else _STANDARD
    layers = [Use("vision-internvit", "vision-layer")] * layers_of(made, STANDARD, INTERNVIT.layers)
    made.stack("vision-patches-class-biased", layers, "vision-shuffle-mlp")
    return made
