"""LLaVA, LLaVA-NeXT and Mistral Small 3.1: CLIP, SigLIP or Pixtral, and an adapter."""

from __future__ import annotations

from collections.abc import Callable

from planner.spec.faults import shown
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use
from planner.spec.hf.tower import Modules, Parts, Tower, tower
from planner.spec.hf.tower_sizes import (
    STANDARD,
    Sizes,
    grid,
    layers_of,
    square,
    started,
    told,
    unlike,
    with_class,
)
from planner.spec.hf.towers.siglip import GELU, LAYERS, NODES, SIGLIP, siglip

CLIP = Sizes(768, 3072, 12, 12)
PIXTRAL = Sizes(1024, 4096, 24, 16)
_ADAPTER = {
    "adapter_in": "multi_modal_projector.linear_1",
    "adapter_out": "multi_modal_projector.linear_2",
}
_PIXTRAL_NODES = {
    **{name: f"attention.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")},
    **{name: f"feed_forward.{name}" for name in ("gate_proj", "up_proj", "down_proj")},
}


def _run(parts: Parts, made: Tower, has: Sizes, default: int) -> tuple[int, bool]:
    """Layers up to `vision_feature_layer`, and whether that is all of them.

    Layers behind it are neither run nor held. Source: vLLM, `get_num_selected_vision_tokens` and
    `_get_num_hidden_layers` in model_executor/models/llava.py.
    """
    count = layers_of(made, STANDARD, has.layers)
    given = parts.outer.get("vision_feature_layer")
    chosen = given if isinstance(given, list) and given else [given]
    whole = [each if type(each) is int else default for each in chosen]
    last = max(each if each >= 0 else count + each + 1 for each in whole)
    if not 1 <= last <= count:
        parts.outer.refuse("vision_feature_layer", f"there is no such layer: the tower has {count}")
        return count, True
    if last < count:
        words = f"{last} of its {count} layers run and are held (vision_feature_layer)"
        made.notes.append(f"{words}; the checkpoint has all")
    return last, last == count


def _clip(parts: Parts, default: int) -> Tower | str:
    made = started(parts, CLIP)
    told(made.config, "projection_dim", "vocab_size")
    if odd := unlike(made.config, hidden_act=GELU):
        return odd
    side = grid(made, 224)
    with_class(made, side)
    made.modules = Modules(LAYERS, NODES, _ADAPTER)
    count, whole = _run(parts, made, CLIP, default)
    kept = parts.outer.text("vision_feature_select_strategy") == "full"
    norm = ["encoder-norm"] if whole else []
    layers = [Use("vision-siglip", "vision-layer")] * count
    last = "vision-adapter" if kept else "vision-adapter-class"
    made.stack("vision-patches-class", layers, *norm, last)
    return made


def _siglip(parts: Parts, default: int) -> Tower | str:
    made, _ = siglip(parts, SIGLIP, 224)
    told(parts.outer, "vision_feature_select_strategy")
    if odd := unlike(made.config, hidden_act=GELU):
        return odd
    made.modules = Modules(LAYERS, NODES, _ADAPTER)
    count, whole = _run(parts, made, SIGLIP, default)
    layers = [Use("vision-siglip", "vision-layer")] * count
    ends = ["encoder-norm"] if whole else []
    made.stack("vision-patches-positions", layers, *ends, "vision-adapter")
    return made


def _pixtral(parts: Parts, default: int, end: str = "vision-adapter") -> Tower | str:
    made = started(parts, PIXTRAL)
    told(made.config, "is_composition")
    told(parts.outer, "vision_feature_select_strategy")
    if odd := unlike(made.config, hidden_act=("silu", "gelu"), head_dim=(made.dims["head_dim"],)):
        return odd
    grid(made, 1024)
    made.inputs = {"patches": ["tokens", "patch_elements"]}
    merging = {"merging_layer": "multi_modal_projector.patch_merger.merging_layer"}
    names = "vision_tower.transformer.layers.{}"
    made.modules = Modules(names, _PIXTRAL_NODES, {**_ADAPTER, **merging})
    count, _ = _run(parts, made, PIXTRAL, default)
    layers = [Use("vision-pixtral", "vision-layer")] * count
    made.stack("vision-patches-normed", layers, end)
    return made


_TOWERS: dict[str, Callable[[Parts, int], Tower | str]] = {
    "clip_vision_model": _clip,
    "siglip_vision_model": _siglip,
    "pixtral": _pixtral,
}


def _other(parts: Parts) -> str:
    return f"model_type {shown(parts.vision.get('model_type'))}"


def _by_kind(parts: Parts, default: int) -> Tower | str:
    """The tower by its own model type, with LLaVA's adapter."""
    kind = parts.vision.text("model_type") or "clip_vision_model"
    if kind not in _TOWERS:
        return _other(parts)
    gelu = unlike(parts.outer, projector_hidden_act=("gelu",), multimodal_projector_bias=(True,))
    return gelu or _TOWERS[kind](parts, default)


@tower("LlavaForConditionalGeneration", "llava")
def llava(parts: Parts) -> Tower | str:
    """LLaVA 1.5, and Pixtral as transformers has it."""
    return _by_kind(parts, -2)


@tower("LlavaNextForConditionalGeneration", "llava_next")
def llava_next(parts: Parts) -> Tower | str:
    """LLaVA 1.6: an item is a tile of an image."""
    return _by_kind(parts, -2)


@tower("LlavaOnevisionForConditionalGeneration", "llava_onevision")
def onevision(parts: Parts) -> Tower | str:
    """LLaVA-OneVision: an item is a tile of an image."""
    return _by_kind(parts, -1)


@tower("Mistral3ForConditionalGeneration", "mistral3")
def mistral3(parts: Parts) -> Tower | str:
    """Mistral Small 3.1 and 3.2: Pixtral, whose patches are merged by `spatial_merge_size`."""
    outer = parts.outer
    if odd := unlike(outer, projector_hidden_act=("gelu",), multimodal_projector_bias=(False,)):
        return odd
    if (parts.vision.text("model_type") or "pixtral") != "pixtral":
        return _other(parts)
    made = _pixtral(parts, -1, "vision-adapter-mistral3")
    if isinstance(made, Tower):
        _merge(made, outer)
    return made


def _merge(made: Tower, outer: Config) -> None:
    """Squares of `spatial_merge_size` patches become a token."""
    side, merge = made.side // made.patch, square(outer, "spatial_merge_size", 2, most=64)
    if side % merge and not outer.faults:
        message = f"{side} × {side} patches do not split into squares of {merge} × {merge}"
        outer.refuse("spatial_merge_size", message)
    made.merged = merge**2
    made.option("merged", made.merged, 4)
