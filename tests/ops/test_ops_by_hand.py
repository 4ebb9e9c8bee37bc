"""FLOPs, bytes and refusals of single operators, worked out by hand."""

import pytest
from op_examples import BATCH, FORMATS, SEQUENCES, TOKENS, Example, load, shape, sites

from planner.ops import OPERATORS
from planner.ops.types import Load, Work, kv_heads_per_rank

STEP = load(3, 5, 11)
M = 15  # 3 sequences of 5 new tokens


def work(name: str, *inputs, step: Load = STEP, **attributes) -> Work:
    [(op, site)] = sites(name, Example(inputs, attributes), step)
    return op.work(site)


def refusal(name: str, *inputs, **attributes) -> str:
    with pytest.raises(ValueError) as refused:
        Example(inputs, attributes).operator(name).shapes(inputs)
    return str(refused.value)


def make(name: str, **attributes):
    return Example((), attributes).operator(name)


def test_a_linear_layer_is_two_mkn_flops_and_its_weights():
    found = work("linear", shape(TOKENS, 64), features=48)
    assert found == Work(matmul_flops=2 * M * 64 * 48, weight_bytes=64 * 48 * 1)


def test_a_bias_adds_one_flop_an_output_and_stays_in_the_activations_format():
    found = work("linear", shape(TOKENS, 64), features=48, bias=True)
    assert found.vector_flops == M * 48
    assert found.weight_bytes == 64 * 48 * 1 + 48 * 2


def test_a_layer_that_engines_do_not_quantise_keeps_sixteen_bits():
    assert (
        work("linear", shape(TOKENS, 64), features=48, quantizable=False).weight_bytes
        == 64 * 48 * 2
    )
    assert make("linear", features=48, quantizable=False).matmul_format(FORMATS) == "bf16"
    assert make("linear", features=48).matmul_format(FORMATS) == "fp8"


def test_a_product_of_activations_has_no_weights():
    found = work("matmul", shape(BATCH, 7, 64), shape(BATCH, 64, 32))
    assert found == Work(matmul_flops=2 * 3 * 7 * 64 * 32)


def test_attention_is_two_gemms_of_two_nq_d_flops_a_pair():
    cases = sites(
        "attention",
        Example((shape(TOKENS, 128), shape(64)), {"heads": 8, "kv_heads": 2, "head_dim": 16}),
        STEP,
    )
    scores, mask, softmax, values = [(op, site) for op, site in cases]
    # Each of 3 sequences: 6 prior keys, 5 new: 5 × 6 + 1 + 2 + 3 + 4 + 5 = 45 pairs.
    for op, site in (scores, values):
        assert op.work(site).matmul_flops == 2 * 8 * 16 * 3 * 45
        # K (or V) of 11 tokens in 2 KV heads of 16, 2 bytes each.
        assert op.work(site).cache_read_bytes == 3 * 11 * 2 * 16 * 2
        # On its own the kernel computes the whole rectangle.
        assert op.executed(site, None).matmul_flops == 2 * 8 * 16 * 3 * 5 * 11
    # The scores: 8 heads × 3 × 5 × 11 pairs, in FP32 until the softmax writes 16 bit.
    assert scores[1].outputs[0].bytes(STEP) == 8 * 3 * 5 * 11 * 4
    assert mask[1].outputs[0].bytes(STEP) == 8 * 3 * 5 * 11 * 4
    assert softmax[1].outputs[0].bytes(STEP) == 8 * 3 * 5 * 11 * 2
    assert values[1].outputs[0].bytes(STEP) == M * 128 * 2


def test_a_windows_scores_are_a_rectangle_of_the_keys_in_reach():
    window = {"heads": 1, "kv_heads": 1, "head_dim": 16, "window": 4}
    cases = list(sites("attention", Example((shape(TOKENS, 16), shape(32)), window), STEP))
    # 5 queries reach back 4 each: 4 + 5 − 1 = 8 distinct keys, and 5 × 4 = 20 pairs.
    assert cases[0][1].outputs[0].bytes(STEP) == 3 * 5 * 8 * 4
    assert cases[0][0].work(cases[0][1]).matmul_flops == 2 * 16 * 3 * 20


def test_sinks_are_one_weight_a_head_and_one_more_column_of_each_row():
    attributes = {"heads": 8, "kv_heads": 2, "head_dim": 16}
    inputs = (shape(TOKENS, 128), shape(64))
    plain, sinks = (
        list(sites("attention", Example(inputs, {**attributes, "sinks": there}), STEP))[2]
        for there in (False, True)
    )
    assert plain[1].parameters == ()
    assert [p.elements for p in sinks[1].parameters] == [8]
    # In 16 bit; maximum, exponential (4), sum and division for one more logit a token and head.
    assert sinks[0].work(sinks[1]).weight_bytes == 8 * 2
    more = sinks[0].work(sinks[1]).vector_flops - plain[0].work(plain[1]).vector_flops
    assert more == 7 * M * 8
    # Two ranks hold four of the eight each.
    halved, _ = make("attention", **attributes, sinks=True).sharded(2)
    assert halved.parts()[2].op.sinks == 4


def test_a_query_looks_back_within_a_window_or_chunks_but_not_both_ways():
    attributes = {"heads": 8, "kv_heads": 2, "head_dim": 16}
    inputs = (shape(TOKENS, 128), shape(64))
    assert refusal("attention", *inputs, **attributes, window=4, chunk=8) == (
        "attention looks back within a window or within chunks, not both"
    )
    assert refusal("attention", *inputs, **attributes, window=8, causal=False) == (
        "a window needs causal attention: it looks back only"
    )


def test_rope_is_three_flops_a_rotated_element_and_one_row_of_its_table_a_token():
    found = work("rope", shape(TOKENS, 64), shape(TOKENS, 32), head_dim=16, rotary=8)
    assert found == Work(vector_flops=3 * M * 96 * 8 / 16, weight_bytes=M * 8 * 2)


def test_a_kv_cache_write_reads_k_and_v_and_writes_the_cache():
    [(op, site)] = sites("kv_cache_write", Example((shape(TOKENS, 32), shape(TOKENS, 32))), STEP)
    assert op.work(site) == Work(cache_write_bytes=M * 64 * 2)
    assert op.input_bytes(site) == (M * 32 * 2, M * 32 * 2)
    assert site.outputs[0].bytes(STEP) == 0  # a handle


def test_an_embedding_reads_one_row_a_token_and_owns_the_whole_table():
    [(op, site)] = sites(
        "embedding", Example((shape(TOKENS),), {"rows": 100, "features": 64}), STEP
    )
    assert op.work(site) == Work(weight_bytes=M * 64 * 2)
    assert site.parameters[0].elements == 6400


def test_the_last_tokens_alone_are_read():
    [(op, site)] = sites("select_last", Example((shape(TOKENS, 64),)), STEP)
    assert op.input_bytes(site) == (3 * 64 * 2,)
    assert site.outputs[0].shape == shape(SEQUENCES, 64)


def test_collectives_send_the_bandwidth_optimal_share():
    # A ring over 4: 2 × 3/4 of the tensor for a sum, 3/4 of the result for a join.
    assert work("all_reduce", shape(TOKENS, 64), ranks=4).link_bytes == 2 * 3 / 4 * M * 64 * 2
    assert work("all_gather", shape(TOKENS, 64), ranks=4).link_bytes == 3 / 4 * M * 256 * 2


def test_a_convolution_is_an_implicit_gemm():
    found = work("conv2d", shape(BATCH, 3, 8, 8), channels=4, kernel=3, stride=2, padding=1)
    outputs = 3 * 4 * 4 * 4  # (8 + 2 − 3) // 2 + 1 = 4
    assert found.matmul_flops == 2 * outputs * 3 * 9
    assert found.vector_flops == outputs
    assert found.weight_bytes == 3 * 4 * 9 * 1 + 4 * 2


def test_pooling_without_a_stride_steps_by_its_kernel():
    [(_, site)] = sites("pool2d", Example((shape(BATCH, 3, 8, 8),), {"kernel": 2}), STEP)
    assert site.outputs[0].shape == shape(BATCH, 3, 4, 4)
    assert work("pool2d", shape(BATCH, 3, 8, 8), kernel=2).vector_flops == 3 * 3 * 4 * 4 * 4


def test_means_of_rows_add_every_element_once():
    [(_, site)] = sites("mean_rows", Example((shape(TOKENS, 64),), {"count": 4}), STEP)
    assert site.load.elements(site.outputs[0].shape) == M / 4 * 64
    assert work("mean_rows", shape(TOKENS, 64), count=4).vector_flops == M * 64


def test_flatten_joins_all_sides_but_the_first():
    assert make("flatten").shapes((shape(BATCH, 3, 8, 8),)) == (shape(BATCH, 192),)


def test_norms_are_four_and_seven_flops_an_element():
    assert work("rms_norm", shape(TOKENS, 64)) == Work(vector_flops=4 * M * 64, weight_bytes=64 * 2)
    assert work("layer_norm", shape(TOKENS, 64)) == Work(
        vector_flops=7 * M * 64, weight_bytes=128 * 2
    )
    assert work("rms_norm", shape(TOKENS, 64), size=16).weight_bytes == 16 * 2


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        (
            "[tokens, 64] · [32, 8]: the inner sides differ",
            lambda: refusal("matmul", shape(TOKENS, 64), shape(32, 8)),
        ),
        (
            "[2, tokens, 64] · [3, 64, 8]: the leading sides differ",
            lambda: refusal("matmul", shape(2, TOKENS, 64), shape(3, 64, 8)),
        ),
        (
            "its inputs differ in shape: [tokens, 64] and [tokens, 32]",
            lambda: refusal("add", shape(TOKENS, 64), shape(TOKENS, 32)),
        ),
        (
            "8 heads do not share 3 KV heads evenly",
            lambda: refusal(
                "attention", shape(TOKENS, 128), shape(96), heads=8, kv_heads=3, head_dim=16
            ),
        ),
        (
            "the cache holds 32 elements a token, but 2 KV heads of 16 need 64",
            lambda: refusal(
                "attention", shape(TOKENS, 128), shape(32), heads=8, kv_heads=2, head_dim=16
            ),
        ),
        (
            "Q is [tokens, 96], but 8 heads of 16 need a last side of 128",
            lambda: refusal(
                "attention", shape(TOKENS, 96), shape(64), heads=8, kv_heads=2, head_dim=16
            ),
        ),
        (
            "a window needs causal attention: it looks back only",
            lambda: refusal(
                "attention",
                shape(TOKENS, 16),
                shape(32),
                heads=1,
                kv_heads=1,
                head_dim=16,
                window=4,
                causal=False,
            ),
        ),
        (
            "[tokens, 40] does not split into heads of 16",
            lambda: refusal("rope", shape(TOKENS, 40), head_dim=16),
        ),
        (
            "cannot rotate 32 of the 16 dims of a head",
            lambda: refusal("rope", shape(TOKENS, 32), head_dim=16, rotary=32),
        ),
        (
            "rows of 64 do not split into norms of 48",
            lambda: refusal("rms_norm", shape(TOKENS, 64), size=48),
        ),
        (
            "needs [batch, channels, height, width], got [batch, 3]",
            lambda: refusal("conv2d", shape(BATCH, 3), channels=4, kernel=3),
        ),
        (
            "a 9×9 window does not fit into [batch, 3, 8, 8]",
            lambda: refusal("pool2d", shape(BATCH, 3, 8, 8), kernel=9),
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_both_shapes(said, sentence):
    assert said() == sentence


def sharded(ranks: int, **attributes):
    return make("linear", **attributes).sharded(ranks)


@pytest.mark.parametrize(
    ("attributes", "features", "collective"),
    [
        ({"shard": "none"}, 512, None),
        ({"shard": "column"}, 128, None),
        ({"shard": "row"}, 512, "all_reduce"),
        ({"shard": "vocab"}, 128, "all_gather"),
        ({"shard": "kv", "unit": 64}, 128, None),  # 8 heads over 4 ranks: 2 each
        ({"shard": "kv", "unit": 256}, 256, None),  # 2 heads over 4 ranks: 1 each, twice held
    ],
)
def test_a_linear_layer_is_cut_over_four_ranks(attributes, features, collective):
    op, after = sharded(4, features=512, **attributes)
    assert (op.features, after) == (features, collective)


def test_a_vocabulary_that_does_not_divide_is_padded():
    assert sharded(4, features=50_257, shard="vocab")[0].features == 12_565  # 50,260 / 4
    assert make("embedding", rows=50_257, features=8).sharded(4)[0].rows == 12_565
    assert make("embedding", rows=50_257, features=8, shard=False).sharded(4)[0].rows == 50_257


def test_heads_are_replicated_past_their_number_and_never_fewer_than_one():
    for kv_heads in (1, 2, 4, 8):
        for ranks in (1, 2, 4, 8, 16):
            held = kv_heads_per_rank(kv_heads, ranks)
            assert held == max(1, kv_heads // ranks)
            assert held * ranks >= kv_heads


@pytest.mark.parametrize(
    ("sentence", "attempt"),
    [
        (
            "28 attention heads do not divide over 8 tensor-parallel ranks",
            lambda: make("attention", heads=28, kv_heads=4, head_dim=16).sharded(8),
        ),
        ("6 KV heads do not divide over 4 tensor-parallel ranks", lambda: kv_heads_per_rank(6, 4)),
        (
            "3 KV heads cannot be replicated evenly over 4 tensor-parallel ranks",
            lambda: sharded(4, features=3 * 64, unit=64, shard="kv"),
        ),
        (
            "10 output features do not divide over 4 tensor-parallel ranks",
            lambda: sharded(4, features=10, shard="column"),
        ),
        (
            "6 heads of 64 do not divide over 4 tensor-parallel ranks",
            lambda: sharded(4, features=6 * 64, unit=64, shard="column"),
        ),
        (
            "320 features are no whole number of heads of 128",
            lambda: sharded(2, features=320, unit=128, shard="column"),
        ),
    ],
)
def test_what_does_not_divide_over_the_ranks_is_refused_in_words(sentence, attempt):
    with pytest.raises(ValueError) as refused:
        attempt()
    assert str(refused.value) == sentence


def test_the_folder_is_the_register():
    assert len(OPERATORS.names()) == len(set(OPERATORS.names())) > 20


def test_a_recurrent_step_reads_and_writes_each_state_once():
    # 4 heads of 8 × 16 and 2 key heads: queries and keys 2 × 2 × 8, values 4 × 16.
    attributes = {"heads": 4, "key_heads": 2, "key_dim": 8, "value_dim": 16}
    inputs = (shape(TOKENS, 32 + 64), shape(TOKENS, 4))
    decode = load(7, 1, 100)
    state = 4 * 8 * 16 * 4  # FP32
    for rule, flops in (("sum", 4), ("delta", 6)):
        [(op, site)] = sites(
            "linear_attention", Example(inputs, {**attributes, "rule": rule}), decode
        )
        assert op.state_bytes(inputs, FORMATS) == state
        found = op.work(site)
        assert (found.cache_read_bytes, found.cache_write_bytes) == (7 * state, 7 * state)
        assert found.matmul_flops == 7 * 4 * flops * 8 * 16
        assert op.executed(site, None) == found  # a token alone needs no chunk
    # Two tokens in a first step have no state to read, and twice the FLOPs.
    [(op, site)] = sites("linear_attention", Example(inputs, attributes), load(7, 2, 2))
    found = op.work(site)
    assert (found.cache_read_bytes, found.cache_write_bytes) == (0, 7 * state)
    assert found.matmul_flops == 7 * 2 * 4 * 4 * 8 * 16


def test_a_prompt_is_computed_in_whole_chunks():
    # 10 tokens in chunks of 8: two chunks, 16 rows.
    attributes = {"heads": 4, "key_heads": 2, "key_dim": 8, "value_dim": 16, "chunk": 8}
    inputs = (shape(TOKENS, 32 + 64), shape(TOKENS, 4))
    step = load(3, 10, 10)
    [(op, site)] = sites("linear_attention", Example(inputs, attributes), step)
    # A chunk: 8 rows × 4 heads × 4·8·16 on the state; squares 2·8·8 × (4 heads · 16 + 2 · 8).
    chunk = 8 * 4 * 4 * 8 * 16 + 2 * 64 * (4 * 16 + 2 * 8)
    assert op.executed(site, None).matmul_flops == 3 * 2 * chunk
    # Each chunk's start state in FP32 and 2 squares of 8 × 8 in 16 bit, written and read.
    assert op.executed(site, None).scratch_bytes == 3 * 2 * 2 * (4 * 8 * 16 * 4 + 2 * 64 * 2)
    [(op, site)] = sites("linear_attention", Example(inputs, {**attributes, "rule": "delta"}), step)
    # Delta: 6 on the state, squares 8·8·(6·8 + 4·16) and the inverse 8³/3, per head.
    chunk = 4 * (8 * 6 * 8 * 16 + 64 * (48 + 64) + 512 / 3)
    assert op.executed(site, None).matmul_flops == pytest.approx(3 * 2 * chunk, rel=1e-12)
    # State, W (8 × 8), U and the new values (8 × 16 each) and the 8 × 8 inverse per head, 16 bit.
    handed = 4 * (8 * 16 + 8 * 8 + 2 * 8 * 16 + 8 * 8) * 2
    assert op.executed(site, None).scratch_bytes == 3 * 2 * 2 * handed


def test_a_causal_convolution_keeps_all_but_one_of_its_kernel():
    inputs = (shape(TOKENS, 64), shape(TOKENS, 32))
    [(op, site)] = sites("causal_conv1d", Example(inputs, {"kernel": 4, "bias": True}), STEP)
    assert site.outputs[0].shape == shape(TOKENS, 96)
    assert op.state_bytes(inputs, FORMATS) == 3 * 96 * 2
    found = op.work(site)
    assert found.vector_flops == 2 * 4 * 96 * M
    assert found.weight_bytes == (4 + 1) * 96 * 2
    assert found.cache_read_bytes == found.cache_write_bytes == 3 * 3 * 96 * 2


def test_a_selective_scan_keeps_a_row_of_state_a_channel():
    inputs = (shape(TOKENS, 64), shape(TOKENS, 64), shape(TOKENS, 8), shape(TOKENS, 8))
    [(op, site)] = sites("selective_scan", Example(inputs, {"size": 8}), STEP)
    assert op.state_bytes(inputs, FORMATS) == 64 * 8 * 4
    # 10 FLOPs an element of the state, 8 a channel; A and the skip D are learned.
    assert op.work(site).vector_flops == M * 64 * (8 * 10 + 8)
    assert op.work(site).weight_bytes == 64 * (8 + 1) * 2


def test_recurrent_operators_refuse_inputs_that_do_not_fit():
    inputs = (shape(TOKENS, 90),)
    attributes = {"heads": 4, "key_heads": 2, "key_dim": 8, "value_dim": 16}
    assert "need a last side of 96" in refusal("linear_attention", *inputs, **attributes)
    attributes = {"heads": 4, "key_heads": 3, "key_dim": 8, "value_dim": 16}
    assert "do not share 3 key heads" in refusal("linear_attention", *inputs, **attributes)
    row, narrow = shape(TOKENS, 64), shape(TOKENS, 32)
    assert "but Δ is [tokens, 32]" in refusal("selective_scan", row, narrow, row, row, size=64)
    assert "last side of 8" in refusal("selective_scan", row, row, narrow, narrow, size=8)


def test_states_are_split_over_ranks_by_head():
    whole = make("linear_attention", heads=32, key_heads=2, key_dim=8, value_dim=16, weights=96)
    on_four, _ = whole.sharded(4)
    # Key heads are replicated past their number, as groups of Mamba-2 are.
    assert (on_four.heads, on_four.key_heads, on_four.weights) == (8, 1, 24)
    assert on_four.state_bytes((), FORMATS) == whole.state_bytes((), FORMATS) / 4


def test_norms_of_groups_have_weights_for_the_whole_row():
    assert work("rms_norm", shape(TOKENS, 64), groups=4).weight_bytes == 64 * 2
    assert refusal("rms_norm", shape(TOKENS, 64), groups=3) == (
        "rows of 64 do not split into 3 groups"
    )
