"""Gemma 4: heads of another number and width where a layer sees all keys, experts beside a MLP."""

from __future__ import annotations

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.gemma import GELU
from planner.spec.hf.families.llama import Defaults, started, unbiased
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use, windows
from planner.spec.hf.registry import architecture
from planner.spec.types import Scalar

GEMMA4 = Defaults(262144, 2304, 9216, 30, 8, kv_heads=4, head_dim=256, context=131072, tied=True)
_SILENT = (
    "final_logit_softcapping",
    "use_bidirectional_attention",
    "use_double_wide_mlp",
    "vocab_size_per_layer_input",
)
"""Fields that neither graph nor sizes depend on, where no KV is shared between layers."""


@architecture("Gemma4ForCausalLM", "gemma4_text", "gemma4_unified_text")
def gemma4(config: Config) -> Draft:
    """Gemma 4 12B, 26B-A4B and 31B; E2B and E4B add to each layer and share KV."""
    draft = started(config, GEMMA4, GELU)
    unbiased(config, "attention_bias")
    draft.max_context = config.count("max_position_embeddings", GEMMA4.context)
    for key in ("num_kv_shared_layers", "hidden_size_per_layer_input"):
        config.expect(key, (0, None), 0, "is of the small Gemma 4, whose layers no block has")
    same = config.flag("attention_k_eq_v", default=False)
    if not same:
        config.refuse("attention_k_eq_v", "layers that see all keys have no v_proj in these blocks")
    for key in _SILENT:
        config.get(key)
    block = "decoder-gemma4-moe" if _experts(draft) else "decoder-gemma4"
    layers = draft.layers("num_hidden_layers", GEMMA4.layers)
    spans = windows(config, layers, config.maybe("sliding_window", 512), every=6)
    whole = Use(f"{block}-global", "global", _wide(draft))
    kinds = [Use(block, "local", (("window", span),)) if span else whole for span in spans]
    draft.run("embedding-scaled", kinds, "lm-head-softcap")
    return draft


def _experts(draft: Draft) -> bool:
    """Dims of routed experts, where there are any."""
    config = draft.config
    if not config.flag("enable_moe_block", default=False):
        for key in ("num_experts", "top_k_experts", "moe_intermediate_size"):
            config.get(key)
        return False
    count = draft.dim("experts", "num_experts", 128)
    if draft.dim("top_k", "top_k_experts", 8) > count:
        config.refuse("top_k_experts", f"a token cannot go to more than {count} experts")
    draft.dim("moe_intermediate", "moe_intermediate_size", 704)
    return True


def _wide(draft: Draft) -> tuple[tuple[str, Scalar], ...]:
    """KV heads and width of a head of the layers that see all keys."""
    config, heads = draft.config, draft.dims["heads"]
    kv_heads = config.maybe("num_global_key_value_heads") or draft.dims["kv_heads"]
    if heads % kv_heads and not config.faults:
        config.refuse(
            "num_global_key_value_heads",
            f"{kv_heads} KV heads cannot serve {heads} query heads evenly",
        )
    return (("kv_heads", kv_heads), ("head_dim", config.count("global_head_dim", 512)))
