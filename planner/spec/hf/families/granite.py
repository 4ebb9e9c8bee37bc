"""Granite 3, dense: scales on the embedding, the residuals, the scores and the logits."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.llama import LLAMA, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.registry import architecture


@architecture("GraniteForCausalLM", "granite")
def granite(config: Config) -> Draft:
    """Granite 3. The multipliers' values cost nothing; that they are there does."""
    draft = started(config, LLAMA)
    unbiased(config)
    for key in ("attention_multiplier", "embedding_multiplier", "residual_multiplier"):
        config.number(key, 1.0)
    config.number("logits_scaling", 1.0)
    layers = draft.layers("num_hidden_layers", LLAMA.layers)
    spans = draft.spans("decoder-granite", [None] * layers)
    draft.run("embedding-scaled", spans, "lm-head-scaled")
    return draft
