"""SigLIP in front of Gemma 3, PaliGemma, Idefics3 and SmolVLM: images of one size."""

from __future__ import annotations

import math

from planner.spec.hf.layers import Use
from planner.spec.hf.tower import Modules, Parts, Tower, tower
from planner.spec.hf.tower_sizes import (
    STANDARD,
    Sizes,
    grid,
    layers_of,
    same_width,
    square,
    started,
    told,
    unlike,
    with_positions,
)

SIGLIP = Sizes(768, 3072, 12, 12)
IDEFICS3 = Sizes(1152, 3072, 12, 16)
GELU = ("gelu_pytorch_tanh", "gelu", "gelu_fast", "quick_gelu")
NODES = {
    **{name: f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj")},
    "o_proj": "self_attn.out_proj",
    "fc1": "mlp.fc1",
    "fc2": "mlp.fc2",
}
LAYERS = "vision_tower.vision_model.encoder.layers.{}"


def siglip(parts: Parts, has: Sizes, image: int) -> tuple[Tower, int]:
    """SigLIP's dims and inputs, and the patches at a side of its image."""
    made = started(parts, has)
    told(made.config, "vision_use_head", "num_image_tokens", "projector_hidden_act")
    count = grid(made, image)
    made.put("positions", count**2, "image_size")
    with_positions(made)
    return made, count


def _layers(made: Tower, has: Sizes) -> list[Use]:
    return [Use("vision-siglip", "vision-layer")] * layers_of(made, STANDARD, has.layers)


@tower("Gemma3ForConditionalGeneration", "gemma3")
def gemma3(parts: Parts) -> Tower | str:
    """Gemma 3: patches are averaged to `mm_tokens_per_image` tokens."""
    made, count = siglip(parts, SIGLIP, 224)
    if odd := unlike(made.config, hidden_act=GELU):
        return odd
    tokens = parts.outer.count("mm_tokens_per_image", 256)
    side = math.isqrt(tokens)
    if (side**2 != tokens or count % side) and not made.config.faults:
        message = f"{count} × {count} patches do not become {tokens} tokens by whole squares"
        parts.outer.refuse("mm_tokens_per_image", message)
    made.merged = (count // max(1, side)) ** 2 or 1
    made.option("pooled", made.merged, 16)
    ends = {"input_projection": "multi_modal_projector.mm_input_projection"}
    made.modules = Modules(LAYERS, NODES, ends)
    made.stack("vision-patches-positions", _layers(made, SIGLIP), "vision-pooler")
    return made


@tower("PaliGemmaForConditionalGeneration", "paligemma")
def paligemma(parts: Parts) -> Tower | str:
    """PaliGemma 1 and 2: each patch is a token."""
    made, _ = siglip(parts, SIGLIP, 224)
    if odd := unlike(made.config, hidden_act=GELU):
        return odd
    same_width(parts, made.config, "projection_dim")
    same_width(parts, parts.outer, "projection_dim")
    made.modules = Modules(LAYERS, NODES, {"projector": "multi_modal_projector.linear"})
    made.stack("vision-patches-positions", _layers(made, SIGLIP), "vision-projection")
    return made


@tower("SmolVLMForConditionalGeneration", "smolvlm")
@tower("Idefics3ForConditionalGeneration", "idefics3")
def idefics3(parts: Parts) -> Tower | str:
    """Idefics3 and SmolVLM: squares of `scale_factor` patches are a token; an item is a tile."""
    made, count = siglip(parts, IDEFICS3, 224)
    told(made.config, "max_image_size", "size", "use_base_siglip")
    if odd := unlike(made.config, hidden_act=GELU):
        return odd
    scale = square(parts.outer, "scale_factor", 2, most=64)
    if count % scale and not made.config.faults:
        message = f"{count} × {count} patches do not split into squares of {scale} × {scale}"
        parts.outer.refuse("scale_factor", message)
    made.merged = scale**2
    made.option("merged", made.merged, 9)
    names = {"projector": "connector.modality_projection.proj"}
    made.modules = Modules("vision_model.encoder.layers.{}", NODES, names)
    made.stack("vision-patches-positions", _layers(made, IDEFICS3), "vision-shuffle")
    return made
