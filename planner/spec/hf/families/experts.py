"""Routed experts with grouped-query attention: Mixtral, Qwen, OLMoE, Phi, Granite, gpt-oss, …"""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.llama import Defaults, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import windows
from planner.spec.hf.registry import architecture

MIXTRAL = Defaults(32000, 4096, 14336, 32, 32, kv_heads=8, context=131072)
QWEN2 = Defaults(151936, 2048, 5632, 24, 16, kv_heads=16, context=32768)
QWEN3 = Defaults(151936, 2048, 6144, 24, 32, kv_heads=4, context=32768)
OLMOE = Defaults(50304, 2048, 2048, 16, 16, context=4096)
PHI = Defaults(32064, 4096, 6400, 32, 32, kv_heads=8, context=131072)
GRANITE = Defaults(32000, 4096, 11008, 32, 32)
GPT_OSS = Defaults(201088, 2880, 2880, 36, 64, kv_heads=8, head_dim=64, context=131072)
MINIMAX = Defaults(200064, 3072, 1536, 62, 48, kv_heads=8, head_dim=128, context=196608)


def routed(draft: Draft, experts: str, experts_default: int, top_k: int) -> None:
    """How many experts there are, and how many a token goes to."""
    count = draft.dim("experts", experts, experts_default)
    chosen = draft.dim("top_k", "num_experts_per_tok", top_k)
    if chosen > count:
        message = f"a token cannot go to {chosen} of {count} experts"
        draft.config.refuse("num_experts_per_tok", message)
    for key in ("norm_topk_prob", "router_aux_loss_coef", "output_router_logits"):
        draft.config.get(key)
    for key in ("router_jitter_noise", "aux_loss_alpha", "seq_aux", "routed_scaling_factor"):
        draft.config.get(key)


def every_layer(config: Config) -> None:
    """Refuse layers without experts among those with."""
    config.expect("decoder_sparse_step", (1,), 1, "leaves layers without experts")
    config.expect("mlp_only_layers", ([],), [], "leaves layers without experts")


def alike(draft: Draft, block: str, layers: int, head: str = "lm-head") -> Draft:
    """Layers with one window, or none."""
    spans = windows(draft.config, layers, draft.config.maybe("sliding_window"), every=None)
    draft.run("embedding", draft.spans(block, spans), head)
    return draft


@architecture("MixtralForCausalLM", "mixtral")
def mixtral(config: Config) -> Draft:
    """Mixtral."""
    draft = started(config, MIXTRAL, mlp="moe_intermediate")
    routed(draft, "num_local_experts", 8, 2)
    return alike(draft, "decoder-moe", draft.layers("num_hidden_layers", MIXTRAL.layers))


def _unwindowed(draft: Draft, block: str, layers: int) -> Draft:
    """Qwen's, whose window counts only where it is asked for."""
    config = draft.config
    config.expect("use_sliding_window", (False,), default=False, why="gives some layers a window")
    config.get("sliding_window")
    config.get("max_window_layers")
    draft.run("embedding", draft.spans(block, [None] * layers), "lm-head")
    return draft


@architecture("Qwen2MoeForCausalLM", "qwen2_moe")
def qwen2(config: Config) -> Draft:
    """Qwen1.5-MoE and Qwen2-MoE: a shared expert behind a gate, biases on Q, K and V."""
    draft = started(config, QWEN2, mlp="")
    config.get("intermediate_size")
    every_layer(config)
    routed(draft, "num_experts", 60, 4)
    draft.dim("moe_intermediate", "moe_intermediate_size", 1408)
    draft.dim("shared_intermediate", "shared_expert_intermediate_size", 5632)
    draft.option("qkv_bias", config.flag("qkv_bias", default=True), default=False)
    layers = draft.layers("num_hidden_layers", QWEN2.layers)
    return _unwindowed(draft, "decoder-moe-shared-gated", layers)


@architecture("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text")
@architecture("Qwen3MoeForCausalLM", "qwen3_moe")
def qwen3(config: Config) -> Draft:
    """Qwen3 with experts: a norm on each head of Q and K."""
    draft = started(config, QWEN3, mlp="")
    config.get("intermediate_size")
    unbiased(config, "attention_bias")
    every_layer(config)
    routed(draft, "num_experts", 128, 8)
    draft.dim("moe_intermediate", "moe_intermediate_size", 768)
    layers = draft.layers("num_hidden_layers", QWEN3.layers)
    return _unwindowed(draft, "decoder-moe-qknorm", layers)


@architecture("OlmoeForCausalLM", "olmoe")
def olmoe(config: Config) -> Draft:
    """OLMoE: a norm over all of Q and of K."""
    draft = started(config, OLMOE, mlp="moe_intermediate")
    unbiased(config, "attention_bias")
    config.expect("clip_qkv", (), None, "clips Q, K and V") if config.get("clip_qkv") else None
    routed(draft, "num_experts", 64, 8)
    layers = draft.layers("num_hidden_layers", OLMOE.layers)
    return alike(draft, "decoder-moe-qknorm-whole", layers)


@architecture("PhiMoEForCausalLM")
@architecture("PhimoeForCausalLM", "phimoe")
def phi(config: Config) -> Draft:
    """Phi-3.5-MoE: layer norms."""
    draft = started(config, PHI, mlp="moe_intermediate")
    routed(draft, "num_local_experts", 16, 2)
    draft.option("attention_bias", config.flag("attention_bias", default=False), default=False)
    draft.option("head_bias", config.flag("lm_head_bias", default=False), default=False)
    config.get("input_jitter_noise")
    layers = draft.layers("num_hidden_layers", PHI.layers)
    return alike(draft, "decoder-moe-layer-norm", layers, "lm-head-layer-norm-biased")


@architecture("GraniteMoeForCausalLM", "granitemoe")
def granite(config: Config) -> Draft:
    """Granite 3 with experts: scales as in the dense ones."""
    draft = started(config, GRANITE, mlp="moe_intermediate")
    unbiased(config, "attention_bias")
    routed(draft, "num_local_experts", 8, 2)
    for key in ("attention_multiplier", "embedding_multiplier", "residual_multiplier"):
        config.number(key, 1.0)
    config.number("logits_scaling", 1.0)
    layers = draft.layers("num_hidden_layers", GRANITE.layers)
    spans = draft.spans("decoder-moe-granite", [None] * layers)
    draft.run("embedding-scaled", spans, "lm-head-scaled")
    return draft


@architecture("GptOssForCausalLM", "gpt_oss")
def gpt_oss(config: Config) -> Draft:
    """gpt-oss: attention sinks, biases everywhere, a window in every second layer."""
    draft = started(config, GPT_OSS, mlp="moe_intermediate")
    config.expect("attention_bias", (True,), default=True, why="takes the biases away")
    routed(draft, "num_local_experts", 128, 4)
    for key in ("experts_per_token", "swiglu_limit", "initial_context_length"):
        config.get(key)
    layers = draft.layers("num_hidden_layers", GPT_OSS.layers)
    spans = windows(config, layers, config.count("sliding_window", 128), every=2)
    draft.run("embedding", draft.spans("decoder-gpt-oss", spans), "lm-head")
    return draft


@architecture("MiniMaxM2ForCausalLM", "minimax_m2", "minimax")
def minimax(config: Config) -> Draft:
    """MiniMax-M2: a norm over all of Q and of K, RoPE on half a head, a sigmoid router."""
    draft = started(config, MINIMAX, mlp="moe_intermediate")
    routed(draft, "num_local_experts", 256, 8)
    for key in ("use_qk_norm", "use_routing_bias"):
        config.expect(key, (True,), default=True, why="takes away what the block has")
    config.expect("scoring_func", ("sigmoid",), "sigmoid", "is another router")
    config.expect("shared_intermediate_size", (0,), 0, "adds shared experts")
    kinds = config.get("attn_type_list") or [1]
    if not isinstance(kinds, list) or set(map(str, kinds)) != {"1"}:
        config.refuse("attn_type_list", "gives some layers another attention")
    draft.option("rotary", config.count("rotary_dim", 64), draft.dims["head_dim"])
    draft.options |= {"score": "sigmoid", "router_bias": True}
    for key in ("qk_norm_type", "use_mtp", "num_mtp_modules", "mtp_transformer_layers"):
        config.get(key)
    layers = draft.layers("num_hidden_layers", MINIMAX.layers)
    return alike(draft, "decoder-moe-qknorm-ranks", layers)


@architecture("DbrxForCausalLM", "dbrx")
def dbrx(config: Config) -> Draft:
    """DBRX: its sizes stand in `attn_config` and `ffn_config`."""
    draft = Draft(config)
    draft.dim("hidden", "d_model", 2048)
    heads = draft.dim("heads", "n_heads", 16)
    inner, experts = config.inside("attn_config"), config.inside("ffn_config")
    none = Config({}, config.document, config.path, config.faults)
    inner, experts = inner or none, experts or none
    draft.put("kv_heads", inner.count("kv_n_heads", 1), "attn_config")
    draft.put("head_dim", max(1, draft.dims["hidden"] // heads), "d_model")
    draft.put("experts", experts.count("moe_num_experts", 4), "ffn_config")
    draft.put("top_k", experts.count("moe_top_k", 1), "ffn_config")
    draft.put("moe_intermediate", experts.count("ffn_hidden_size", 3584), "ffn_config")
    draft.dim("vocab", "vocab_size", 32000)
    draft.max_context = config.count("max_seq_len", 2048)
    draft.tied(default=False)
    draft.options["norm_bias"] = False
    layers = draft.layers("n_layers", 24)
    spans = draft.spans("decoder-moe-layer-norm", [None] * layers)
    draft.run("embedding", spans, "lm-head-layer-norm-biased")
    return draft
