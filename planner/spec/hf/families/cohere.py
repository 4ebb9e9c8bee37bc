"""Cohere's Command R, R7B and A: attention and MLP side by side, layer norms without bias."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.llama import Defaults, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use, windows
from planner.spec.hf.registry import architecture

COHERE = Defaults(256000, 8192, 22528, 40, 64, context=8192, tied=True)
"""The LM head is the embedding, which its block has as its default."""


def _cohere(config: Config) -> Draft:
    draft = started(config, COHERE)
    unbiased(config, "attention_bias")
    config.number("logit_scale", 0.0625)
    trained = config.maybe("model_max_length")
    draft.max_context = trained or draft.max_context
    draft.options["tied"] = draft.options.get("tied", False)
    return draft


@architecture("CohereForCausalLM", "cohere")
def cohere(config: Config) -> Draft:
    """Command R."""
    draft = _cohere(config)
    normed = config.flag("use_qk_norm", default=False)
    block = "decoder-cohere-qknorm" if normed else "decoder-cohere"
    layers = draft.layers("num_hidden_layers", COHERE.layers)
    draft.run("embedding", draft.spans(block, [None] * layers), "lm-head-cohere")
    return draft


@architecture("Cohere2ForCausalLM", "cohere2")
def cohere2(config: Config) -> Draft:
    """Command R7B and A: every fourth layer sees all keys and has no RoPE."""
    draft = _cohere(config)
    for key in ("order_of_interleaved_layers", "position_embedding_type", "rotary_pct"):
        config.get(key)
    for key in ("use_gated_activation", "use_parallel_block", "use_parallel_embedding"):
        config.get(key)
    layers = draft.layers("num_hidden_layers", COHERE.layers)
    every = config.count(config.first("sliding_window_pattern", "layer_switch"), 4)
    window = config.count("sliding_window", 4096)
    spans = windows(config, layers, window, every=every)
    draft.run("embedding", [_layer(span) for span in spans], "lm-head-cohere")
    return draft


def _layer(span: int | None) -> Use:
    if span is None:
        return Use("decoder-cohere-nope", "global")
    return Use("decoder-cohere", "local", (("window", span),))
