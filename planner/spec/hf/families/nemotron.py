"""Nemotron-H, Nano 2 and 3: one mixer a layer, Mamba-2, attention, MLP or experts."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.experts import routed
from planner.spec.hf.families.llama import Defaults, unbiased
from planner.spec.hf.families.recurrent import kernel, mamba2, told
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use
from planner.spec.hf.registry import architecture

NEMOTRON_H = Defaults(131072, 4096, 21504, 52, 32, kv_heads=8, head_dim=128, context=4096)
_MAMBA = ("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "chunk_size")
_MIXERS = {
    "M": Use("mixer-mamba2", "mamba"),
    "-": Use("mixer-relu2", "mlp"),
    "*": Use("mixer-attention", "attention"),
    "E": Use("mixer-moe-relu2", "experts"),
}


@architecture("NemotronHForCausalLM", "nemotron_h")
def nemotron_h(config: Config) -> Draft:
    """Nemotron-H, Nano 2 and Nano 3: one mixer a layer, by `hybrid_override_pattern`."""
    draft = Draft(config)
    pattern = config.text("hybrid_override_pattern") or "M-M-M-M*-"
    _dims(draft, pattern)
    unbiased(config, "attention_bias", "mlp_bias", "use_bias")
    config.expect("mlp_hidden_act", ("relu2",), "relu2", "is another activation")
    told(config, "mamba_hidden_act", "mamba_proj_bias", "use_conv_bias", "expand")
    told(config, "mamba_dt_rank", "num_logits_to_keep", "mamba_ssm_cache_dtype", "sliding_window")
    draft.layers("num_hidden_layers", len(pattern))
    draft.places["sequence",] = config.place("hybrid_override_pattern")
    if odd := set(pattern) - _MIXERS.keys():
        config.refuse("hybrid_override_pattern", f"{min(odd)!r} is no mixer known here", "M - * E")
    draft.run("embedding", [_MIXERS.get(kind, _MIXERS["M"]) for kind in pattern], "lm-head")
    return draft


def _dims(draft: Draft, pattern: str) -> None:
    """Dims of the mixers that the pattern has."""
    config, has = draft.config, NEMOTRON_H
    draft.dim("hidden", "hidden_size", has.hidden)
    draft.dim("heads", "num_attention_heads", has.heads)
    draft.dim("kv_heads", "num_key_value_heads", 8)
    draft.dim("head_dim", config.first("head_dim", "attention_head_dim"), 128)
    draft.dim("vocab", "vocab_size", has.vocab)
    draft.max_context = config.count("max_position_embeddings", has.context)
    draft.tied(default=False)
    groups = config.count("n_groups", 8)
    mamba2(draft, _MAMBA)
    draft.option("ssm_groups", groups, 1)
    kernel(draft, "conv_kernel")
    config.get("intermediate_size")
    if "-" in pattern:
        draft.dim("intermediate", "intermediate_size", has.intermediate)
    if "E" in pattern:
        _experts(draft)


def _experts(draft: Draft) -> None:
    """Routed experts, and shared ones as one MLP of their joint width."""
    config = draft.config
    routed(draft, "n_routed_experts", 8, 2)
    draft.dim("moe_intermediate", "moe_intermediate_size", 7688)
    wide = config.count("moe_shared_expert_intermediate_size", 7688)
    shared = config.count("n_shared_experts", 1)
    draft.put("shared_intermediate", shared * wide, "moe_shared_expert_intermediate_size")
    config.expect("moe_latent_size", (None,), None, "squeezes what its experts read")
    for key in ("n_group", "topk_group"):
        config.expect(key, (1,), 1, "chooses groups of experts first")
