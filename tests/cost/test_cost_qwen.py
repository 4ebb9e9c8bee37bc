"""Qwen2.5-7B on an RTX 4090, decoding 16 sequences at a context of 4096, from shapes alone.

hidden 3584, 28 query heads and 4 KV heads of 128, intermediate 18944, vocabulary 152064, 2 bytes an
element. Q, K and V have biases. RTX 4090: 165.2 TFLOP/s BF16, 82.6 TFLOP/s on vectors, 1008 GB/s.
"""

import pytest

from planner.cost.annotate import annotate
from planner.cost.estimator import roofline_s
from planner.cost.kernel import border, kernel_work
from planner.cost.types import NodeCost, device
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.types import Formats, Load, SequenceGroup, Tiling
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

BF16 = Formats(weights="bf16", matmul="bf16", activations="bf16", kv_cache="bf16")
M, CONTEXT, B = 16, 4096, 2
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, VOCAB = 3584, 28, 4, 128, 18944, 152064
Q, KV = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM  # 3584 and 512
RIDGE = 165.2e12 / 1008e9
VECTOR_RIDGE = 82.6e12 / 1008e9

CATALOG = Catalog.standard()
MODEL = CATALOG.find("model", "qwen2.5-7b-instruct")
GRAPH = model_graph(MODEL, blocks_of(MODEL, CATALOG), BF16)
DEVICE = device(CATALOG.find("gpu", "rtx-4090"))
DECODE = Load((SequenceGroup(M, 1, CONTEXT),))


def cost(name: str, load: Load = DECODE) -> NodeCost:
    [found] = [kind for kind in GRAPH.kinds if name in kind.by_id]
    return annotate(found, load, DEVICE).nodes[name]


LINEAR = {
    # name: (K, N, bias)
    "q_proj": (HIDDEN, Q, True),
    "k_proj": (HIDDEN, KV, True),
    "v_proj": (HIDDEN, KV, True),
    "o_proj": (Q, HIDDEN, False),
    "gate_proj": (HIDDEN, INTERMEDIATE, False),
    "up_proj": (HIDDEN, INTERMEDIATE, False),
    "down_proj": (INTERMEDIATE, HIDDEN, False),
    "lm_head": (HIDDEN, VOCAB, False),
}


def linear_bytes(rows: float, K: int, N: int, bias: bool) -> float:
    """X, W (and bias) and Y, once each."""
    return (rows * K + K * N + (N if bias else 0) + rows * N) * B


def test_the_ridge_of_the_card_is_one_hundred_and_sixty_four():
    assert DEVICE.ridge("bf16") == pytest.approx(163.888888888, rel=1e-10)
    assert DEVICE.vector_ridge == pytest.approx(81.944444444, rel=1e-10)


@pytest.mark.parametrize("name", LINEAR)
def test_a_projection_is_two_mkn_flops_over_its_three_matrices(name):
    K, N, bias = LINEAR[name]
    found = cost(name)
    assert found.work.matmul_flops == 2 * M * K * N
    assert found.hbm_bytes == linear_bytes(M, K, N, bias)
    assert found.flops_per_byte == pytest.approx(
        2 * M * K * N / linear_bytes(M, K, N, bias), rel=1e-14
    )
    # Sixteen rows over a weight of two bytes: a little under 16 FLOP/byte, far below the ridge.
    assert 13 < found.flops_per_byte < 16
    assert found.bound == "memory"
    assert found.ridge_flops_per_byte == pytest.approx(RIDGE)


@pytest.mark.parametrize("name", LINEAR)
def test_the_crossing_batch_is_where_the_exact_intensity_meets_the_ridge(name):
    K, N, bias = LINEAR[name]
    crossing = cost(name).crossing_tokens
    assert 2 * crossing * K * N / linear_bytes(crossing, K, N, bias) == pytest.approx(
        RIDGE, rel=1e-12
    )


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        # M* = r·(KN + N)·b / (2KN − r·(K + N)·b), b = 2: r·(KN + N) / (KN − r·(K + N)).
        ("q_proj", RIDGE * (3584 * 3584 + 3584) / (3584 * 3584 - RIDGE * (3584 + 3584))),
        ("k_proj", RIDGE * (3584 * 512 + 512) / (3584 * 512 - RIDGE * (3584 + 512))),
        ("down_proj", RIDGE * 18944 * 3584 / (18944 * 3584 - RIDGE * (18944 + 3584))),
        ("lm_head", RIDGE * 3584 * 152064 / (3584 * 152064 - RIDGE * (3584 + 152064))),
    ],
)
def test_the_crossing_batch_by_its_closed_form(name, tokens):
    assert cost(name).crossing_tokens == pytest.approx(tokens, rel=1e-12)


def test_a_projection_turns_compute_bound_just_past_its_crossing_batch():
    crossing = cost("gate_proj").crossing_tokens
    below, above = int(crossing), int(crossing) + 1
    assert cost("gate_proj", Load((SequenceGroup(below, 1, 8),))).bound == "memory"
    assert cost("gate_proj", Load((SequenceGroup(above, 1, 8),))).bound == "compute"


@pytest.mark.parametrize(
    "name", ["attention.scores", "rope", "kv_cache_write", "input_norm", "act_mul"]
)
def test_what_owns_no_weights_of_a_gemm_has_no_crossing_batch(name):
    assert cost(name).crossing_tokens is None


def test_scores_are_a_batched_gemm_that_writes_fp32():
    found = cost("attention.scores")
    assert found.work.matmul_flops == 2 * HEADS * HEAD_DIM * M * CONTEXT
    k_bytes = M * CONTEXT * KV * B
    assert found.hbm_bytes == M * Q * B + k_bytes + HEADS * M * CONTEXT * 4
    assert found.bound == "memory"


def test_values_read_sixteen_bit_weights_of_the_softmax():
    found = cost("attention.values")
    assert found.work.matmul_flops == 2 * HEADS * HEAD_DIM * M * CONTEXT
    assert found.hbm_bytes == HEADS * M * CONTEXT * B + M * CONTEXT * KV * B + M * Q * B


def test_rope_turns_q_and_k_and_reads_a_row_of_its_table_a_token():
    found = cost("rope")
    assert found.work.vector_flops == 3 * M * (Q + KV)
    assert found.hbm_bytes == 2 * M * (Q + KV) * B + M * HEAD_DIM * B
    assert found.ridge_flops_per_byte == pytest.approx(VECTOR_RIDGE)


def test_the_cache_write_reads_k_and_v_once_and_writes_them_once():
    found = cost("kv_cache_write")
    assert found.hbm_bytes == 2 * (M * 2 * KV * B)
    assert found.flops == 0
    assert found.bound == "memory"


def test_a_norm_reads_and_writes_its_rows_and_reads_its_weight():
    found = cost("input_norm")
    assert found.work.vector_flops == 4 * M * HIDDEN
    assert found.hbm_bytes == 2 * M * HIDDEN * B + HIDDEN * B
    assert found.bound == "memory"


def test_a_residual_add_reads_two_tensors_and_writes_one():
    found = cost("mlp_residual")
    assert found.work.vector_flops == M * HIDDEN
    assert found.hbm_bytes == 3 * M * HIDDEN * B


def attention(load: Load, tiling: Tiling | None):
    layer = GRAPH.kinds[1]
    nodes = frozenset((0, node.id) for node in layer.composites["attention"])
    return kernel_work(
        border(Window(layer), nodes), (annotate(layer, load, DEVICE),), DEVICE, tiling
    )


def flash(load: Load, l2_bytes: float):
    return attention(load, Tiling(query_tile=128, l2_bytes=l2_bytes))


def test_attention_in_one_kernel_moves_q_o_k_and_v_and_no_scores():
    fused = flash(DECODE, DEVICE.l2_bytes)
    assert fused.hbm_bytes == 2 * M * Q * B + 2 * M * CONTEXT * KV * B
    assert fused.matmul_flops == 4 * HEADS * HEAD_DIM * M * CONTEXT


def test_decode_attention_nears_two_query_heads_a_kv_head_and_byte():
    # 2·n_q / (n_kv·b) = 2 × 28 / (4 × 2) = 7 FLOP/byte, less by the Q and O it moves besides.
    fused = flash(DECODE, DEVICE.l2_bytes)
    assert 6.9 < fused.matmul_flops / fused.hbm_bytes < 7
    far = flash(Load((SequenceGroup(M, 1, 10**7),)), DEVICE.l2_bytes)
    assert far.matmul_flops / far.hbm_bytes == pytest.approx(7, rel=1e-5)


PROMPT = Load((SequenceGroup(1, 32768, 32768),))


def test_unfused_scores_of_32k_tokens_take_four_gibibytes_a_head():
    [scores] = cost("attention.scores", PROMPT).output_bytes
    assert scores == HEADS * 4 * 2**30  # 32768 × 32768 × 4 B = 4 GiB


def test_flash_attention_of_a_prompt_that_fits_the_l2_reads_k_and_v_once():
    # K and V of one KV head: 32768 × 2 × 128 × 2 B = 16 MiB.
    once = 2 * 32768 * Q * B + 2 * 32768 * KV * B
    assert flash(PROMPT, 16 * 2**20).hbm_bytes == once


def test_flash_attention_of_a_prompt_past_the_l2_reads_k_and_v_for_every_query_tile():
    # 256 tile rows read 128, 256, … 32768 keys: 128 × (1 + … + 256) = 128 × 32896 tokens.
    tokens = 128 * 256 * 257 // 2
    assert flash(PROMPT, 16 * 2**20 - 1).hbm_bytes == 2 * 32768 * Q * B + 2 * tokens * KV * B


def test_a_tiled_kernel_computes_the_causal_half_and_its_diagonal_tiles():
    # Tile row t computes 128 queries against 128·t keys.
    pairs = 128 * 128 * 256 * 257 // 2
    assert flash(PROMPT, 1e12).matmul_flops == 4 * Q * pairs
    assert attention(PROMPT, None).matmul_flops == 4 * Q * 32768**2


def test_the_unfused_attention_pays_for_scores_six_times():
    parts = [cost(f"attention.{part}") for part in ("scores", "mask", "softmax", "values")]
    fused = flash(DECODE, DEVICE.l2_bytes)
    pairs = HEADS * M * CONTEXT
    # Scores FP32 written, read by the mask, written, read by the softmax, written and read in BF16.
    assert sum(part.hbm_bytes for part in parts) - fused.hbm_bytes == pairs * (4 * 4 + 2 * 2)


def test_the_bare_roofline_of_a_kernel_is_its_slowest_resource():
    layer = GRAPH.kinds[1]
    edge = border(Window(layer), frozenset({(0, "gate_proj")}))
    work = kernel_work(edge, (annotate(layer, DECODE, DEVICE),), DEVICE, None)
    memory_s = linear_bytes(M, HIDDEN, INTERMEDIATE, bias=False) / 1008e9
    assert work.memory_s == pytest.approx(memory_s)
    assert work.matmul_s == pytest.approx(2 * M * HIDDEN * INTERMEDIATE / 165.2e12)
    assert roofline_s(work) == pytest.approx(memory_s)
