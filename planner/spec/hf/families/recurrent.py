"""Layers with a state per sequence: Mamba, Jamba, Falcon-H1, Granite 4, Qwen3-Next."""

from __future__ import annotations

import math
from collections.abc import Callable

from planner.spec.hf.draft import Draft
from planner.spec.hf.families.experts import every_layer, routed
from planner.spec.hf.families.llama import Defaults, started, unbiased
from planner.spec.hf.families.shared import without_drafts
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use
from planner.spec.hf.registry import architecture

JAMBA = Defaults(65536, 4096, 14336, 32, 32, kv_heads=8, context=262144)
FALCON_H1 = Defaults(128000, 4096, 14336, 32, 32, kv_heads=8, context=8192)
GRANITE4 = Defaults(32000, 4096, 11008, 32, 32)
QWEN3_NEXT = Defaults(151936, 2048, 5632, 48, 16, kv_heads=2, head_dim=256, context=32768)
QWEN35 = Defaults(248320, 4096, 12288, 32, 16, kv_heads=4, head_dim=256, context=32768)
_MAMBA = ("mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_chunk_size")
_SILENT = (
    "residual_in_fp32",
    "rescale_prenorm_residual",
    "time_step_floor",
    "time_step_limit",
    "time_step_max",
    "time_step_min",
    "time_step_init_scheme",
    "time_step_scale",
    "rms_norm",
    "use_mamba_kernels",
    "fused_add_norm",
)


def told(config: Config, *keys: str) -> None:
    """Fields that neither graph nor sizes depend on."""
    for key in (*_SILENT, *keys):
        config.get(key)


def kernel(draft: Draft, key: str) -> None:
    """Width of a convolution, where it is not 4."""
    draft.option("conv_kernel", draft.config.count(key, 4), 4)


def _mamba1(tied: bool, has: tuple[int, int]) -> Callable[[Config], Draft]:
    def read(config: Config) -> Draft:
        draft = Draft(config)
        hidden = draft.dim("hidden", "hidden_size", has[1])
        inner = config.maybe("intermediate_size") or config.count("expand", 2) * hidden
        draft.put("ssm_inner", inner, "intermediate_size")
        draft.dim("ssm_state", "state_size", 16)
        rank = config.get("time_step_rank")
        whole = type(rank) is int and rank > 0
        draft.put("ssm_rank", rank if whole else math.ceil(hidden / 16), "time_step_rank")
        draft.dim("vocab", "vocab_size", has[0])
        draft.tied(tied)
        config.expect("use_bias", (False,), default=False, why="adds biases that no block has")
        config.expect("use_conv_bias", (True,), default=True, why="takes a bias away")
        kernel(draft, "conv_kernel")
        told(config, "d_model", "d_inner", "n_layer", "use_falcon_mambapy", "mixer_rms_eps")
        layers = draft.layers("num_hidden_layers", 32)
        draft.run("embedding", draft.spans("mixer-mamba1", [None] * layers), "lm-head")
        return draft

    return read


architecture("MambaForCausalLM", "mamba")(_mamba1(True, (50280, 768)))
architecture("FalconMambaForCausalLM", "falcon_mamba")(_mamba1(True, (65024, 4096)))


def mamba2(draft: Draft, names: tuple[str, str, str, str, str]) -> None:
    """A Mamba-2 mixer, by its config's names for heads, head, state, groups and chunk."""
    config = draft.config
    heads, head_dim, state, groups, chunk = names
    draft.dim("ssm_heads", heads, 128)
    draft.dim("ssm_head_dim", head_dim, 64)
    draft.dim("ssm_state", state, 128)
    draft.option("ssm_groups", config.count(groups, 1), 1)
    draft.option("ssm_chunk", config.count(chunk, 256), 256)


@architecture("Mamba2ForCausalLM", "mamba2")
def plain_mamba2(config: Config) -> Draft:
    """Mamba-2."""
    draft = Draft(config)
    draft.dim("hidden", "hidden_size", 4096)
    groups = config.count("n_groups", 8)
    mamba2(draft, ("num_heads", "head_dim", "state_size", "n_groups", "chunk_size"))
    draft.option("ssm_groups", groups, 1)
    draft.dim("vocab", "vocab_size", 32768)
    draft.tied(default=False)
    config.expect("use_bias", (False,), default=False, why="adds biases that no block has")
    config.get("expand")
    config.get("use_conv_bias")
    kernel(draft, "conv_kernel")
    told(config, "norm_before_gate", "intermediate_size", "time_step_rank")
    layers = draft.layers("num_hidden_layers", 64)
    draft.run("embedding", draft.spans("mixer-mamba2", [None] * layers), "lm-head")
    return draft


@architecture("JambaForCausalLM", "jamba")
def jamba(config: Config) -> Draft:
    """Jamba: attention in one layer of some, experts in every second."""
    draft = started(config, JAMBA)
    routed(draft, "num_experts", 16, 2)
    draft.put("moe_intermediate", draft.dims["intermediate"], "intermediate_size")
    hidden = draft.dims["hidden"]
    draft.put("ssm_inner", config.count("mamba_expand", 2) * hidden, "mamba_expand")
    draft.dim("ssm_state", "mamba_d_state", 16)
    rank = config.get("mamba_dt_rank")
    whole = type(rank) is int and rank > 0
    draft.put("ssm_rank", rank if whole else math.ceil(hidden / 16), "mamba_dt_rank")
    kernel(draft, "mamba_d_conv")
    told(config, "mamba_conv_bias", "mamba_proj_bias", "mamba_inner_layernorms", "sliding_window")
    layers = draft.layers("num_hidden_layers", JAMBA.layers)
    kinds = [_jamba(config, index) for index in range(layers)]
    if ("decoder-swiglu-nope-moe", "attention-moe") in {(use.block, use.label) for use in kinds}:
        config.refuse("expert_layer_offset", "gives a layer with attention experts")
    draft.run("embedding", kinds, "lm-head")
    return draft


def _jamba(config: Config, index: int) -> Use:
    attention = index % config.count("attn_layer_period", 8) == config.count(
        "attn_layer_offset", 4, least=0
    )
    sparse = index % config.count("expert_layer_period", 2) == config.count(
        "expert_layer_offset", 1, least=0
    )
    block, label = ("decoder-swiglu-nope", "attention") if attention else _JAMBA_MAMBA
    return Use(f"{block}-moe", f"{label}-moe") if sparse else Use(block, label)


_JAMBA_MAMBA = ("decoder-jamba-mamba", "mamba")


@architecture("FalconH1ForCausalLM", "falcon_h1")
def falcon_h1(config: Config) -> Draft:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    draft = started(config, FALCON_H1)
    unbiased(config)
    mamba2(draft, _MAMBA)
    kernel(draft, "mamba_d_conv")
    told(config, "mamba_d_ssm", "mamba_expand", "mamba_conv_bias", "mamba_proj_bias")
    told(config, "mamba_rms_norm", "mamba_norm_before_gate", "mamba_use_mlp", "projectors_bias")
    told(config, "ssm_multipliers", "ssm_in_multiplier", "ssm_out_multiplier", "mlp_multipliers")
    told(config, "attention_in_multiplier", "attention_out_multiplier", "key_multiplier")
    told(config, "embedding_multiplier", "lm_head_multiplier", "mlp_expansion_factor")
    told(config, "attn_layer_indices")
    layers = draft.layers("num_hidden_layers", FALCON_H1.layers)
    draft.run("embedding", draft.spans("decoder-falcon-h1", [None] * layers), "lm-head")
    return draft


@architecture("GraniteMoeHybridForCausalLM", "granitemoehybrid")
def granite4(config: Config) -> Draft:
    """Granite 4.0-H: Mamba-2 and some attention, scaled as Granite 3; with experts or without."""
    draft = started(config, GRANITE4, mlp="")
    suffix = _granite4_experts(draft)
    unbiased(config, "attention_bias")
    config.expect("position_embedding_type", ("nope",), "nope", "adds positions")
    mamba2(draft, _MAMBA)
    kernel(draft, "mamba_d_conv")
    told(config, "mamba_expand", "mamba_conv_bias", "mamba_proj_bias", "normalization_function")
    for key in ("attention_multiplier", "embedding_multiplier", "residual_multiplier"):
        config.number(key, 1.0)
    config.number("logits_scaling", 1.0)
    layers = draft.layers("num_hidden_layers", GRANITE4.layers)
    kinds = _typed(
        config,
        layers,
        {
            "mamba": Use(f"decoder-granite4-mamba{suffix}", "mamba"),
            "attention": Use(f"decoder-granite4-attention{suffix}", "attention"),
        },
    )
    draft.run("embedding-scaled", kinds, "lm-head-scaled")
    return draft


def _granite4_experts(draft: Draft) -> str:
    """Dims of the experts, and how the blocks that have them end; without any, of the MLP."""
    config = draft.config
    if not config.count("num_local_experts", 0, least=0):
        for key in ("intermediate_size", "num_experts_per_tok", "router_aux_loss_coef"):
            config.get(key)
        draft.dim("intermediate", "shared_intermediate_size", 1024)
        return ""
    routed(draft, "num_local_experts", 8, 2)
    draft.dim("moe_intermediate", "intermediate_size", GRANITE4.intermediate)
    draft.dim("shared_intermediate", "shared_intermediate_size", 1024)
    return "-moe"


def _typed(config: Config, layers: int, known: dict[str, Use]) -> list[Use]:
    """Layers by ``layer_types``."""
    kinds = config.texts("layer_types") or (next(iter(known)),) * layers
    if len(kinds) != layers:
        config.refuse("layer_types", f"names {len(kinds)} layers where there are {layers}")
    for position, kind in enumerate(kinds):
        if kind not in known:
            message = f"layer {position} is {kind[:40]!r}; known is {' or '.join(known)}"
            config.refuse("layer_types", message)
            break
    return [known.get(kind, next(iter(known.values()))) for kind in kinds]


def _delta(draft: Draft, has: Defaults, suffix: str) -> Draft:
    """Gated DeltaNet layers with a gated attention every so often."""
    config = draft.config
    draft.dim("linear_key_heads", "linear_num_key_heads", 16)
    draft.dim("linear_key_dim", "linear_key_head_dim", 128)
    draft.dim("linear_value_heads", "linear_num_value_heads", 32)
    draft.dim("linear_value_dim", "linear_value_head_dim", 128)
    kernel(draft, "linear_conv_kernel_dim")
    share = config.number("partial_rotary_factor", 0.25)
    draft.option("rotary", int(draft.dims["head_dim"] * share), draft.dims["head_dim"] // 4)
    unbiased(config, "attention_bias")
    config.get("attn_output_gate")
    layers = draft.layers("num_hidden_layers", has.layers)
    every = config.count("full_attention_interval", 4)
    delta = Use(f"decoder-deltanet{suffix}", "delta")
    full = Use(f"decoder-gated-attention{suffix}", "attention")
    kinds = [full if (index + 1) % every == 0 else delta for index in range(layers)]
    if config.get("layer_types"):
        kinds = _typed(config, layers, {"linear_attention": delta, "full_attention": full})
    without_drafts(draft)
    told(config, "mamba_ssm_dtype", "mtp_use_dedicated_embeddings", "mtp_loss_scaling_factor")
    draft.run("embedding", kinds, "lm-head")
    return draft


@architecture("Qwen3NextForCausalLM", "qwen3_next")
def qwen3_next(config: Config) -> Draft:
    """Qwen3-Next: experts in every layer, one of them shared behind a gate."""
    draft = started(config, QWEN3_NEXT, mlp="")
    config.get("intermediate_size")
    every_layer(config)
    routed(draft, "num_experts", 512, 10)
    draft.dim("moe_intermediate", "moe_intermediate_size", 512)
    draft.dim("shared_intermediate", "shared_expert_intermediate_size", 512)
    # vLLM keeps states in the activations' format unless --mamba-ssm-cache-dtype says otherwise
    draft.options["state_format"] = "activations"
    return _delta(draft, QWEN3_NEXT, "-moe")


@architecture("Qwen3_5ForCausalLM", "qwen3_5_text")
def qwen35(config: Config) -> Draft:
    """Qwen3.5, dense."""
    return _delta(started(config, QWEN35), QWEN35, "")


@architecture("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text")
def qwen35_moe(config: Config) -> Draft:
    """Qwen3.5 with experts."""
    draft = started(config, QWEN35, mlp="")
    config.get("intermediate_size")
    routed(draft, "num_experts", 256, 8)
    draft.dim("moe_intermediate", "moe_intermediate_size", 512)
    draft.dim("shared_intermediate", "shared_expert_intermediate_size", 512)
    return _delta(draft, QWEN35, "-moe")
