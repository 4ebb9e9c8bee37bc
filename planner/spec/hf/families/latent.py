"""Latent attention: DeepSeek V2, V3 and V3.2, Kimi K2, GLM-4.7-Flash and GLM-5, MiniCPM3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.spec.hf.context import longest
from planner.spec.hf.draft import Draft
from planner.spec.hf.families.experts import routed
from planner.spec.hf.families.llama import SILU, unbiased
from planner.spec.hf.families.shared import stacked, without_drafts
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import Use
from planner.spec.hf.registry import architecture


@dataclass(frozen=True)
class Latent:
    """What a class of transformers has where its config says nothing."""

    vocab: int
    hidden: int
    intermediate: int
    moe_intermediate: int
    layers: int
    heads: int
    q_lora: int | None
    experts: int
    top_k: int
    shared: int
    dense: int
    groups: tuple[int, int]
    score: str
    nope: int = 128
    v_dim: int = 128
    sparse: bool = False
    """Whether an indexer chooses the keys."""


V2 = Latent(102400, 4096, 11008, 1407, 30, 32, 1536, 64, 6, 2, 0, (1, 1), "softmax")
V3 = Latent(129280, 7168, 18432, 2048, 61, 128, 1536, 256, 8, 1, 3, (8, 4), "sigmoid")
V32 = Latent(129280, 7168, 18432, 2048, 61, 128, 1536, 256, 8, 1, 3, (8, 4), "sigmoid", sparse=True)
GLM_FLASH = Latent(
    154880, 2048, 10240, 1536, 47, 20, 768, 64, 4, 1, 1, (1, 1), "sigmoid", nope=192, v_dim=256
)
GLM_5 = Latent(
    154880, 6144, 12288, 2048, 78, 64, 2048, 256, 8, 1, 3, (1, 1), "sigmoid", 192, 256, sparse=True
)


def attention(draft: Draft, has: Latent) -> bool:
    """Dims of latent attention; whether queries go through a latent too."""
    config = draft.config
    draft.dim("heads", "num_attention_heads", has.heads)
    key = "q_lora_rank"
    q_lora = config.maybe(key) if key in config.data else has.q_lora
    if q_lora:
        draft.put("q_lora", q_lora, key)
    draft.dim("kv_lora", "kv_lora_rank", 512)
    draft.dim("qk_nope", "qk_nope_head_dim", has.nope)
    draft.dim("qk_rope", "qk_rope_head_dim", 64)
    draft.dim("v_dim", "v_head_dim", has.v_dim)
    for name in ("num_key_value_heads", "head_dim", "qk_head_dim", "rope_interleave"):
        config.get(name)
    unbiased(config, "attention_bias")
    return bool(q_lora)


def _sized(draft: Draft, vocab: int, hidden: int, intermediate: int) -> None:
    draft.dim("hidden", "hidden_size", hidden)
    draft.dim("vocab", "vocab_size", vocab)
    draft.dim("intermediate", "intermediate_size", intermediate)
    draft.config.expect("hidden_act", SILU, "silu", "is another activation")
    draft.max_context = longest(draft.config)
    draft.tied(default=False)


def _indexer(draft: Draft) -> None:
    draft.dim("index_heads", "index_n_heads", 64)
    draft.dim("index_dim", "index_head_dim", 128)
    draft.dim("index_top_k", "index_topk", 2048)


def _router(draft: Draft, has: Latent) -> None:
    config = draft.config
    routed(draft, "n_routed_experts", has.experts, has.top_k)
    method = config.text("topk_method")
    score = config.text("scoring_func") or has.score
    if score not in ("sigmoid", "softmax"):
        config.refuse("scoring_func", f"{score[:20]!r} is another router")
    draft.option("score", score, "sigmoid")
    draft.option("router_bias", value=score == "sigmoid", default=True)
    groups = config.count("n_group", has.groups[0])
    chosen = config.count("topk_group", has.groups[1])
    if method != "greedy":
        draft.option("groups", groups, 1)
        draft.option("top_groups", chosen, 1)
    for key in ("ep_size", "moe_layer_freq", "aux_loss_alpha", "pretraining_tp"):
        config.get(key)


def latent(has: Latent) -> Callable[[Config], Draft]:
    """A reader of configs with DeepSeek's fields."""

    def read(config: Config) -> Draft:
        draft = Draft(config)
        _sized(draft, has.vocab, has.hidden, has.intermediate)
        queries = attention(draft, has)
        if has.sparse:
            _indexer(draft)
        _router(draft, has)
        draft.dim("shared_experts", "n_shared_experts", has.shared)
        draft.dim("moe_intermediate", "moe_intermediate_size", has.moe_intermediate)
        first = config.count("first_k_dense_replace", has.dense, least=0)
        layers = draft.layers("num_hidden_layers", has.layers)
        without_drafts(draft)
        dense = "decoder-dsa" if has.sparse else "decoder-mla"
        if not queries and has.sparse:
            config.refuse("q_lora_rank", "no block has an indexer and full-rank queries")
        dense = dense if queries else "decoder-mla-plain-q"
        return stacked(draft, Use(dense, "dense"), Use(f"{dense}-moe"), first, layers)

    return read


architecture("DeepseekV2ForCausalLM", "deepseek_v2")(latent(V2))
architecture("DeepseekV3ForCausalLM", "deepseek_v3", "kimi_k2")(latent(V3))
architecture("DeepseekV32ForCausalLM", "deepseek_v32")(latent(V32))
architecture("Glm4MoeLiteForCausalLM", "glm4_moe_lite")(latent(GLM_FLASH))
architecture("GlmMoeDsaForCausalLM", "glm_moe_dsa")(latent(GLM_5))


@architecture("MiniCPM3ForCausalLM", "minicpm3")
def minicpm3(config: Config) -> Draft:
    """MiniCPM3: latent attention with scaled residuals, dense."""
    draft = Draft(config)
    _sized(draft, 73448, 2560, 6400)
    attention(draft, Latent(0, 0, 0, 0, 0, 40, 768, 0, 0, 0, 0, (1, 1), "", nope=64, v_dim=64))
    for key in ("scale_emb", "scale_depth", "dim_model_base"):
        config.get(key)
    layers = draft.layers("num_hidden_layers", 62)
    spans = draft.spans("decoder-mla-minicpm3", [None] * layers)
    draft.run("embedding-scaled", spans, "lm-head-scaled")
    return draft
