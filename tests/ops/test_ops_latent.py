"""Latent attention by hand, in DeepSeek-V3's sizes: work, bytes, both forms, the sparse one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_examples import FORMATS, TOKENS, Example, shape, sites

from planner.ops.types import Dim, Formats, Load, SequenceGroup, Work

H, LATENT, ROPE, NOPE, VALUE = 128, 512, 64, 128, 128
BF16 = Formats("bf16", "bf16", "bf16", "bf16")
DECODE = Load((SequenceGroup(4, 1, 1000),))
PREFILL = Load((SequenceGroup(2, 100, 100),))
CHUNK = Load((SequenceGroup(1, 50, 300),))
MIXED = Load((*DECODE.groups, *CHUNK.groups))
KEYS = Dim(symbols=("prefill_keys",))

NOPES, ROPES = shape(TOKENS, H * NOPE), shape(TOKENS, H * ROPE)
CACHE = shape(LATENT + ROPE)
PROMPTS = Example(
    (NOPES, ROPES, shape(KEYS, H * (NOPE + ROPE)), shape(KEYS, H * (NOPE + VALUE))),
    {"heads": H, "nope": NOPE, "rope": ROPE, "value": VALUE},
)
ABSORBED = Example(
    (shape(TOKENS, H * LATENT), ROPES, CACHE), {"heads": H, "latent": LATENT, "rope": ROPE}
)
SPARSE = Example(
    (shape(TOKENS, H * LATENT), ROPES, CACHE, shape(TOKENS, 2048)),
    {"heads": H, "latent": LATENT, "rope": ROPE, "select": 2048},
)


def parts(name: str, example: Example, step: Load):
    """Scores, mask, softmax and values, each with its site."""
    return list(sites(name, example, step))


def one(name: str, example: Example, step: Load):
    [(op, site)] = sites(name, example, step)
    return op, site


# --- decode, absorbed --------------------------------------------------------------------------


def test_decode_costs_two_flops_a_head_and_element_of_key_and_value():
    """4 sequences over 1,000 keys: 2·128·576 a key for scores, 2·128·512 for values."""
    scores, _, _, values = parts("mla_decode", ABSORBED, DECODE)
    assert scores[0].work(scores[1]).matmul_flops == 2 * 128 * 576 * 4000
    assert values[0].work(values[1]).matmul_flops == 2 * 128 * 512 * 4000
    assert 2 * 128 * (576 + 512) == 278_528  # a key, as the engines' notes count


def test_decode_reads_each_latent_once_for_all_heads():
    """Scores read 576 elements of 2 bytes a key; the values are 512 of the same ones."""
    scores, _, _, values = parts("mla_decode", ABSORBED, DECODE)
    assert scores[0].input_bytes(scores[1])[2] == 4000 * 576 * 2
    assert values[0].input_bytes(values[1])[1] == 4000 * 512 * 2


@given(context=st.integers(1, 200_000), heads=st.sampled_from([16, 20, 64, 128]))
def test_the_intensity_of_decode_does_not_depend_on_the_context(context, heads):
    """2·heads·(576 + 512) / (576·2): 241.8 FLOP/byte with 128 heads, 30.2 with the 16 of TP8."""
    step = Load((SequenceGroup(3, 1, context),))
    example = Example(
        (shape(TOKENS, heads * LATENT), shape(TOKENS, heads * ROPE), CACHE),
        {**ABSORBED.attributes, "heads": heads},
    )
    scores, _, _, values = parts("mla_decode", example, step)
    flops = scores[0].work(scores[1]).matmul_flops + values[0].work(values[1]).matmul_flops
    limit = 2 * heads * (576 + 512) / (576 * 2)
    assert flops / scores[0].input_bytes(scores[1])[2] == pytest.approx(limit)


def test_absorbing_is_one_projection_a_head():
    """128 heads × [128 -> 512]: 2·4·128·128·512 FLOPs, 16.8 M weights of 16 bits."""
    attributes = {"heads": H, "depth": NOPE, "features": LATENT, "phase": "decode", "tied": True}
    op, site = one("head_linear", Example((NOPES,), attributes), DECODE)
    elements = 128 * 128 * 512
    assert elements == 8_388_608
    assert op.work(site) == Work(matmul_flops=2 * 4 * elements, weight_bytes=elements * 2)
    assert site.parameters[0].shared


def test_the_halves_of_the_expansion_are_the_weights_absorbed():
    """512 × 128·(128 + 128) of kv_b_proj are W_UK and W_UV, 128·128·512 each."""
    expand = Example((shape(TOKENS, LATENT), CACHE), {"features": H * (NOPE + VALUE)})
    op, site = one("mla_expand", expand, PREFILL)
    del op
    assert site.parameters[0].elements == 2 * 128 * 128 * 512


# --- prompts, expanded -------------------------------------------------------------------------


def test_prompts_cost_as_multi_head_attention_of_the_same_sizes():
    """Keys of 192, values of 128: scores of `attention` at 192, values of `attention` at 128."""
    latent = parts("mla_prefill", PROMPTS, PREFILL)
    for position, wide in ((0, 192), (3, 128)):
        heads = {"heads": H, "kv_heads": H, "head_dim": wide}
        plain = parts(
            "attention", Example((shape(TOKENS, H * wide), shape(2 * H * wide)), heads), PREFILL
        )
        work = [op.work(site).matmul_flops for op, site in (latent[position], plain[position])]
        # 2 sequences, 100·101/2 causal pairs each
        assert work == [2 * 128 * wide * 2 * 5050] * 2


def test_prompts_read_their_queries_keys_and_values_once():
    scores, _, _, values = parts("mla_prefill", PROMPTS, PREFILL)
    assert scores[0].input_bytes(scores[1]) == (
        200 * 128 * 128 * 2,
        200 * 128 * 64 * 2,
        200 * 128 * 192 * 2,
    )
    assert values[0].input_bytes(values[1])[1] == 200 * 128 * 128 * 2


def test_a_chunk_expands_its_whole_context():
    """50 new tokens over 300 keys: 300 rows; 250 latents come from the cache with their keys."""
    expand = Example(
        (shape(TOKENS, LATENT), CACHE), {"features": H * (NOPE + VALUE), "quantizable": False}
    )
    op, site = one("mla_expand", expand, CHUNK)
    assert op.work(site).matmul_flops == 2 * 300 * 512 * 128 * 256
    assert op.input_bytes(site) == (50 * 512 * 2, 250 * 576 * 2)


def test_absorbed_prompts_would_cost_three_times_as_much():
    """(576 + 512) / (192 + 128) = 3.4: why prompts are expanded."""
    expanded = [op.work(site).matmul_flops for op, site in parts("mla_prefill", PROMPTS, PREFILL)]
    sparse = [op.work(site).matmul_flops for op, site in parts("mla_sparse", SPARSE, PREFILL)]
    assert sum(sparse) / sum(expanded) == 3.4


# --- phases ------------------------------------------------------------------------------------


def test_each_form_serves_its_own_sequences_of_a_mixed_step():
    """4 decoding sequences over 1,000 keys, a chunk of 50 over 300."""
    assert (
        parts("mla_decode", ABSORBED, MIXED)[0][0]
        .work(parts("mla_decode", ABSORBED, MIXED)[0][1])
        .matmul_flops
        == 2 * 128 * 576 * 4000
    )
    pairs = 50 * 250 + 50 * 51 / 2
    scores = parts("mla_prefill", PROMPTS, MIXED)[0]
    assert scores[0].work(scores[1]).matmul_flops == 2 * 128 * 192 * pairs


def test_a_step_without_prompts_reads_no_weights_for_them():
    expand = Example((shape(TOKENS, LATENT), CACHE), {"features": 256})
    op, site = one("mla_expand", expand, DECODE)
    assert op.work(site) == Work()
    assert op.input_bytes(site) == (0, 0)


@given(
    groups=st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(0, 50)), min_size=1, max_size=5
    )
)
def test_every_token_belongs_to_one_phase(groups):
    step = Load(tuple(SequenceGroup(c, new, new + prior) for c, new, prior in groups))
    phases = step.size("decode_tokens") + step.size("prefill_tokens")
    assert phases == step.size("tokens")
    keys = sum(c * (new + prior) for c, new, prior in groups if new > 1)
    assert step.size("prefill_keys") == keys


# --- cache and tensor parallelism --------------------------------------------------------------


@pytest.mark.parametrize(
    ("kv_cache", "packed", "each"),
    [
        ("bf16", False, 576 * 2),
        ("fp8", False, 576),
        # 512 bytes, four FP32 scales, 64 rotated elements of 16 bits
        ("fp8", True, 512 + 16 + 128),
        ("bf16", True, 576 * 2),
    ],
)
def test_bytes_of_a_cached_token(kv_cache, packed, each):
    formats = Formats("bf16", "bf16", "bf16", kv_cache)
    inputs = (shape(TOKENS, LATENT), shape(TOKENS, ROPE))
    op = Example(inputs, {"packed": packed}).operator("mla_cache_write")
    assert op.cached_bytes(inputs, formats) == each


def test_ranks_share_heads_and_not_the_cache():
    decode = ABSORBED.operator("mla_decode")
    cut, collective = decode.sharded(8)
    assert (cut.heads, cut.latent, collective) == (16, 512, None)
    write = Example((shape(TOKENS, LATENT), shape(TOKENS, ROPE))).operator("mla_cache_write")
    assert write.sharded(8) == (write, None)
    with pytest.raises(ValueError, match="128 attention heads do not divide over 3"):
        decode.sharded(3)


# --- sparse ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("context", "seen"), [(1000, 1000), (2048, 2048), (50_000, 2048)])
def test_sparse_decode_attends_to_2048_keys_at_most(context, seen):
    step = Load((SequenceGroup(3, 1, context),))
    scores = parts("mla_sparse", SPARSE, step)[0]
    assert scores[0].work(scores[1]).matmul_flops == 2 * 128 * 576 * 3 * seen
    assert scores[0].input_bytes(scores[1])[2] == 3 * seen * 576 * 2


def test_a_sparse_prompt_sees_all_before_it_up_to_2048_keys():
    """4,096 tokens: 2,048·2,049/2 pairs of the first half, 2,048 of each of the others."""
    step = Load((SequenceGroup(1, 4096, 4096),))
    pairs = 2048 * 2049 / 2 + 2048 * 2048
    scores = parts("mla_sparse", SPARSE, step)[0]
    assert scores[0].work(scores[1]).matmul_flops == 2 * 128 * 576 * pairs
    assert scores[0].input_bytes(scores[1])[2] == 4096 * 576 * 2


def test_the_indexer_scores_every_key_with_64_heads():
    """2·64·128 FLOPs a pair; 132 bytes of each key: 128 in FP8 and a scale."""
    example = Example((shape(TOKENS, 64 * 128), shape(TOKENS, 64), shape(128)), INDEX)
    op, site = one("index_scores", example, DECODE)
    assert op.work(site).matmul_flops == 2 * 64 * 128 * 4000
    assert op.input_bytes(site)[2] == 4000 * 132
    assert op.matmul_format(FORMATS) == "fp8"
    assert op.matmul_format(BF16) == "bf16"


INDEX = {"heads": 64, "dim": 128}


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "said"),
    [
        (
            "mla_decode",
            (shape(TOKENS, H * LATENT), ROPES, shape(512)),
            ABSORBED.attributes,
            "the cache holds 512 elements a token, not 576",
        ),
        (
            "mla_decode",
            (NOPES, ROPES, CACHE),
            ABSORBED.attributes,
            "are not 128 heads of 576",
        ),
        (
            "head_linear",
            (NOPES,),
            {"heads": 64, "depth": 128, "features": 1},
            "is not 64 heads of 128 elements",
        ),
        (
            "index_scores",
            (NOPES, shape(TOKENS, 64), shape(128)),
            INDEX,
            "are not queries of 64 heads of 128",
        ),
        ("join_phases", (shape(TOKENS, 3), shape(TOKENS, 4)), {}, "rows differ"),
        ("concat", (shape(TOKENS, 3), shape(2, 3)), {}, "rows differ"),
        ("linear", (shape(TOKENS, 3),), {"features": 10, "unit": 4, "split": 2}, "cannot split"),
    ],
)
def test_what_does_not_fit_is_refused(name, inputs, attributes, said):
    with pytest.raises(ValueError, match=said):
        Example(inputs, attributes).operator(name).shapes(inputs)


def test_one_gemm_may_write_two_tensors():
    """Of each head's 192 features 128 go to the first output and 64 to the second."""
    op = Example((), {"features": 16 * 192, "unit": 192, "split": 128}).operator("linear")
    assert op.shapes((shape(TOKENS, 1536),)) == (shape(TOKENS, 2048), shape(TOKENS, 1024))
    half, _ = (
        Example((), {"features": 16 * 192, "unit": 192, "split": 128, "shard": "column"})
        .operator("linear")
        .sharded(8)
    )
    assert half.shapes((shape(TOKENS, 1536),)) == (shape(TOKENS, 256), shape(TOKENS, 128))
