"""Gemma 4 26B-A4B and 31B: images of any size, squares of patches averaged to a token."""

from __future__ import annotations

from planner.spec.hf.layers import Use
from planner.spec.hf.tower import Modules, Parts, Tower, tower
from planner.spec.hf.tower_sizes import STANDARD, Sizes, layers_of, started, told, unlike

GEMMA4 = Sizes(768, 3072, 16, 12)
_TOKENS = 280
_MOST = 64
_PARTS = {
    **{name: f"self_attn.{name}.linear" for name in ("q_proj", "k_proj", "v_proj", "o_proj")},
    **{name: f"mlp.{name}.linear" for name in ("gate_proj", "up_proj", "down_proj")},
}


@tower("Gemma4ForConditionalGeneration", "gemma4")
def gemma4(parts: Parts) -> Tower | str:
    """Gemma 4: an image is cut to patches of `default_output_length` tokens at most."""
    config = parts.vision
    made = started(parts, GEMMA4)
    told(config, "max_position_embeddings", "layer_types")
    alike, heads = (made.dims["head_dim"],), (made.dims["heads"],)
    sizes = unlike(config, head_dim=alike, global_head_dim=alike, num_key_value_heads=heads)
    plain = unlike(config, use_clipped_linears=(False,), attention_bias=(False,))
    kinds = unlike(config, hidden_activation=("gelu_pytorch_tanh",), standardize=(True,))
    if odd := sizes or plain or kinds:
        return odd
    if not config.get("standardize"):
        return "missing standardize"
    made.merged = config.count("pooling_kernel_size", 3, most=_MOST) ** 2
    made.option("pooled", made.merged, 9)
    tokens = parts.outer.count("vision_soft_tokens_per_image", _TOKENS)
    made.tokens = config.count("default_output_length", tokens) * made.merged
    made.dim("positions", "position_embedding_size", 10240)
    ids = {name: ["tokens"] for name in ("column_ids", "row_ids")}
    made.inputs = {"patches": ["tokens", "patch_elements"], **ids}
    ends = {"embedding_projection": "embed_vision.embedding_projection"}
    made.modules = Modules("vision_tower.encoder.layers.{}", _PARTS, ends)
    layers = [Use("vision-gemma4", "vision-layer")] * layers_of(made, STANDARD, GEMMA4.layers)
    made.stack("vision-patches-gemma4", layers, "vision-pooler-gemma4")
    return made
