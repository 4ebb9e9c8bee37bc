"""Older and smaller families: GPT-NeoX, GPT-J, Phi-2, StableLM, InternLM2, MiniCPM, SmolLM3, …"""

from __future__ import annotations

from planner.spec.hf.context import longest
from planner.spec.hf.draft import Draft, widths
from planner.spec.hf.families.gemma import GELU
from planner.spec.hf.families.llama import Defaults, plain, rotary, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use
from planner.spec.hf.registry import architecture

STABLELM = Defaults(50304, 2560, 6912, 32, 32, kv_heads=32, context=4096)
SMOLLM3 = Defaults(128256, 2048, 11008, 36, 16, kv_heads=4, context=32768, tied=True)
INTERNLM2 = Defaults(103168, 4096, 11008, 32, 32)
MINICPM = Defaults(32000, 4096, 11008, 32, 32, tied=True)
BAICHUAN = Defaults(125696, 4096, 11008, 32, 32, context=4096)


def _sized(draft: Draft, names: dict[str, str], has: Defaults) -> None:
    """Dims of a decoder whose heads all have keys of their own."""
    draft.dim("hidden", names["hidden"], has.hidden)
    heads = draft.dim("heads", names["heads"], has.heads)
    draft.put("kv_heads", heads, names["heads"])
    widths(draft, None)
    draft.dim("vocab", "vocab_size", has.vocab)


@architecture("GPTNeoXForCausalLM", "gpt_neox")
def neox(config: Config) -> Draft:
    """GPT-NeoX and Pythia."""
    draft = Draft(config)
    names = {"hidden": "hidden_size", "heads": "num_attention_heads"}
    _sized(draft, names, Defaults(50432, 6144, 24576, 44, 64))
    draft.dim("intermediate", "intermediate_size", 24576)
    draft.max_context = longest(config, default=2048)
    draft.tied(default=False)
    rotary(draft, config.number(config.first("rotary_pct", "partial_rotary_factor"), 0.25))
    config.expect("use_parallel_residual", (True,), default=True, why="puts the MLP behind")
    config.expect("hidden_act", GELU, "gelu", "is another activation")
    config.expect("attention_bias", (True,), default=True, why="takes the biases away")
    config.get("rotary_emb_base")
    layers = draft.layers("num_hidden_layers", 44)
    draft.run("embedding", draft.spans("decoder-neox", [None] * layers), "lm-head-layer-norm")
    return draft


@architecture("GPTJForCausalLM", "gptj")
def gptj(config: Config) -> Draft:
    """GPT-J: attention without biases."""
    draft = Draft(config)
    _sized(draft, {"hidden": "n_embd", "heads": "n_head"}, Defaults(50400, 4096, 16384, 28, 16))
    wide = config.maybe("n_inner") or 4 * draft.dims["hidden"]
    draft.put("intermediate", wide, "n_inner")
    draft.max_context = config.count("n_positions", 2048)
    draft.tied(default=False)
    draft.options |= {"attention_bias": False, "head_bias": True}
    draft.option("rotary", config.count("rotary_dim", 64), draft.dims["head_dim"])
    config.expect("activation_function", GELU, "gelu_new", "is another activation")
    config.get("rotary")
    config.get("tokenizer_class")
    layers = draft.layers("n_layer", 28)
    draft.run(
        "embedding", draft.spans("decoder-phi2", [None] * layers), "lm-head-layer-norm-biased"
    )
    return draft


@architecture("PhiForCausalLM", "phi")
def phi(config: Config) -> Draft:
    """Phi-1, 1.5 and 2."""
    draft = Draft(config)
    names = {"hidden": "hidden_size", "heads": "num_attention_heads"}
    _sized(draft, names, Defaults(51200, 2048, 8192, 24, 32))
    kv_heads = config.maybe("num_key_value_heads")
    if kv_heads:
        draft.put("kv_heads", kv_heads, "num_key_value_heads")
        widths(draft, None)
    draft.dim("intermediate", "intermediate_size", 8192)
    draft.max_context = longest(config, default=2048)
    draft.tied(default=False)
    rotary(draft, config.number("partial_rotary_factor", 0.5))
    config.expect("hidden_act", GELU, "gelu_new", "is another activation")
    config.expect("qk_layernorm", (False,), default=False, why="norms Q and K")
    draft.options["head_bias"] = True
    layers = draft.layers("num_hidden_layers", 24)
    draft.run(
        "embedding", draft.spans("decoder-phi2", [None] * layers), "lm-head-layer-norm-biased"
    )
    return draft


@architecture("StableLmForCausalLM", "stablelm")
def stablelm(config: Config) -> Draft:
    """StableLM: layer norms, RoPE on a quarter of a head."""
    draft = started(config, STABLELM)
    draft.option("qkv_bias", config.flag("use_qkv_bias", default=False), default=False)
    rotary(draft, config.number(config.first("partial_rotary_factor", "rope_pct"), 0.25))
    config.expect("qk_layernorm", (False,), default=False, why="norms Q and K")
    config.expect("use_parallel_residual", (False,), default=False, why="puts the MLP beside")
    config.get("norm_eps")
    layers = draft.layers("num_hidden_layers", STABLELM.layers)
    spans = draft.spans("decoder-swiglu-layer-norm", [None] * layers)
    draft.run("embedding", spans, "lm-head-layer-norm")
    return draft


@architecture("SmolLM3ForCausalLM", "smollm3")
def smollm3(config: Config) -> Draft:
    """SmolLM3: every fourth layer has no RoPE (`no_rope_layers`, where 1 is with)."""
    draft = started(config, SMOLLM3)
    unbiased(config)
    config.expect("use_sliding_window", (False,), default=False, why="gives layers a window")
    for key in ("sliding_window", "layer_types", "max_window_layers"):
        config.get(key)
    layers = draft.layers("num_hidden_layers", SMOLLM3.layers)
    every = config.count("no_rope_layer_interval", 4)
    given = config.get("no_rope_layers")
    roped = given if isinstance(given, list) else [(i + 1) % every != 0 for i in range(layers)]
    if len(roped) != layers:
        config.refuse("no_rope_layers", f"names {len(roped)} of {layers} layers")
    kinds = [
        Use("decoder-swiglu") if each else Use("decoder-swiglu-nope", "layer-nope")
        for each in roped
    ]
    draft.run("embedding", kinds, "lm-head")
    return draft


@architecture("InternLM2ForCausalLM", "internlm2")
def internlm2(config: Config) -> Draft:
    """InternLM2, whose checkpoint holds Q, K and V as one matrix."""
    draft = started(config, INTERNLM2)
    unbiased(config, "bias")
    return plain(draft, "decoder-swiglu", draft.layers("num_hidden_layers", INTERNLM2.layers))


@architecture("BaichuanForCausalLM", "baichuan")
def baichuan(config: Config) -> Draft:
    """Baichuan 7B; the 13B has ALiBi in its code, not in its config, and 40 layers or more."""
    draft = started(config, BAICHUAN)
    config.get("model_max_length")
    config.get("z_loss_weight")
    layers = draft.layers("num_hidden_layers", BAICHUAN.layers)
    if layers != BAICHUAN.layers:
        config.refuse("num_hidden_layers", "only Baichuan 7B has RoPE; ALiBi has no block")
    return plain(draft, "decoder-swiglu", layers)


@architecture("MiniCPMForCausalLM", "minicpm")
def minicpm(config: Config) -> Draft:
    """MiniCPM: scaled embeddings, residuals and logits, as Granite."""
    draft = started(config, MINICPM)
    unbiased(config)
    for key in ("scale_emb", "scale_depth", "dim_model_base"):
        config.number(key, 1.0)
    layers = draft.layers("num_hidden_layers", MINICPM.layers)
    draft.run("embedding-scaled", draft.spans("decoder-granite", [None] * layers), "lm-head-scaled")
    return draft


@architecture("DeciLMForCausalLM", "nemotron-nas")
def nemotron(config: Config) -> Draft:
    """Nemotron found by search: layers of their own widths, some without attention."""
    draft = started(config, Defaults(128256, 8192, 28672, 80, 64, kv_heads=8), mlp="")
    config.get("intermediate_size")
    blocks = config.get("block_configs")
    if config.get("num_key_value_heads") is None:
        _lend_heads(draft, blocks if isinstance(blocks, list) else [])
    layers = draft.layers("num_hidden_layers", 80)
    if not isinstance(blocks, list) or len(blocks) != layers:
        config.refuse("block_configs", f"expected one entry for each of {layers} layers")
        return draft
    group = draft.dims["heads"] // max(1, draft.dims["kv_heads"])
    kinds = [_searched(draft, block, group) for block in blocks]
    draft.run("embedding", [kind for kind in kinds if kind], "lm-head")
    return draft


def _lend_heads(draft: Draft, blocks: list[object]) -> None:
    """KV heads from the first layer that has attention."""
    for block in blocks:
        attention = block.get("attention") if isinstance(block, dict) else None
        group = attention.get("n_heads_in_group") if isinstance(attention, dict) else None
        if type(group) is int and group > 0 and draft.dims["heads"] % group == 0:
            draft.put("kv_heads", draft.dims["heads"] // group, "block_configs")
            return


def _searched(draft: Draft, block: object, group: int) -> Use | None:
    """One layer of a search: with attention, without it, or left out whole."""
    config = draft.config
    attention = block.get("attention") if isinstance(block, dict) else None
    mlp = block.get("ffn") if isinstance(block, dict) else None
    if not isinstance(attention, dict) or not isinstance(mlp, dict):
        config.refuse("block_configs", "a layer names no attention or no ffn")
        return None
    bare = attention.get("no_op") is True
    if bare and mlp.get("no_op") is True:
        return None
    given = attention.get("n_heads_in_group")
    lines = attention.get("replace_with_linear") or mlp.get("replace_with_linear")
    other = not bare and given not in (None, group)
    if mlp.get("no_op") or lines or other:
        config.refuse("block_configs", "a layer is replaced, or has no MLP or other KV heads")
        return None
    ratio = mlp.get("ffn_mult")
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio < _WIDEST:
        config.refuse("block_configs", "a layer has no ffn_mult")
        return None
    wide = -(-int(2 * ratio * draft.dims["hidden"] / 3) // 256) * 256
    name, given_width = ("mixer-swiglu", "mlp") if bare else ("decoder-swiglu", "layer")
    return Use(name, f"{given_width}-{wide}", (("intermediate", wide),))


_WIDEST = 100
