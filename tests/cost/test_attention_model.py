"""The attention models: hand-worked times on a round machine, and what must hold for any constants.

Property tests draw constants from anywhere within the models' bounds, so that they hold for every
calibration that a fit can write.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.kernels import attention_decode, attention_prefill, mla
from planner.cost.kernels.attention import AttentionShape
from planner.cost.kernels.types import KernelModel, Variant
from planner.cost.types import Device

ROUND = Device(
    name="round",
    title="Round numbers",
    bandwidth_bytes_per_s=1e12,
    matrix_flops_per_s={"bf16": 1e14, "fp8": 2e14},
    vector_flops_per_s=1e13,
    link_bytes_per_s=None,
    l2_bytes=1e7,
    visible_bytes=1e10,
    capacity_bytes=1e10,
    architecture="round",
    multiprocessors=100,
)
"""100 multiprocessors of 1 TFLOP/s each in BF16, and 1 TB/s."""

PREFILL = attention_prefill.MODEL
DECODE = attention_decode.MODEL
LOOSE = 1 + 1e-9
"""Rounding of a sum of floats is no fall."""
SPLIT = 1.03
"""What a kernel that cuts contexts into blocks takes back where one block more runs beside."""
GRAIN = 1.05
"""What rounding work up to tiles may take back: heads that come to share a tile leave it fewer
positions, whose longest tile may walk a little less.
"""


def plain(variant: Variant, **changes: float) -> dict[str, float]:
    """Constants of a machine without losses: everything achieved, nothing fixed."""
    lossless = {"stream_bytes_per_s": 1e15, "longest": 1.0, "l2_share": 1.0}
    ratios = {
        word.name: 1.0
        for word in variant.constants
        if "share" in word.name and word.name not in lossless
    }
    zeros = {word.name: 0.0 for word in variant.constants}
    return zeros | ratios | {k: v for k, v in lossless.items() if k in zeros} | changes


def drawn(variant: Variant) -> st.SearchStrategy[dict[str, float]]:
    """Constants anywhere within their bounds."""
    return st.fixed_dictionaries(
        {word.name: st.floats(word.low, word.high) for word in variant.constants}
    )


def cases(model: KernelModel, names: list[str]) -> st.SearchStrategy[tuple[str, dict[str, float]]]:
    """A variant with constants."""
    return st.sampled_from(names).flatmap(
        lambda name: st.tuples(st.just(name), drawn(model.variants[name]))
    )


HEADS = st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 3, 4, 7, 8, 16, 48]))
DIMS = st.sampled_from([64, 128, 192, 256])
WINDOWS = st.sampled_from([0, 128, 1024, 8192])


@st.composite
def decode_shapes(draw: st.DrawFn) -> AttentionShape:
    """A decode step of up to 2,048 like sequences."""
    kv_heads, group = draw(HEADS)
    return AttentionShape(
        draw(st.integers(1, 2048)),
        1,
        draw(st.integers(1, 131_072)),
        kv_heads * group,
        kv_heads,
        draw(DIMS),
        window=draw(WINDOWS),
    )


@st.composite
def prefill_shapes(draw: st.DrawFn) -> AttentionShape:
    """Up to 64 like prompts, or chunks of them behind a cached prefix."""
    kv_heads, group = draw(HEADS)
    new = draw(st.integers(1, 16_384))
    return AttentionShape(
        draw(st.integers(1, 64)),
        new,
        new + draw(st.integers(0, 16_384)),
        kv_heads * group,
        kv_heads,
        draw(DIMS),
        window=draw(WINDOWS),
    )


DECODES = cases(DECODE, sorted(attention_decode.VARIANTS))
PREFILLS = cases(PREFILL, sorted(attention_prefill.VARIANTS))


def test_long_contexts_stream_at_the_achieved_bandwidth():
    """Eight sequences of 100,000 tokens, 8 KV heads of 128: 3.2768 GB at 0.8 TB/s are 4.1 ms."""
    values = plain(DECODE.variants["fa3.bf16"], dram_share=0.8)
    time_s = DECODE.time_s("fa3.bf16", AttentionShape(8, 1, 100_000, 32, 8, 128), ROUND, values)
    kv_bytes = 8 * 100_000 * 8 * 2 * 128 * 2
    io_bytes = 2 * 2 * 8 * 32 * 128
    assert time_s == pytest.approx((kv_bytes + io_bytes) / 0.8e12, rel=1e-3)


def test_fp8_halves_what_a_long_context_streams():
    """KV of one byte per element takes half the time of two."""
    shape = AttentionShape(8, 1, 100_000, 32, 8, 128)
    times = [
        DECODE.time_s(name, shape, ROUND, plain(DECODE.variants[name]))
        for name in ("fa3.bf16", "fa3.fp8")
    ]
    assert times[1] == pytest.approx(times[0] / 2, rel=1e-3)


def test_a_context_is_split_over_idle_multiprocessors():
    """One KV head of 6,400 keys on 100 multiprocessors: FA3 splits it by 32 at most.

    Streaming a key takes 512 ns at 1 GB/s and multiplying it by 8 rows 8·4·128 FLOPs at
    1 TFLOP/s: 6,400 / 32 keys of both, and 31/32 of combining.
    """
    values = plain(DECODE.variants["fa3.bf16"], stream_bytes_per_s=1e9, combine_s=1e-6)
    time_s = DECODE.time_s("fa3.bf16", AttentionShape(1, 1, 6_400, 8, 1, 128), ROUND, values)
    assert time_s == pytest.approx(200 * (512e-9 + 4.096e-9) + 31 / 32 * 1e-6, rel=1e-3)


def test_flash_attention_2_does_not_split_under_a_window():
    """With a window it neither packs nor splits: 4,096 keys stream through one multiprocessor."""
    values = plain(DECODE.variants["fa2.bf16"], stream_bytes_per_s=1e9)
    shape = AttentionShape(1, 1, 8_192, 8, 1, 128, window=4_096)
    assert DECODE.time_s("fa2.bf16", shape, ROUND, values) == pytest.approx(
        4_096 * (512e-9 + 4.096e-9), rel=1e-3
    )


def test_one_tile_of_prefill_does_its_flops_on_one_multiprocessor():
    """64 queries of one head walk two blocks of 32 keys: 4·64·64·128 FLOPs at 1 TFLOP/s.

    What they read and write, 66 kB, is still in the L2.
    """
    values = plain(PREFILL.variants["fa2.bf16"])
    time_s = PREFILL.time_s("fa2.bf16", AttentionShape(1, 64, 64, 1, 1, 128), ROUND, values)
    assert time_s == pytest.approx(4 * 64 * 64 * 128 / 1e12)


def test_a_window_bounds_what_prefill_walks():
    """Behind a window of 1,024, most queries of a prompt of 16,384 see as many keys.

    Queries, keys, values and outputs, 16,384 · (32 + 8) · 256 · 2 bytes, move all the same.
    """
    values = plain(PREFILL.variants["fa2.bf16"])
    whole = AttentionShape(1, 16_384, 16_384, 32, 8, 128)
    narrow = dataclasses.replace(whole, window=1_024)
    flops = attention_prefill.causal_flops(whole), attention_prefill.causal_flops(narrow)
    assert flops[0] == 4 * 32 * 128 * 16_384 * 16_385 / 2
    assert flops[1] == 4 * 32 * 128 * (1_024 * 1_025 / 2 + (16_384 - 1_024) * 1_024)
    times = [PREFILL.time_s("fa2.bf16", each, ROUND, values) for each in (whole, narrow)]
    memory_s = 16_384 * (32 + 8) * 256 * 2 / 1e12
    walked = (times[1] - memory_s) / (times[0] - memory_s)
    assert walked == pytest.approx(flops[1] / flops[0], rel=0.1)


def test_absorbed_attention_reads_the_latent_once():
    """128 heads share 576 elements per token: 100,000 tokens of 8 sequences are 922 MB."""
    values = plain(mla.DECODE.variants["flashmla.bf16"], matrix_share=1e9)
    time_s = mla.DECODE.time_s("flashmla.bf16", mla.MlaShape(8, 1, 100_000, 128), ROUND, values)
    assert time_s == pytest.approx(8 * 100_000 * 576 * 2 / 1e12, rel=0.01)


def test_expanded_attention_is_multi_head():
    """Prefill has keys of 192 and values of 128 elements in each head."""
    shape = mla.expanded(mla.MlaShape(2, 1_024, 1_024, 16))
    assert attention_prefill.causal_flops(shape) == 2 * 16 * 2 * 320 * 1_024 * 1_025 / 2


@settings(max_examples=many(60, 300), deadline=None)
@given(DECODES, decode_shapes(), st.sampled_from(["batch", "kv_tokens"]), st.integers(1, 3000))
def test_decode_never_gets_faster_with_batch_or_context(case, shape, name, more):
    """More sequences or a longer context take as long or longer, cold and warm.

    Where the context grows past the window the engine's rule changes, and with it the splits; one
    kernel splits a window ever more finely as the history behind it grows.
    """
    variant, values = case
    larger = dataclasses.replace(shape, **{name: getattr(shape, name) + more})
    hidden = 0 < shape.window < larger.kv_tokens
    by_history = attention_decode.KERNELS[variant.split(".")[0]].splits == "blocks"
    assume(not (hidden and (by_history or shape.kv_tokens <= shape.window)))
    for warm in (False, True):
        small_s = DECODE.time_s(variant, shape, ROUND, values, warm=warm)
        large_s = DECODE.time_s(variant, larger, ROUND, values, warm=warm)
        assert large_s * (SPLIT if by_history else LOOSE) >= small_s


@settings(max_examples=many(50, 200), deadline=None)
@given(DECODES, decode_shapes(), st.integers(2, 5))
def test_decode_never_gets_faster_with_heads(case, shape, times):
    """More KV heads with their query heads, or more query heads in groups of two and up."""
    variant, values = case
    wider = dataclasses.replace(shape, heads=shape.heads * times, kv_heads=shape.kv_heads * times)
    changed = [wider]
    if shape.heads > shape.kv_heads:
        changed.append(dataclasses.replace(shape, heads=shape.heads * times))
    small_s = DECODE.time_s(variant, shape, ROUND, values)
    for larger in changed:
        assert DECODE.time_s(variant, larger, ROUND, values) * LOOSE >= small_s


@settings(max_examples=many(50, 200), deadline=None)
@given(
    PREFILLS, prefill_shapes(), st.sampled_from(["batch", "context", "new"]), st.integers(1, 999)
)
def test_prefill_never_gets_faster_with_batch_context_or_new_tokens(case, shape, name, more):
    """A longer prefix, more new tokens behind the same prefix, or more prompts."""
    variant, values = case
    changes = {
        "batch": {"batch": shape.batch + more},
        "context": {"kv_tokens": shape.kv_tokens + more},
        "new": {"new_tokens": shape.new_tokens + more, "kv_tokens": shape.kv_tokens + more},
    }
    larger = dataclasses.replace(shape, **changes[name])
    small_s = PREFILL.time_s(variant, shape, ROUND, values)
    assert PREFILL.time_s(variant, larger, ROUND, values) * LOOSE >= small_s


@settings(max_examples=many(30, 100), deadline=None)
@given(PREFILLS, prefill_shapes(), st.integers(2, 5))
def test_prefill_never_gets_faster_with_heads(case, shape, times):
    """More query heads, with KV heads of their own or, but for the grain of tiles, without."""
    variant, values = case
    small_s = PREFILL.time_s(variant, shape, ROUND, values)
    more = {"heads": shape.heads * times}
    apart = dataclasses.replace(shape, **more, kv_heads=shape.kv_heads * times)
    assert PREFILL.time_s(variant, apart, ROUND, values) * LOOSE >= small_s
    grouped = dataclasses.replace(shape, **more)
    assert PREFILL.time_s(variant, grouped, ROUND, values) * GRAIN >= small_s


@settings(max_examples=many(50, 200), deadline=None)
@given(DECODES, decode_shapes())
def test_cold_decode_is_bound_by_its_bytes_and_no_faster_than_warm(case, shape):
    """KV at the datasheet's bandwidth is a floor, and caches only help."""
    variant, values = case
    cold_s = DECODE.time_s(variant, shape, ROUND, values)
    keys = min(shape.kv_tokens, shape.window or shape.kv_tokens)
    element = 1 if variant.endswith("fp8") else 2
    kv_bytes = shape.batch * shape.kv_heads * keys * 2 * shape.head_dim * element
    assert cold_s >= kv_bytes / ROUND.bandwidth_bytes_per_s
    assert cold_s * LOOSE >= DECODE.time_s(variant, shape, ROUND, values, warm=True)


@settings(max_examples=many(50, 200), deadline=None)
@given(PREFILLS, prefill_shapes())
def test_prefill_is_bound_by_its_causal_flops_and_cold_is_no_faster_than_warm(case, shape):
    """No share of the peak above one survives, and a cached prefix costs when it is cold."""
    variant, values = case
    cold_s = PREFILL.time_s(variant, shape, ROUND, values)
    peak = ROUND.peak("fp8" if "-fp8." in variant else "bf16")
    assert cold_s >= attention_prefill.causal_flops(shape) / peak
    assert cold_s * LOOSE >= PREFILL.time_s(variant, shape, ROUND, values, warm=True)


@settings(max_examples=many(30, 100), deadline=None)
@given(
    st.one_of(
        st.tuples(st.just(mla.PREFILL), cases(mla.PREFILL, sorted(mla.PREFILL_VARIANTS))),
        st.tuples(st.just(mla.DECODE), cases(mla.DECODE, sorted(mla.DECODE_VARIANTS))),
    ),
    st.integers(1, 512),
    st.integers(1, 16_384),
    st.sampled_from([1, 8, 16, 64, 128]),
    st.sampled_from(["batch", "kv_tokens", "heads"]),
)
def test_latent_attention_never_gets_faster_with_work(case, batch, context, heads, name):
    """Twice the sequences, context or heads take as long or longer; cold is no faster than warm."""
    model, (variant, values) = case
    new = context if model is mla.PREFILL else 1
    shape = mla.MlaShape(batch, new, context, heads)
    larger = dataclasses.replace(shape, **{name: 2 * getattr(shape, name)})
    small_s = model.time_s(variant, shape, ROUND, values)
    assert model.time_s(variant, larger, ROUND, values) * LOOSE >= small_s
    assert small_s * LOOSE >= model.time_s(variant, shape, ROUND, values, warm=True)


@pytest.mark.parametrize(
    ("model", "variants", "make"),
    [
        (PREFILL, attention_prefill.VARIANTS, lambda b, t: AttentionShape(b, t, 2 * t, 24, 4, 128)),
        (
            DECODE,
            attention_decode.VARIANTS,
            lambda b, t: AttentionShape(b, 1, t, 24, 4, 128, window=1_024),
        ),
        (mla.PREFILL, mla.PREFILL_VARIANTS, lambda b, t: mla.MlaShape(b, t, t, 16)),
        (mla.DECODE, mla.DECODE_VARIANTS, lambda b, t: mla.MlaShape(b, 1, t, 16)),
    ],
)
@pytest.mark.parametrize("warm", [False, True])
def test_a_thousand_shapes_at_once_cost_what_each_costs_alone(model, variants, make, warm):
    """Arrays and scalars go through the same code, for every variant."""
    batches = np.array([1, 3, 64, 100, 2_048], float)
    tokens = np.array([1, 129, 1_000, 4_096, 33_333], float)
    for name in variants:
        values = {word.name: word.start for word in model.variants[name].constants}
        together = model.time_s(name, make(batches, tokens), ROUND, values, warm=warm)
        alone = [
            model.time_s(name, make(int(b), int(t)), ROUND, values, warm=warm)
            for b, t in zip(batches, tokens, strict=True)
        ]
        assert together == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("model", [PREFILL, DECODE, mla.PREFILL, mla.DECODE])
def test_constants_are_few_bounded_and_start_inside(model):
    """At most 14 each, every start within its bounds."""
    tables = {
        PREFILL: attention_prefill.VARIANTS,
        DECODE: attention_decode.VARIANTS,
        mla.PREFILL: mla.PREFILL_VARIANTS,
        mla.DECODE: mla.DECODE_VARIANTS,
    }
    for name in tables[model]:
        words = model.variants[name].constants
        assert len(words) <= 14
        assert all(word.low <= word.start <= word.high for word in words)


def test_an_unknown_variant_is_refused():
    """A name that no kernel has is a KeyError, not a guess."""
    with pytest.raises(KeyError):
        DECODE.variants["fa9.bf16"]
