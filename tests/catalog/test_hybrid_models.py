"""Models with a state per sequence, layers of differing width or keys in chunks: by hand."""

import functools

import pytest

from planner.graph import totals
from planner.graph.build import model_graph
from planner.graph.types import ModelGraph
from planner.ops.types import Formats, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()
BF16 = Formats(weights="bf16", matmul="bf16", activations="bf16", kv_cache="bf16")


@functools.cache
def graph_of(name: str, ranks: int = 1) -> ModelGraph:
    """The graph of a catalogue model in bf16."""
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), BF16, ranks)


def count(graph: ModelGraph, op: str) -> int:
    """How many nodes of an operator the whole model runs."""
    return sum(
        times * sum(node.op_name == op for node in block.nodes)
        for block, times in zip(graph.kinds, graph.times, strict=True)
    )


# --- KV of some layers alone -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        # attention layers × (K and V) × KV heads × head_dim × 2 bytes
        ("qwen3-next-80b-a3b", 12 * 2 * 2 * 256 * 2),
        ("qwen3.5-27b", 16 * 2 * 4 * 256 * 2),
        ("nemotron-nano-9b-v2", 4 * 2 * 8 * 128 * 2),
        ("nemotron-h-8b", 4 * 2 * 8 * 128 * 2),
        ("nemotron-3-nano-30b-a3b", 6 * 2 * 2 * 128 * 2),
        ("jamba-1.5-mini", 4 * 2 * 8 * 128 * 2),
        ("granite-4.0-h-micro", 4 * 2 * 8 * 64 * 2),
        ("granite-4.0-h-small", 4 * 2 * 8 * 128 * 2),
        ("falcon-h1-7b", 44 * 2 * 2 * 128 * 2),
        ("nemotron-super-49b", 49 * 2 * 8 * 128 * 2),
        # 816 MiB of K in q8_0, 34 bytes for 32 numbers, at 12,288 tokens, as llama.cpp logged
        ("nemotron-ultra-253b", 2 * 2 * 816 * 2**20 * 32 / 34 / 12_288),
        ("llama-4-scout", 48 * 2 * 8 * 128 * 2),
        ("mamba-2.8b", 0),
        # 7 latent layers of 512 + 64; 10 of softmax attention
        ("kimi-linear-48b-a3b", 7 * (512 + 64) * 2),
        ("minimax-text-01", 10 * 2 * 8 * 128 * 2),
    ],
)
def test_only_attention_layers_cache_tokens(name, by_hand):
    """Counting every layer is the usual mistake: 4 to 14 times too much."""
    assert totals.kv_bytes_per_token(graph_of(name)) == by_hand


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        # 36 layers: 32 heads of 128 × 128 in 16 bit, 3 rows of 2·16·128 + 32·128 channels
        ("qwen3-next-80b-a3b", 36 * (32 * 128 * 128 * 2 + 3 * 8192 * 2)),
        # 48 layers: 48 heads in FP32, 3 rows of 2·16·128 + 48·128
        ("qwen3.5-27b", 48 * (48 * 128 * 128 * 4 + 3 * 10_240 * 2)),
        # 27 layers: 128 heads of 80 × 128 in FP32, 3 rows of 10,240 + 2·8·128
        ("nemotron-nano-9b-v2", 27 * (128 * 80 * 128 * 4 + 3 * 12_288 * 2)),
        # 23 layers: 64 heads of 64 × 128 in 16 bit, 3 rows of 4,096 + 2·8·128
        ("nemotron-3-nano-30b-a3b", 23 * (64 * 64 * 128 * 2 + 3 * 6144 * 2)),
        # 28 Mamba layers: 8,192 channels of 16 in 16 bit, 3 rows of them
        ("jamba-1.5-mini", 28 * (8192 * 16 * 2 + 3 * 8192 * 2)),
        # 44 layers: 24 heads of 128 × 256, 3 rows of 3,072 + 2·256
        ("falcon-h1-7b", 44 * (24 * 128 * 256 * 2 + 3 * 3584 * 2)),
        ("mamba-2.8b", 64 * (5120 * 16 * 2 + 3 * 5120 * 2)),
        # 36 layers: 48 heads of 64 × 128 in 16 bit, 3 rows of 3,072 + 2·128
        ("granite-4.0-h-tiny", 36 * (48 * 64 * 128 * 2 + 3 * 3328 * 2)),
        # 20 layers: 32 heads of 128 × 128 in FP32, 3 rows of Q, K and V
        ("kimi-linear-48b-a3b", 20 * (32 * 128 * 128 * 4 + 3 * 3 * 4096 * 2)),
        # 70 layers: 64 heads of 128 × 128 in FP32
        ("minimax-text-01", 70 * 64 * 128 * 128 * 4),
        ("llama-4-scout", 0),
    ],
)
def test_recurrent_layers_keep_a_state_per_sequence(name, by_hand):
    """The state of a layer does not grow with the sequence."""
    assert totals.state_bytes_per_sequence(graph_of(name)) == by_hand


def test_two_ranks_hold_half_of_a_state_each():
    """Heads and channels are cut; Falcon-H1's one group of B and C is held twice."""
    whole = totals.state_bytes_per_sequence(graph_of("qwen3-next-80b-a3b"))
    assert totals.state_bytes_per_sequence(graph_of("qwen3-next-80b-a3b", 2)) == whole / 2
    by_hand = 44 * (12 * 128 * 256 * 2 + 3 * (3072 // 2 + 2 * 256) * 2)
    assert totals.state_bytes_per_sequence(graph_of("falcon-h1-7b", 2)) == by_hand


# --- parameters by hand ------------------------------------------------------------------------


def test_a_gated_delta_layer_of_qwen3_next_by_hand():
    """In: 2·16·128 + 2·32·128 + 2·32 wide; a convolution of 4; A and Δ's bias; a head's norm."""
    (delta,) = (block for block in graph_of("qwen3-next-80b-a3b").kinds if block.label == "delta")
    mixer = 2048 * (8192 + 4096 + 64) + 4 * 8192 + 2 * 32 + 128 + 4096 * 2048
    experts = 512 * 3 * 2048 * 512 + 2048 * 512 + 3 * 2048 * 512 + 2048
    by_hand = mixer + experts + 2 * 2048
    assert sum(p.elements for node in delta.nodes for p in node.parameters) == by_hand


def test_nemotron_ultra_has_as_many_parameters_as_llama_cpp_counts():
    """249.199 B in its layers; 64 attentions and 81 MLPs, 26 times as wide as the model at most."""
    graph = graph_of("nemotron-ultra-253b")
    assert count(graph, "kv_cache_write") == 64
    assert count(graph, "silu") == 81
    outside = 2 * 128_256 * 16_384 + 16_384
    assert totals.parameters(graph) - outside == pytest.approx(249.199e9, abs=0.0005e9)
    assert max(node.op.features for block in graph.kinds for node in block.nodes
               if node.id == "up_proj") == 26 * 16_384  # fmt: skip


def test_a_mamba_layer_of_granite_4_small_by_hand():
    """In: z and x of 128·64, B and C of 128, Δ; a convolution of 4; A, D, Δ's bias; then experts."""
    (mamba,) = (block for block in graph_of("granite-4.0-h-small").kinds if block.label == "mamba")
    inner, channels = 128 * 64, 128 * 64 + 2 * 128
    mixer = 4096 * (2 * inner + 2 * 128 + 128) + 5 * channels + 3 * 128 + inner + inner * 4096
    experts = 72 * 3 * 4096 * 768 + 4096 * 72 + 3 * 4096 * 1536
    by_hand = mixer + experts + 2 * 4096
    assert sum(p.elements for node in mamba.nodes for p in node.parameters) == by_hand


def test_nemotron_super_leaves_attention_out_of_31_layers():
    """49 attentions, 80 MLPs; 18 of these 7,168 wide or less."""
    graph = graph_of("nemotron-super-49b")
    assert count(graph, "kv_cache_write") == 49
    assert count(graph, "silu") == 80
    # attention: 64 + 2·8 heads of 128 in, 64 out; every layer that has one has a 28,672 MLP but one
    attention = 8192 * (64 + 2 * 8) * 128 + 64 * 128 * 8192
    widths = (
        49 * 28_672 - (28_672 - 14_336) + 28_672
    )  # block 0 is 14,336; block 46 has no attention
    widths += 2 * 14_336 + 17_920 + 3 * 14_336 + 6 * 7168  # blocks 6, 7, 11 and 42 to 51
    widths += 4 * 7168 + 8 * 5632 + 6 * 2816  # blocks 53 to 70
    norms = (49 + 80 + 1) * 8192
    total = 49 * attention + 3 * 8192 * widths + norms + 2 * 128_256 * 8192
    assert totals.parameters(graph) == total == 49_867_145_216


def test_nemotron_nano_has_27_mamba_25_mlp_and_4_attention_layers():
    """The pattern of its config, counted."""
    graph = graph_of("nemotron-nano-9b-v2")
    counted = [count(graph, op) for op in ("linear_attention", "relu2", "kv_cache_write")]
    assert counted == [27, 25, 4]


def test_every_second_layer_of_jamba_routes_and_one_in_eight_attends():
    """32 layers: 16 routed, 4 of attention."""
    graph = graph_of("jamba-1.5-mini")
    assert [count(graph, op) for op in ("moe", "kv_cache_write", "selective_scan")] == [16, 4, 28]


# --- attention ---------------------------------------------------------------------------------


def test_llama_4_attends_within_chunks_but_for_every_fourth_layer():
    """At 20,480 tokens 36 layers keep 8,192 and 12 all of them."""
    layer = 2 * 8 * 128 * 2
    by_hand = 36 * layer * 8192 + 12 * layer * 20_480
    assert totals.kv_bytes(graph_of("llama-4-scout"), 20_480) == by_hand


def test_a_decode_step_of_llama_4_reads_the_present_chunk_alone():
    """Context 20,000: 20,000 − 2 × 8,192 = 3,616 keys in a chunked layer."""
    step = Load((SequenceGroup(1, 1, 20_000),))
    read = {}
    for block in graph_of("llama-4-scout").kinds:
        for node in block.nodes:
            if node.op_name == "attention.scores":
                read[block.label] = node.op.work(block.site(node, step)).cache_read_bytes
    assert read == {"chunked": 3616 * 8 * 128 * 2, "global": 20_000 * 8 * 128 * 2}


def test_layers_without_positions_rotate_nothing():
    """Every fourth layer of SmolLM3, Llama 4 and Command A has no RoPE."""
    assert count(graph_of("smollm3-3b"), "rope") == 27
    assert count(graph_of("llama-4-scout"), "rope") == 36
    assert count(graph_of("command-a"), "rope") == 48


def test_parallel_branches_share_one_all_reduce():
    """Attention and MLP are added on each rank, then summed over ranks: one a layer, not two."""
    graph = graph_of("command-r", 2)
    (layer,) = (block for block in graph.kinds if block.label == "layer")
    assert sum(node.op_name == "all_reduce" for node in layer.nodes) == 1
