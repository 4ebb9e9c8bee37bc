"""GLM-4.5V: images of any size, layers like Pixtral's, four patches merged by a convolution."""

from __future__ import annotations

from planner.spec.hf.layers import Use
from planner.spec.hf.tower import Modules, Parts, Tower, tower
from planner.spec.hf.tower_sizes import (
    Sizes,
    Words,
    free,
    grid,
    layers_of,
    same_width,
    started,
    unlike,
    with_positions,
)

GLM = Sizes(1536, 0, 24, 12)
_MERGE = 2


@tower("Glm4vMoeForConditionalGeneration", "glm4v_moe")
def glm4v(parts: Parts) -> Tower | str:
    """GLM-4.5V: layers like Pixtral's; `intermediate_size` is of the merger, not of a layer."""
    config = parts.vision
    words = Words(intermediate="", layers="depth", heads="num_heads")
    made = started(parts, GLM, words, config.count("temporal_patch_size", 2))
    odd = unlike(config, hidden_act=("silu",), attention_bias=(False,))
    if odd := odd or unlike(config, spatial_merge_size=(_MERGE,)):
        return odd
    made.dim("intermediate", "out_hidden_size", made.dims["text_hidden"])
    same_width(parts, config, "out_hidden_size")
    made.dim("merger_intermediate", "intermediate_size", 13696)
    made.put("positions", grid(made, 336) ** 2, "image_size")
    free(made, _MERGE)
    with_positions(made)
    nodes = dict.fromkeys(("q_proj", "k_proj", "v_proj"), "attn.qkv") | {"o_proj": "attn.proj"}
    nodes |= {name: f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")}
    ends = {f"merge_{end}": f"visual.merger.{end}_proj" for end in ("gate", "up", "down")}
    ends["merge_proj"] = "visual.merger.proj"
    made.modules = Modules("visual.blocks.{}", nodes, ends)
    layers = [Use("vision-pixtral", "vision-layer")] * layers_of(made, words, GLM.layers)
    made.stack("vision-patches-glm", layers, "vision-merger-glm")
    return made
