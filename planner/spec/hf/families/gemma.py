"""Gemma 1, 2 and 3: heads of 256 unless said otherwise, scaled embeddings, windows."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.llama import Defaults, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import windows
from planner.spec.hf.registry import architecture

GELU = ("gelu_pytorch_tanh", "gelu", "gelu_new", "gelu_fast")
GEMMA = Defaults(256000, 3072, 24576, 28, 16, kv_heads=16, head_dim=256, context=8192, tied=True)
GEMMA2 = Defaults(256000, 2304, 9216, 26, 8, kv_heads=4, head_dim=256, context=8192, tied=True)
GEMMA3 = Defaults(262208, 2304, 9216, 26, 8, kv_heads=4, head_dim=256, context=131072, tied=True)


def _gemma(config: Config, has: Defaults) -> Draft:
    draft = started(config, has, GELU)
    unbiased(config, "attention_bias")
    config.get("query_pre_attn_scalar")  # stands in for the width of a head and costs the same
    config.get("hidden_activation")
    return draft


@architecture("GemmaForCausalLM", "gemma")
def gemma(config: Config) -> Draft:
    """Gemma 1."""
    draft = _gemma(config, GEMMA)
    layers = draft.layers("num_hidden_layers", GEMMA.layers)
    draft.run("embedding-scaled", draft.spans("decoder-geglu", [None] * layers), "lm-head")
    return draft


@architecture("Gemma2ForCausalLM", "gemma2")
def gemma2(config: Config) -> Draft:
    """Gemma 2: every second layer sees all keys; scores and logits are soft-capped."""
    draft = _gemma(config, GEMMA2)
    layers = draft.layers("num_hidden_layers", GEMMA2.layers)
    spans = windows(config, layers, config.maybe("sliding_window", 4096), every=2)
    if config.number("attn_logit_softcapping", 50.0) <= 0:
        config.refuse("attn_logit_softcapping", "the block caps its scores")
    head = "lm-head-softcap" if config.number("final_logit_softcapping", 30.0) else "lm-head"
    draft.run("embedding-scaled", draft.spans("decoder-gemma2", spans), head)
    return draft


@architecture("Gemma3ForCausalLM", "gemma3_text")
def gemma3(config: Config) -> Draft:
    """Gemma 3: every sixth layer sees all keys (`sliding_window_pattern`)."""
    draft = _gemma(config, GEMMA3)
    draft.max_context = config.count("max_position_embeddings", GEMMA3.context)
    layers = draft.layers("num_hidden_layers", GEMMA3.layers)
    every = config.count(config.first("sliding_window_pattern", "_sliding_window_pattern"), 6)
    spans = windows(config, layers, config.maybe("sliding_window", 4096), every=every)
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if config.get(key):
            config.refuse(key, "Gemma 3's block caps nothing")
    config.get("rope_local_base_freq")
    draft.run("embedding-scaled", draft.spans("decoder-gemma3", spans), "lm-head")
    return draft
