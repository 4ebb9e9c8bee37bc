"""Routed and shared experts behind some dense layers: DeepSeekMoE, GLM-4.5, ERNIE 4.5, Llama 4."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.experts import routed
from planner.spec.hf.families.llama import Defaults, rotary, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use
from planner.spec.hf.registry import architecture

DEEPSEEK = Defaults(102400, 4096, 11008, 30, 32, kv_heads=32)
GLM = Defaults(151552, 4096, 10944, 46, 96, kv_heads=8, context=131072)
ERNIE = Defaults(103424, 2560, 12288, 28, 20, kv_heads=4, context=131072, tied=True)
LLAMA4 = Defaults(202048, 5120, 8192, 48, 40, kv_heads=8, head_dim=128, context=131072)


def without_drafts(draft: Draft) -> None:
    """Note a checkpoint's layers that predict further tokens, which are no part of the model."""
    key = draft.config.first("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
    if draft.config.count(key, 0, least=0):
        draft.notes.append(f"without the layers of multi-token prediction ({key})")


def widths(draft: Draft, count: int) -> None:
    """Shared experts are one MLP of their joint width."""
    draft.put("shared_intermediate", count * draft.dims["moe_intermediate"], "n_shared_experts")


def stacked(draft: Draft, dense: Use, sparse: Use, first: int, layers: int) -> Draft:
    """``first`` layers without experts ahead of those with."""
    if first > layers:
        draft.config.refuse("first_k_dense_replace", f"{first} of {layers} layers")
        first = layers
    if first == 0:
        draft.dims.pop("intermediate", None)
    draft.run("embedding", [dense] * first + [sparse] * (layers - first), "lm-head")
    return draft


@architecture("DeepseekForCausalLM", "deepseek")
def deepseek(config: Config) -> Draft:
    """DeepSeekMoE 16B."""
    draft = started(config, DEEPSEEK)
    unbiased(config, "attention_bias")
    config.expect("moe_layer_freq", (1,), 1, "leaves layers without experts")
    config.expect("scoring_func", ("softmax",), "softmax", "is another router")
    routed(draft, "n_routed_experts", 64, 6)
    draft.dim("moe_intermediate", "moe_intermediate_size", 1407)
    widths(draft, config.count("n_shared_experts", 2))
    first = config.count("first_k_dense_replace", 0, least=0)
    layers = draft.layers("num_hidden_layers", DEEPSEEK.layers)
    return stacked(draft, Use("decoder-swiglu", "dense"), Use("decoder-moe-shared"), first, layers)


@architecture("Glm4vMoeForConditionalGeneration", "glm4v_moe_text")
@architecture("Glm4MoeForCausalLM", "glm4_moe")
def glm(config: Config) -> Draft:
    """GLM-4.5, 4.6 and 4.7, with a norm on Q and K or without."""
    draft = started(config, GLM)
    draft.option("qkv_bias", config.flag("attention_bias", default=False), default=False)
    rotary(draft, config.number("partial_rotary_factor", 0.5))
    routed(draft, "n_routed_experts", 128, 8)
    for key in ("n_group", "topk_group"):
        config.expect(key, (1,), 1, "compares groups of experts first")
    draft.dim("moe_intermediate", "moe_intermediate_size", 1408)
    widths(draft, config.count("n_shared_experts", 1))
    draft.options |= {"score": "sigmoid", "router_bias": True}
    first = config.count("first_k_dense_replace", 1, least=0)
    layers = draft.layers("num_hidden_layers", GLM.layers)
    without_drafts(draft)
    normed = config.flag("use_qk_norm", default=False)
    dense = "decoder-swiglu-qknorm-biased" if normed else "decoder-swiglu"
    sparse = "decoder-moe-shared-qknorm" if normed else "decoder-moe-shared"
    return stacked(draft, Use(dense, "dense"), Use(sparse), first, layers)


@architecture("Ernie4_5_MoeForCausalLM", "ernie4_5_moe")
def ernie(config: Config) -> Draft:
    """ERNIE 4.5 with experts, with shared ones (21B) or without (300B)."""
    draft = started(config, ERNIE)
    config.expect("use_bias", (False,), default=False, why="adds biases that no block has")
    config.expect("moe_layer_interval", (1,), 1, "leaves layers without experts")
    for key in (
        "moe_layer_end_index",
        "moe_capacity",
        "moe_gate",
        "moe_use_aux_free",
        "moe_norm_min",
    ):
        config.get(key)
    draft.dim("experts", "moe_num_experts", 64)
    draft.dim("top_k", "moe_k", 6)
    draft.dim("moe_intermediate", "moe_intermediate_size", 1536)
    shared = config.count("moe_num_shared_experts", 2, least=0)
    if shared:
        width = shared * draft.dims["moe_intermediate"]
        draft.put("shared_intermediate", width, "moe_num_shared_experts")
    draft.options |= {"router_bias": True, "router_fp32": True}
    first = config.count("moe_layer_start_index", 1, least=0)
    layers = draft.layers("num_hidden_layers", ERNIE.layers)
    without_drafts(draft)
    sparse = Use("decoder-moe-shared" if shared else "decoder-moe")
    return stacked(draft, Use("decoder-swiglu", "dense"), sparse, first, layers)


@architecture("Llama4ForCausalLM", "llama4_text")
def llama4(config: Config) -> Draft:
    """Llama 4: every fourth layer sees all keys without RoPE, the others look within a chunk."""
    draft = started(config, LLAMA4, mlp="moe_intermediate")
    unbiased(config, "attention_bias")
    routed(draft, "num_local_experts", 16, 1)
    draft.put("shared_intermediate", draft.dims["moe_intermediate"], "intermediate_size")
    normed = config.flag("use_qk_norm", default=True)
    config.expect("attention_chunk_size", (8192,), 8192, "is another chunk")
    for key in ("attn_scale", "attn_temperature_tuning", "floor_scale", "for_llm_compressor"):
        config.get(key)
    layers = draft.layers("num_hidden_layers", LLAMA4.layers)
    roped = _roped(config, layers)
    step = config.count("interleave_moe_layer_step", 1)
    dense = [(index + 1) % step != 0 for index in range(layers)]
    if any(dense):
        draft.dim("intermediate", "intermediate_size_mlp", 16384)
    for index in range(layers):
        if dense[index] and (normed or not roped[index]):
            config.refuse("interleave_moe_layer_step", "asks for a dense layer that no block is")
            break
    kinds = [_kind(*each, normed=normed) for each in zip(dense, roped, strict=True)]
    draft.run("embedding", kinds, "lm-head")
    return draft


def _roped(config: Config, layers: int) -> list[bool]:
    every = config.count("no_rope_layer_interval", 4)
    config.get("layer_types")
    config.get("moe_layers")
    given = config.get("no_rope_layers")
    if isinstance(given, list) and given:
        if len(given) != layers:
            config.refuse("no_rope_layers", f"names {len(given)} of {layers} layers")
        return [bool(each) for each in (given * layers)[:layers]]
    return [(index + 1) % every != 0 for index in range(layers)]


def _kind(dense: bool, roped: bool, *, normed: bool) -> Use:
    if not roped:
        return Use("decoder-llama4-moe-nope", "global")
    if dense:
        return Use("decoder-llama4-dense", "dense-chunked")
    return Use("decoder-llama4-moe" if normed else "decoder-llama4-moe-chunked", "chunked")
