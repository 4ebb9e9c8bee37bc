"""Blocks of experts: router loads against a simulated router, and what the formula promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_samples import drawn_constants, machine, typical

from planner.cost.kernels.moe import KERNELS, KINDS, MODEL, MoeShape
from planner.ops.moe_load import Load, balanced, power_law, random

NAMES = [f"{kernel}_{kind}" for kernel in KERNELS for kind in KINDS]
PLAIN = {
    "t0_s": 1e-6,
    "doubling_s": 1e-9,
    "expert_s": 1e-10,
    "eta_memory": 0.8,
    "eta_compute": 0.5,
    "p": 8.0,
    "fill_s": 1e-11,
    "tile_rows": 1.0,
    "passes_all": 1e-3,
    "passes_local": 1e-3,
    "passes_hidden": 1e-3,
}
"""Constants with which weights or FLOPs decide."""


def simulated(tokens, top_k, experts, ep, draws=200):
    """Pairs and touched experts of the busiest rank, the mean of many random routings."""
    rng = np.random.default_rng(7)
    pairs, touched = [], []
    for _ in range(draws):
        scores = rng.random((tokens, experts))
        chosen = np.argpartition(scores, top_k, axis=1)[:, :top_k]
        counts = np.bincount(chosen.ravel(), minlength=experts).reshape(ep, -1)
        pairs.append(counts.sum(axis=1).max())
        touched.append((counts > 0).sum(axis=1).mean())
    return np.mean(pairs), np.mean(touched)


@pytest.mark.parametrize(
    ("tokens", "top_k", "experts", "ep"),
    [(1, 8, 128, 1), (16, 8, 128, 1), (64, 2, 8, 1), (64, 8, 256, 8), (512, 8, 256, 16)],
)
def test_random_routing_touches_as_many_experts_as_a_simulated_router(tokens, top_k, experts, ep):
    """Touched experts within 3 %, pairs of the busiest rank within 5 %."""
    pairs, touched = simulated(tokens, top_k, experts, ep)
    load = random(tokens, top_k, experts, ep)
    assert load.touched == pytest.approx(touched, rel=0.03)
    assert load.pairs == pytest.approx(pairs, rel=0.05)


def test_one_token_touches_its_own_experts():
    """8 of 128."""
    assert random(1, 8, 128, 1) == Load(pytest.approx(8), pytest.approx(8))


def test_sixteen_tokens_touch_this_many_of_128_experts():
    """128 × (1 − (1 − 8/128)¹⁶) = 128 × (1 − 0.9375¹⁶) = 128 × 0.644 = 82.4."""
    assert random(16, 8, 128, 1).touched == pytest.approx(82.4, abs=0.1)


def test_balanced_routing_spreads_pairs_over_all_experts():
    """4 tokens × 8 = 32 pairs on 4 ranks of 32 experts each: 8 pairs, 8 experts."""
    assert balanced(4, 8, 128, 4) == Load(8, 8)
    assert balanced(64, 8, 128, 4) == Load(128, 32)


def test_a_power_law_leaves_more_experts_out_than_chance_does():
    """A few popular experts take what others would have had."""
    law = power_law(*(np.array([value]) for value in (64.0, 8.0, 256.0, 1.0, 1.2)))
    assert law.touched[0] < random(64, 8, 256, 1).touched
    assert law.pairs[0] == pytest.approx(64 * 8)


def test_a_power_law_loads_the_busiest_rank_above_the_mean():
    """8 ranks of 32 experts: more than an eighth of 4096 pairs, no more than one token each."""
    law = power_law(*(np.array([value]) for value in (512.0, 8.0, 256.0, 8.0, 1.2)))
    assert 512 < law.pairs[0] <= 512 * 8
    assert law.touched[0] <= 32


@given(
    tokens=st.integers(1, 4096),
    more=st.integers(1, 4096),
    top_k=st.integers(1, 8),
    experts=st.sampled_from([8, 64, 256]),
    ep=st.sampled_from([1, 2, 8]),
)
def test_more_tokens_never_mean_fewer_pairs_or_experts(tokens, more, top_k, experts, ep):
    """And touched experts never exceed the rank's own, nor its pairs."""
    first, second = (random(count, top_k, experts, ep) for count in (tokens, tokens + more))
    assert first.pairs <= second.pairs * (1 + 1e-12)
    assert first.touched <= second.touched * (1 + 1e-12)
    assert first.touched <= min(experts / ep, first.pairs)


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_has_at_most_fourteen_constants_inside_their_bounds(name):
    """A handful of constants, each with a start between its bounds."""
    constants = MODEL.variants[name].constants
    assert len(constants) <= 14
    assert all(word.low < word.start < word.high for word in constants)


def test_few_tokens_wait_for_the_weights_of_the_touched_experts():
    """8 experts × 3 × 2048 × 768 × 2 bytes = 75.5 MB at 0.8 TB/s = 94.4 us, and 1 us."""
    shape = MoeShape(1, 2048, 768, 8, pairs=8, touched=8)
    time_s = MODEL.time_s("triton_bf16", shape, machine(), PLAIN)
    assert time_s == pytest.approx(95.4e-6, rel=0.01)


def test_fp8_experts_are_half_the_bytes():
    """47.2 us of weights."""
    shape = MoeShape(1, 2048, 768, 8, pairs=8, touched=8)
    time_s = MODEL.time_s("cutlass_fp8", shape, machine(), PLAIN)
    assert time_s == pytest.approx(48.2e-6, rel=0.01)


def test_experts_without_a_gate_have_two_matrices():
    """8 × 2 × 2048 × 768 × 2 bytes = 50.3 MB at 0.8 TB/s = 62.9 us, and 1 us."""
    shape = MoeShape(1, 2048, 768, 8, pairs=8, touched=8, gated=False)
    time_s = MODEL.time_s("triton_bf16", shape, machine(), PLAIN)
    assert time_s == pytest.approx(63.9e-6, rel=0.01)


def test_many_tokens_wait_for_the_matrix_units():
    """131,072 pairs × 6 × 2048 × 768 FLOP at 50 TFLOP/s = 24.7 ms."""
    shape = MoeShape(16384, 2048, 768, 8, pairs=131072, touched=128)
    time_s = MODEL.time_s("cutlass_bf16", shape, machine(), PLAIN)
    assert time_s == pytest.approx(24.74e-3, rel=0.01)


def test_tiles_pad_each_expert():
    """64-row tiles on 128 experts of 64 pairs each: half of each expert's rows again."""
    values = PLAIN | {"tile_rows": 64.0}
    shape = MoeShape(1024, 2048, 768, 8, pairs=8192, touched=128)
    slow_memory = machine()
    padded = MODEL.time_s("cutlass_bf16", shape, slow_memory, values | {"eta_compute": 0.01})
    bare = MODEL.time_s("cutlass_bf16", shape, slow_memory, PLAIN | {"eta_compute": 0.01})
    assert padded / bare == pytest.approx(1.5, rel=0.02)


def test_warm_experts_that_fit_the_l2_come_at_its_speed():
    """8 × 3 × 256 × 64 × 2 bytes = 0.8 MB of a 10 MB L2, twice as quick."""
    shape = MoeShape(1, 256, 64, 8, pairs=8, touched=8)
    values = PLAIN | {"l2_share": 1.0, "l2_speed": 2.0}
    cold, warm = (
        MODEL.time_s("triton_bf16", shape, machine(), values, warm=each) for each in (False, True)
    )
    assert cold - warm == pytest.approx(0.5 * 786_432 / 0.8e12, rel=0.02)


LOADS = st.tuples(
    st.integers(1, 4096), st.integers(1, 4096), st.integers(64, 8192), st.integers(16, 16384)
)


@given(name=st.sampled_from(NAMES), load=LOADS, warm=st.booleans(), data=st.data())
def test_more_tokens_never_take_less_time(name, load, warm, data):
    """Whatever the constants, under random routing to 64 experts."""
    tokens, more, hidden, width = load
    values = data.draw(drawn_constants(MODEL.variants[name]))
    first, second = (
        MODEL.time_s(name, routed(count, hidden, width), machine(), values, warm=warm)
        for count in (tokens, tokens + more)
    )
    assert first <= second * (1 + 1e-9)


@given(name=st.sampled_from(NAMES), load=LOADS, data=st.data())
def test_never_faster_than_memory(name, load, data):
    """Cold weights of the touched experts come at the share of bandwidth the constants grant."""
    tokens, _more, hidden, width = load
    values = data.draw(drawn_constants(MODEL.variants[name]))
    shape = routed(tokens, hidden, width)
    size = KINDS[name.partition("_")[2]].bytes_per_weight
    least_s = 3 * shape.touched * hidden * width * size / (values["eta_memory"] * 1e12)
    assert MODEL.time_s(name, shape, machine(), values) >= least_s


@given(name=st.sampled_from(NAMES), load=LOADS, warm=st.booleans(), data=st.data())
def test_a_number_and_an_array_agree(name, load, warm, data):
    """One formula prices one layer or many."""
    tokens, _more, hidden, width = load
    values = data.draw(drawn_constants(MODEL.variants[name]))
    one = routed(tokens, hidden, width)
    fields = (one.tokens, one.hidden, one.intermediate, one.top_k, one.pairs, one.touched)
    many = MoeShape(*(np.array([field, field], float) for field in fields), gated=np.array([1, 1]))
    alone = MODEL.time_s(name, one, machine(), values, warm=warm)
    assert MODEL.time_s(name, many, machine(), values, warm=warm) == pytest.approx(alone, rel=1e-9)


def routed(tokens, hidden, width):
    load = random(tokens, 8, 64, 1)
    return MoeShape(tokens, hidden, width, 8, load.pairs, load.touched)


def test_a_format_the_matrix_units_lack_runs_at_the_16_bit_rate():
    """No NVFP4 on this machine: as slow as BF16 once FLOPs decide."""
    shape = MoeShape(16384, 2048, 768, 8, pairs=131072, touched=128)
    bf16, nvfp4 = (
        MODEL.time_s(name, shape, machine(), typical(MODEL.variants[name], **PLAIN))
        for name in ("cutlass_bf16", "cutlass_nvfp4")
    )
    assert nvfp4 == pytest.approx(bf16, rel=0.01)


def test_an_unknown_variant_is_a_key_error():
    """Names are settled, not guessed."""
    with pytest.raises(KeyError):
        MODEL.variants["triton_int8"]
