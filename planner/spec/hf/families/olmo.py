"""OLMo 2 and 3: norms after attention and MLP, and over all of Q and of K."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.llama import Defaults, plain, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import windows
from planner.spec.hf.registry import architecture

OLMO2 = Defaults(50304, 4096, 11008, 32, 32)


@architecture("Olmo2ForCausalLM", "olmo2")
def olmo2(config: Config) -> Draft:
    """OLMo 2."""
    draft = started(config, OLMO2)
    unbiased(config, "attention_bias")
    return plain(draft, "decoder-olmo2", draft.layers("num_hidden_layers", OLMO2.layers))


@architecture("Olmo3ForCausalLM", "olmo3")
def olmo3(config: Config) -> Draft:
    """OLMo 3: every fourth layer sees all keys."""
    draft = started(config, OLMO3)
    unbiased(config, "attention_bias")
    layers = draft.layers("num_hidden_layers", OLMO3.layers)
    spans = windows(config, layers, config.count("sliding_window", 4096), every=4)
    draft.run("embedding", draft.spans("decoder-olmo2", spans), "lm-head")
    return draft


OLMO3 = Defaults(50304, 4096, 11008, 32, 32, context=65536)
