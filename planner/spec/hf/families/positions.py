"""Decoders with learned positions: GPT-2 and OPT."""

from __future__ import annotations

from planner.spec.hf.draft import Draft, widths
from planner.spec.hf.families.gemma import GELU
from planner.spec.hf.fields import Config
from planner.spec.hf.registry import architecture


def _placed(draft: Draft, block: str, layers: int) -> Draft:
    draft.inputs = {"token_ids": ["tokens"], "position_ids": ["tokens"]}
    draft.run("embedding-positions", draft.spans(block, [None] * layers), "lm-head-layer-norm")
    return draft


@architecture("GPT2LMHeadModel", "gpt2")
def gpt2(config: Config) -> Draft:
    """GPT-2, whose MLP is four times as wide as the model unless `n_inner` says otherwise."""
    draft = Draft(config)
    hidden = draft.dim("hidden", "n_embd", 768)
    heads = draft.dim("heads", "n_head", 12)
    draft.put("kv_heads", heads, "n_head")
    widths(draft, None)
    draft.put("intermediate", config.maybe("n_inner") or 4 * hidden, "n_inner")
    draft.dim("vocab", "vocab_size", 50257)
    draft.max_context = draft.dim("positions", "n_positions", 1024)
    config.get("n_ctx")
    draft.tied(default=True)
    config.expect("activation_function", GELU, "gelu_new", "is another activation")
    return _placed(draft, "decoder-gpt2", draft.layers("n_layer", 12))


@architecture("OPTForCausalLM", "opt")
def opt(config: Config) -> Draft:
    """OPT, whose position table has two rows more than there are positions: ids start at 2."""
    draft = Draft(config)
    hidden = draft.dim("hidden", "hidden_size", 768)
    heads = draft.dim("heads", "num_attention_heads", 12)
    draft.put("kv_heads", heads, "num_attention_heads")
    widths(draft, None)
    draft.dim("intermediate", "ffn_dim", 3072)
    draft.dim("vocab", "vocab_size", 50272)
    draft.max_context = config.count("max_position_embeddings", 2048)
    draft.put("positions", draft.max_context + 2, "max_position_embeddings")
    draft.tied(default=True)
    config.expect("activation_function", ("relu",), "relu", "is another activation")
    config.expect("do_layer_norm_before", (True,), default=True, why="puts the norm behind")
    config.expect("enable_bias", (True,), default=True, why="takes the biases away")
    config.expect("layer_norm_elementwise_affine", (True,), default=True, why="takes weights away")
    config.expect("_remove_final_layer_norm", (False,), default=False, why="drops the last norm")
    config.expect("word_embed_proj_dim", (hidden,), hidden, "projects the embedding")
    return _placed(draft, "decoder-opt", draft.layers("num_hidden_layers", 12))
