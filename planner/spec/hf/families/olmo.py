"""OLMo 2: norms after attention and MLP, and over all of Q and of K."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.llama import Defaults, plain, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.registry import architecture

OLMO2 = Defaults(50304, 4096, 11008, 32, 32)


@architecture("Olmo2ForCausalLM", "olmo2")
def olmo2(config: Config) -> Draft:
    """OLMo 2."""
    draft = started(config, OLMO2)
    unbiased(config, "attention_bias")
    return plain(draft, "decoder-olmo2", draft.layers("num_hidden_layers", OLMO2.layers))
