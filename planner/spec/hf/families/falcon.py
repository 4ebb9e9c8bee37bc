"""Falcon 7B, 40B and 180B: attention and MLP side by side."""

from __future__ import annotations

from planner.spec.hf.context import longest
from planner.spec.hf.draft import Draft, widths
from planner.spec.hf.fields import Config
from planner.spec.hf.registry import architecture


@architecture("FalconForCausalLM", "falcon", "RefinedWebModel", "RefinedWeb")
def falcon(config: Config) -> Draft:
    """Falcon: one KV head unless `new_decoder_architecture`, which gives each branch a norm."""
    draft = Draft(config)
    hidden = draft.dim("hidden", "hidden_size", 4544)
    heads = draft.dim("heads", config.first("num_attention_heads", "n_head"), 71)
    new = config.flag("new_decoder_architecture", default=False)
    _kv_heads(draft, heads, new)
    widths(draft, None)
    draft.put("intermediate", config.maybe("ffn_hidden_size") or 4 * hidden, "ffn_hidden_size")
    draft.dim("vocab", "vocab_size", 65024)
    draft.max_context = longest(config, default=2048)
    draft.tied(default=True)
    config.expect("alibi", (False,), default=False, why="asks for ALiBi, which no block has")
    config.expect("bias", (False,), default=False, why="adds biases that no block has")
    config.expect("parallel_attn", (True,), default=True, why="puts the MLP behind attention")
    config.expect("activation", ("gelu",), "gelu", "is another activation")
    norms = config.maybe("num_ln_in_parallel_attn", 2 if new else 1)
    block = "decoder-falcon-two-norms" if new and norms == _BOTH else "decoder-falcon"
    layers = draft.layers(config.first("num_hidden_layers", "n_layer"), 32)
    draft.run("embedding", draft.spans(block, [None] * layers), "lm-head-layer-norm")
    return draft


_BOTH = 2


def _kv_heads(draft: Draft, heads: int, new: bool) -> None:
    config = draft.config
    key = config.first("num_kv_heads", "n_head_kv")
    if new:
        draft.dim("kv_heads", key, heads)
    elif config.flag("multi_query", default=True):
        draft.put("kv_heads", 1, "multi_query")
    else:
        draft.put("kv_heads", heads, "multi_query")
