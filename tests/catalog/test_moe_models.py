"""Mixtures of experts that ship: totals and active parameters by hand, against what is published."""

from __future__ import annotations

import functools

import pytest

from planner.graph import totals
from planner.graph.build import model_graph
from planner.graph.types import ModelGraph
from planner.ops.types import Formats, static
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()

ACTIVE = {
    # published, its rounding, and tables of tokens (embedding, LM head) that the maker leaves out
    "mixtral-8x7b": (12.9e9, 0.1e9, 0),
    "mixtral-8x22b": (39e9, 1e9, 0),
    "qwen1.5-moe-a2.7b": (2.7e9, 0.1e9, 0),
    "qwen2-57b-a14b": (14e9, 1e9, 0),
    "qwen3-30b-a3b": (3.3e9, 0.1e9, 0),
    "qwen3-235b-a22b": (22e9, 1e9, 0),
    "qwen3-coder-480b-a35b": (35e9, 1e9, 0),
    "olmoe-1b-7b": (1.3e9, 0.1e9, 0),
    "phi-3.5-moe": (6.6e9, 0.1e9, 0),
    "dbrx": (36e9, 1e9, 0),
    "granite-3.1-3b-a800m": (0.8e9, 0.1e9, 1),
    "minimax-m2": (10e9, 1e9, 1),
    "glm-4.5": (32e9, 1e9, 2),
    "glm-4.5-air": (12e9, 1e9, 2),
    "ernie-4.5-21b-a3b": (3e9, 1e9, 0),
    "ernie-4.5-300b-a47b": (47e9, 1e9, 1),
    "hunyuan-a13b": (13e9, 1e9, 0),
    "deepseek-moe-16b": (2.8e9, 0.1e9, 0),
    "gpt-oss-20b": (3.6e9, 0.1e9, 1),
    "gpt-oss-120b": (5.1e9, 0.1e9, 1),
    "gemma-4-26b-a4b-it": (3.8e9, 0.1e9, 0),
    "nemotron-3-nano-30b-a3b": (3.2e9, 0.1e9, 1),
    "granite-4.0-h-small": (9e9, 1e9, 0),
    "granite-4.0-h-tiny": (1e9, 1e9, 0),
}


@functools.cache
def graph(name: str, weights: str = "bf16") -> ModelGraph:
    model = CATALOG.find("model", name)
    formats = Formats(weights, "bf16", "bf16", "bf16")
    return model_graph(model, blocks_of(model, CATALOG), formats)


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_are_the_published_ones_within_their_rounding(name):
    """Makers round to a digit, some down; some leave out tables that look up one row a token."""
    published, rounding, tables = ACTIVE[name]
    dims = CATALOG.find("model", name).dims
    active = totals.active_parameters(graph(name)) - tables * dims["vocab"] * dims["hidden"]
    assert abs(active - published) < rounding
    assert CATALOG.find("model", name).published.active_parameters == published


def test_mixtral_8x7b_by_hand():
    """32 layers of attention, eight experts of 3 × 4096 × 14336 and a router; untied tables."""
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    layer = attention + 8 * 3 * 4096 * 14_336 + 4096 * 8 + 2 * 4096
    total = 32 * layer + 2 * 32_000 * 4096 + 4096
    assert total == 46_702_792_704
    assert totals.parameters(graph("mixtral-8x7b")) == total
    active = total - 32 * 6 * 3 * 4096 * 14_336
    assert totals.active_parameters(graph("mixtral-8x7b")) == active


def test_qwen15_moe_has_a_shared_expert_behind_a_gate():
    """24 layers: MHA with biases, 60 experts of 1408, a shared MLP of 5632 and its gate of 2048."""
    attention = 4 * 2048 * 2048 + 3 * 2048
    moe = 60 * 3 * 2048 * 1408 + 2048 * 60 + 3 * 2048 * 5632 + 2048
    total = 24 * (attention + moe + 2 * 2048) + 2 * 151_936 * 2048 + 2048
    assert total == 14_315_784_192
    assert totals.parameters(graph("qwen1.5-moe-a2.7b")) == total
    assert totals.kv_bytes_per_token(graph("qwen1.5-moe-a2.7b")) == 24 * 2 * 16 * 128 * 2


def test_granite_moe_is_tied_and_scaled():
    """32 layers of 24 heads of 64, 8 KV heads, 40 experts of 512."""
    attention = 2 * 1536 * 1536 + 2 * 1536 * 512
    layer = attention + 40 * 3 * 1536 * 512 + 1536 * 40 + 2 * 1536
    total = 32 * layer + 49_155 * 1536 + 1536
    assert total == 3_298_793_472
    assert totals.parameters(graph("granite-3.1-3b-a800m")) == total
    assert totals.kv_bytes_per_token(graph("granite-3.1-3b-a800m")) == 65_536


def test_olmoe_norms_the_whole_of_q_and_k():
    """16 layers: q and k norms of 2048 each, 64 experts of 1024."""
    layer = 4 * 2048 * 2048 + 2 * 2048 + 64 * 3 * 2048 * 1024 + 2048 * 64 + 2 * 2048
    total = 16 * layer + 2 * 50_304 * 2048 + 2048
    assert total == 6_919_161_856
    assert totals.parameters(graph("olmoe-1b-7b")) == total
    assert totals.kv_bytes_per_token(graph("olmoe-1b-7b")) == 131_072


def test_gpt_oss_20b_by_hand():
    """24 layers: biased attention with 64 sinks, 32 biased experts of 2880, a biased router."""
    attention = 2880 * (64 + 2 * 8) * 64 + (64 + 2 * 8) * 64 + 64 * 64 * 2880 + 2880 + 64
    expert = 3 * 2880 * 2880 + 2 * 2880 + 2880
    layer = attention + 32 * expert + 2880 * 32 + 32 + 2 * 2880
    total = 24 * layer + 2 * 201_088 * 2880 + 2880
    assert total == 20_914_757_184
    assert totals.parameters(graph("gpt-oss-20b")) == total


def test_only_the_experts_of_gpt_oss_are_in_four_bits():
    """MXFP4 is 4.25 bit: 19.1 billion weights of experts; all else stays in 16 bit."""
    experts = 24 * 32 * 3 * 2880 * 2880
    total = 20_914_757_184
    by_hand = experts * 4.25 / 8 + (total - experts) * 2
    assert totals.weights_bytes(graph("gpt-oss-20b", "mxfp4")) == by_hand


def test_gpt_oss_120b_takes_what_its_checkpoint_takes():
    """The repository holds 65,248,815,744 bytes: 36 layers of 128 experts in MXFP4."""
    assert totals.weights_bytes(graph("gpt-oss-120b", "mxfp4")) == 65_248_815_744


def test_every_second_layer_of_gpt_oss_looks_back_128_keys():
    """At 4,096 tokens 12 layers keep 128 of them: 8 KV heads of 64."""
    layer = 2 * 8 * 64 * 2
    assert totals.kv_bytes(graph("gpt-oss-20b"), 4096) == 12 * layer * (4096 + 128)


def test_glm_45_without_its_mtp_layer():
    """Layer 93 of the checkpoint: an MoE layer, a projection of 2 × 5120, three norms, two tables."""
    attention = 5120 * (96 + 2 * 8) * 128 + (96 + 2 * 8) * 128 + 96 * 128 * 5120 + 2 * 128
    moe = (160 + 1) * 3 * 5120 * 1536 + 160 * 5120 + 160
    layer = attention + moe + 2 * 5120
    mtp = layer + 2 * 5120 * 5120 + 3 * 5120 + 2 * 151_552 * 5120
    assert mtp == 5_539_962_272
    assert totals.parameters(graph("glm-4.5")) == 358_337_791_296 - mtp


def test_glm_45_air_without_its_mtp_layer():
    """128 experts of 1408 and one shared; no norms of Q and K."""
    attention = 4096 * (96 + 2 * 8) * 128 + (96 + 2 * 8) * 128 + 96 * 128 * 4096
    moe = (128 + 1) * 3 * 4096 * 1408 + 128 * 4096 + 128
    layer = attention + moe + 2 * 4096
    mtp = layer + 2 * 4096 * 4096 + 3 * 4096 + 2 * 151_552 * 4096
    assert mtp == 3_616_573_568
    assert totals.parameters(graph("glm-4.5-air")) == 110_468_824_832 - mtp


def test_first_layers_are_dense():
    """A block before the others: DeepSeekMoE's first layer is an MLP of 10,944."""
    found = graph("deepseek-moe-16b")
    labels = [(found.kinds[run.kind].label, run.times) for run in found.sequence]
    assert labels == [("embedding", 1), ("dense", 1), ("layer", 27), ("lm-head", 1)]
    dense = found.kinds[1]
    assert static(dense.tensors["gate"].shape[-1]) == 10_944
    assert static(found.kinds[2].tensors["shared_gate"].shape[-1]) == 2 * 1408
