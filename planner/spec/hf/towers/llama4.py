"""Llama 4: tiles of one size, a class row, four patches a token."""

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

LLAMA4 = Sizes(768, 5632, 34, 16)
_PAIR = 2
"""Patches at a side of a token's."""
_FCS = (("in", "fc1"), ("out", "fc2"))


@tower("Llama4ForConditionalGeneration", "llama4")
def llama4(parts: Parts) -> Tower | str:
    """Llama 4: an item is a tile, whose patches are joined by four."""
    config = parts.vision
    made = started(parts, LLAMA4)
    told(config, "projector_dropout", "vision_feature_select_strategy")
    ends = unlike(config, hidden_act=("gelu",), multi_modal_projector_bias=(False,))
    if odd := ends or unlike(config, pixel_shuffle_ratio=(0.5,), vision_feature_layer=(-1,)):
        return odd
    inner = made.dim("projector", "projector_input_dim", 4096)
    for key in ("projector_output_dim", "vision_output_dim"):
        if config.count(key, inner) != inner:
            config.refuse(key, f"is not {inner}, as projector_input_dim is")
    side = grid(made, 448)
    if side % _PAIR and not config.faults:
        config.refuse("image_size", f"{side} patches at a side do not pair")
    with_class(made, side)
    made.merged = _PAIR**2
    nodes = {name: f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")}
    adapter = {f"adapter_{end}": f"vision_model.vision_adapter.mlp.{fc}" for end, fc in _FCS}
    last = {"projector": "multi_modal_projector.linear_1"}
    mlp = {"fc1": "mlp.fc1", "fc2": "mlp.fc2"}
    made.modules = Modules("vision_model.model.layers.{}", {**nodes, **mlp}, {**adapter, **last})
    layers = [Use("vision-qwen2", "vision-layer")] * layers_of(made, STANDARD, LLAMA4.layers)
    made.stack("vision-patches-class", layers, "vision-adapter-llama4")
    return made
