"""Qwen2, Qwen2.5 and Qwen3, dense, and the text models of Qwen2-VL and Qwen2.5-VL."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.llama import QWEN2, Defaults, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use, windows
from planner.spec.hf.registry import architecture

QWEN3 = Defaults(151936, 4096, 22016, 32, 32, kv_heads=32, head_dim=128, context=32768)


def _layers(draft: Draft, block: str) -> list[Use]:
    """Layers from ``max_window_layers`` on have the window, where ``use_sliding_window`` is set."""
    config = draft.config
    layers = draft.layers("num_hidden_layers", QWEN2.layers)
    used = config.flag("use_sliding_window", default=False)
    window = config.count("sliding_window", 4096)
    first = config.count("max_window_layers", 28, least=0)
    kept = window if used else None
    return draft.spans(block, windows(config, layers, kept, every=None, first_full=first))


@architecture("Qwen2ForCausalLM", "qwen2")
def qwen2(config: Config) -> Draft:
    """Qwen2 and Qwen2.5: Q, K and V always have biases."""
    draft = started(config, QWEN2)
    draft.options["qkv_bias"] = True
    draft.run("embedding", _layers(draft, "decoder-swiglu"), "lm-head")
    return draft


@architecture("Qwen2VLForConditionalGeneration", "qwen2_vl", "qwen2_vl_text")
@architecture("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", "qwen2_5_vl_text")
def qwen2_vl(config: Config) -> Draft:
    """Qwen2-VL and Qwen2.5-VL: the text model, whose config may hold the tower's beside it."""
    draft = qwen2(config)
    config.get("vision_config")
    for key in ("vision_start_token_id", "vision_end_token_id", "vision_token_id"):
        config.get(key)
    for key in ("image_token_id", "video_token_id"):
        config.get(key)
    return draft


@architecture("Qwen3VLForConditionalGeneration", "qwen3_vl_text")
@architecture("Qwen3ForCausalLM", "qwen3")
def qwen3(config: Config) -> Draft:
    """Qwen3: a norm on each head of Q and K, no biases, and heads of 128 unless said otherwise."""
    draft = started(config, QWEN3)
    unbiased(config, "attention_bias")
    draft.run("embedding", _layers(draft, "decoder-swiglu-qknorm"), "lm-head")
    return draft
