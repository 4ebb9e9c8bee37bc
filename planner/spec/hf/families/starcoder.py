"""StarCoder2: layer norms, biases and an MLP without a gate."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.gemma import GELU
from planner.spec.hf.families.llama import Defaults, started
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import windows
from planner.spec.hf.registry import architecture

STARCODER2 = Defaults(49152, 3072, 12288, 30, 24, kv_heads=2, context=4096, tied=True)


@architecture("Starcoder2ForCausalLM", "starcoder2")
def starcoder2(config: Config) -> Draft:
    """StarCoder2: every layer has the window."""
    draft = started(config, STARCODER2, GELU)
    config.expect("use_bias", (True,), default=True, why="takes the biases away")
    config.expect("mlp_type", ("default",), default="default", why="is another MLP")
    config.expect("norm_type", ("layer_norm",), default="layer_norm", why="is another norm")
    layers = draft.layers("num_hidden_layers", STARCODER2.layers)
    spans = windows(config, layers, config.maybe("sliding_window"), every=None)
    draft.run("embedding", draft.spans("decoder-starcoder2", spans), "lm-head-layer-norm")
    return draft
