"""Llama and those who took its layer: Mistral, Phi-3 and 4, GLM-4, Qwen2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.spec.hf.context import longest
from planner.spec.hf.draft import Draft, attention
from planner.spec.hf.fields import Config
from planner.spec.hf.layers import windows
from planner.spec.hf.registry import architecture

SILU = ("silu", "swish")


@dataclass(frozen=True)
class Defaults:
    """What a class of transformers has where its config says nothing."""

    vocab: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int | None = None
    head_dim: int | None = None
    context: int = 2048
    tied: bool = False


def started(
    config: Config, has: Defaults, activations: tuple[str, ...] = SILU, mlp: str = "intermediate"
) -> Draft:
    """The dims that all gated decoders have, the longest context and tying.

    ``mlp`` is the dim that `intermediate_size` sets; empty where the family reads it itself.
    """
    draft = Draft(config)
    draft.dim("hidden", "hidden_size", has.hidden)
    attention(draft, has.heads, has.kv_heads, has.head_dim)
    if mlp:
        draft.dim(mlp, "intermediate_size", has.intermediate)
    draft.dim("vocab", "vocab_size", has.vocab)
    draft.max_context = longest(config, default=has.context)
    draft.tied(has.tied)
    key = config.first("hidden_act", "hidden_activation")
    config.expect(key, activations, activations[0], "is another activation")
    return draft


def unbiased(config: Config, *keys: str) -> None:
    """Refuse biases that no block has."""
    for key in keys or ("attention_bias", "mlp_bias"):
        config.expect(key, (False,), default=False, why="adds biases that no block has")


def plain(draft: Draft, block: str, layers: int) -> Draft:
    """Layers that are all alike and see all keys."""
    draft.run("embedding", draft.spans(block, [None] * layers), "lm-head")
    return draft


def rotary(draft: Draft, share: float) -> None:
    """RoPE on a part of each head."""
    turned = int(draft.dims["head_dim"] * share)
    if share != 1.0:
        draft.options["rotary"] = turned
    if not 1 <= turned <= draft.dims["head_dim"]:
        draft.config.refuse("partial_rotary_factor", f"turns {turned} dims of a head")


def llama(has: Defaults) -> Callable[[Config], Draft]:
    """A reader of configs with Llama's fields."""

    def read(config: Config) -> Draft:
        draft = started(config, has)
        unbiased(config)
        config.get("pretraining_tp")
        return plain(draft, "decoder-swiglu", draft.layers("num_hidden_layers", has.layers))

    return read


LLAMA = Defaults(32000, 4096, 11008, 32, 32)
MISTRAL = Defaults(32000, 4096, 14336, 32, 32, kv_heads=8, context=131072)
QWEN2 = Defaults(151936, 4096, 22016, 32, 32, kv_heads=32, context=32768)
PHI3 = Defaults(32064, 3072, 8192, 32, 32, context=4096)
GLM = Defaults(151552, 4096, 13696, 40, 32, kv_heads=2, head_dim=128, context=131072)

architecture("LlamaForCausalLM", "llama")(llama(LLAMA))
architecture("LLaMAForCausalLM")(llama(LLAMA))
architecture("InternLM3ForCausalLM", "internlm3")(llama(LLAMA))
architecture("AquilaForCausalLM", "aquila")(llama(LLAMA))


@architecture("MistralForCausalLM", "mistral", "ministral")
def mistral(config: Config) -> Draft:
    """Mistral: every layer has the window, or none has."""
    draft = started(config, MISTRAL)
    layers = draft.layers("num_hidden_layers", MISTRAL.layers)
    spans = windows(config, layers, config.maybe("sliding_window"), every=None)
    draft.run("embedding", draft.spans("decoder-swiglu", spans), "lm-head")
    return draft


@architecture("Phi3ForCausalLM", "phi3")
def phi3(config: Config) -> Draft:
    """Phi-3 and Phi-4: a window that may be longer than any context, RoPE on part of a head."""
    draft = started(config, PHI3)
    unbiased(config, "attention_bias")
    rotary(draft, config.number("partial_rotary_factor", 1.0))
    layers = draft.layers("num_hidden_layers", PHI3.layers)
    spans = windows(config, layers, config.maybe("sliding_window"), every=None)
    draft.run("embedding", draft.spans("decoder-swiglu", spans), "lm-head")
    return draft


@architecture("GlmForCausalLM", "glm")
def glm(config: Config) -> Draft:
    """GLM-4 (9B): Q, K and V have biases, and RoPE turns half of a head."""
    draft = started(config, GLM)
    if config.flag("attention_bias", default=False):
        draft.options["qkv_bias"] = True
    rotary(draft, config.number("partial_rotary_factor", 0.5))
    return plain(draft, "decoder-swiglu", draft.layers("num_hidden_layers", GLM.layers))


@architecture("SeedOssForCausalLM", "seed_oss")
def seed(config: Config) -> Draft:
    """Seed-OSS: Q, K and V have biases."""
    has = Defaults(155136, 4096, 27648, 64, 80, kv_heads=8, head_dim=128, context=524288)
    draft = started(config, has)
    if config.flag("attention_bias", default=True):
        draft.options["qkv_bias"] = True
    unbiased(config, "attention_out_bias", "mlp_bias")
    return plain(draft, "decoder-swiglu", draft.layers("num_hidden_layers", has.layers))
