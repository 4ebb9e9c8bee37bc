"""MoonViT of Kimi-VL and Kimi K2.5: images of any size, four patches a token."""

from __future__ import annotations

from planner.spec.hf.layers import Use
from planner.spec.hf.tower import Modules, Parts, Tower, tower
from planner.spec.hf.tower_sizes import (
    STANDARD,
    Sizes,
    Words,
    free,
    layers_of,
    same_width,
    started,
    told,
    unlike,
    with_positions,
)

MOONVIT = Sizes(1152, 4304, 27, 16)
_MERGE = 2


@tower("KimiK25ForConditionalGeneration", "kimi_k25")
@tower("KimiVLForConditionalGeneration", "kimi_vl")
def kimi(parts: Parts) -> Tower | str:
    """MoonViT of Kimi-VL and Kimi K2.5, whose fields may begin with `vt_`."""
    config = parts.vision
    asked = (getattr(STANDARD, name) for name in ("hidden", "intermediate", "layers", "heads"))
    words = Words(*(config.first(f"vt_{word}", word) for word in asked))
    made = started(parts, MOONVIT, words)
    told(config, "init_pos_emb_time", "pos_emb_type", "video_attn_type", "merge_type")
    told(config, "projector_hidden_act", "projector_ln_eps")
    kinds = ("patchmerger",)
    if odd := unlike(config, merge_kernel_size=([2, 2],), mm_projector_type=kinds):
        return odd
    same_width(parts, config, "text_hidden_size")
    rows = config.count("init_pos_emb_height", 64) * config.count("init_pos_emb_width", 64)
    made.put("positions", rows, "init_pos_emb_height")
    if config.count("mm_hidden_size", made.dims["hidden"]) != made.dims["hidden"]:
        config.refuse("mm_hidden_size", f"is not {made.dims['hidden']}, as the tower is wide")
    free(made, _MERGE)
    with_positions(made)
    nodes = dict.fromkeys(("q_proj", "k_proj", "v_proj"), "wqkv")
    nodes |= {"o_proj": "wo", "fc1": "mlp.fc0", "fc2": "mlp.fc1"}
    ends = {"merge_fc1": "mm_projector.proj.0", "merge_fc2": "mm_projector.proj.2"}
    made.modules = Modules("vision_tower.encoder.blocks.{}", nodes, ends)
    layers = [Use("vision-qwen2", "vision-layer")] * layers_of(made, words, MOONVIT.layers)
    ends_of = ("encoder-norm", "vision-merger-layer-norm")
    made.stack("vision-patches-positions", layers, *ends_of)
    return made


_INTERN_SILENT = (
    "use_absolute_position_embeddings use_mean_pooling use_mask_token layer_scale_init_value "
    "initializer_factor drop_path_rate dropout projection_dropout use_flash_attn "
    "hidden_dropout_prob"
)
