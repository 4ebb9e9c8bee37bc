"""Collectives: what the formula promises, on a machine with round numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_samples import drawn_constants, machine, typical

from planner.cost.kernels.collective import (
    CROSS_DEVICE,
    ENGINE_ALL_REDUCE,
    MODEL,
    VARIANTS,
    CollectiveShape,
    share_of_link,
)

NAMES = [variant.name for variant in VARIANTS]
SIZES = st.floats(64, 4e9)
RANKS = st.integers(2, 16)


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_has_at_most_fourteen_constants_inside_their_bounds(name):
    """A handful of constants, each with a start between its bounds."""
    constants = MODEL.variants[name].constants
    assert len(constants) <= 14
    assert all(word.low < word.start < word.high for word in constants)


@given(name=st.sampled_from(NAMES), small=SIZES, more=SIZES, ranks=RANKS, data=st.data())
def test_more_bytes_never_take_less_time(name, small, more, ranks, data):
    """Whatever the constants: also where an engine hands over to NCCL."""
    values = data.draw(drawn_constants(MODEL.variants[name]))
    for eager in (False, True):
        first, second = (
            MODEL.time_s(name, CollectiveShape(size, ranks, eager, eager), machine(), values)
            for size in (small, small + more)
        )
        assert first <= second * (1 + 1e-9)


@given(name=st.sampled_from(NAMES), size=SIZES, ranks=RANKS, data=st.data())
def test_a_number_and_an_array_agree(name, size, ranks, data):
    """One formula prices one message or many."""
    values = data.draw(drawn_constants(MODEL.variants[name]))
    alone = MODEL.time_s(name, CollectiveShape(size, ranks), machine(), values)
    arrays = CollectiveShape(np.array([size, size]), np.array([ranks, ranks]))
    assert MODEL.time_s(name, arrays, machine(), values) == pytest.approx(alone, rel=1e-12)


def test_a_gather_of_a_gigabyte_takes_as_long_as_its_bytes_take_on_the_link():
    """4 ranks, 1 GB: each receives 0.75 GB over 0.5 × 100 GB/s = 15 ms, and 10 + 3·2 us start."""
    values = typical(MODEL.variants["all_gather"], eta_2=0.5, step_4=1, a3_s=1e-5, h3_s=2e-6)
    time_s = MODEL.time_s("all_gather", CollectiveShape(1e9, 4), machine(), values)
    assert time_s == pytest.approx(0.015 + 16e-6, rel=1e-3)


def test_an_all_reduce_moves_a_gathers_bytes_twice():
    """A reduce-scatter and an all-gather: 2 × 15 ms."""
    values = typical(MODEL.variants["all_reduce"], eta_2=0.5, step_4=1, a3_s=1e-5, h3_s=2e-6)
    time_s = MODEL.time_s("all_reduce", CollectiveShape(1e9, 4), machine(), values)
    assert time_s == pytest.approx(0.030 + 16e-6, rel=1e-3)


def test_a_tiny_message_takes_the_start_of_the_quickest_kernel():
    """4 us + 3 × 0.2 us for one-shot among 4 ranks; 256 bytes add next to nothing."""
    values = typical(MODEL.variants[ENGINE_ALL_REDUCE])
    time_s = MODEL.time_s(ENGINE_ALL_REDUCE, CollectiveShape(256, 4), machine(), values)
    assert time_s == pytest.approx(4.6e-6, rel=0.02)


def test_one_shot_pays_for_every_rank_and_two_shot_does_not():
    """At 8 ranks one-shot moves 4 times two-shot's bytes, so large messages go in two shots.

    w = 0.2e6 / 70e9 = 2.9 us for 0.2 MB at 2 ranks; at 8 it is 1.75 × 28.6 = 50 us for 2 MB.
    """
    values = typical(MODEL.variants[ENGINE_ALL_REDUCE], switch_bytes=2e9, step_4=1, step_8=1)
    two, eight = (
        MODEL.time_s(ENGINE_ALL_REDUCE, CollectiveShape(size, ranks), machine(), values)
        for size, ranks in ((2e5, 2), (2e6, 8))
    )
    assert two == pytest.approx((4 + 0.2 + 1.2 * 2.9) * 1e-6, rel=0.05)
    assert eight == pytest.approx((7 + 7 * 0.5 + 50) * 1e-6, rel=0.05)


@pytest.mark.parametrize(
    ("ranks", "size", "expected_us"),
    [
        (2, 1e6, 4 + 0.2 + 1.2 * 1e6 / 70e3),  # two ranks stay with one shot: w = S / 70 GB/s
        (4, 524287, 4 + 0.6 + 1.2 * 2 * 1.5 * 524287 / 70e3),  # w = 2 · (2 · 3/4) · S / 70 GB/s
        (4, 524288, 25 + 1.5 + 1.5 * 524288 / 70e3),  # 512 KiB: two shots, no multiple of w
        (8, 262143, 4 + 1.4 + 1.2 * 4 * 1.75 * 262143 / 70e3),
        # two shots would take 25 + 3.5 + 6.6 us there: no less than just below
        (8, 262144, 4 + 1.4 + 1.2 * 4 * 1.75 * 262144 / 70e3),
    ],
)
def test_cross_device_kernels_go_in_two_shots_by_size(ranks, size, expected_us):
    """512 KiB among up to four ranks, 256 KiB among more, whatever would be quicker."""
    values = typical(MODEL.variants[CROSS_DEVICE], switch_bytes=8e6, step_4=1, step_8=1, a2_s=25e-6)
    time_s = MODEL.time_s(CROSS_DEVICE, CollectiveShape(size, ranks), machine(), values)
    assert time_s * 1e6 == pytest.approx(expected_us, rel=1e-3)


def test_at_the_switch_the_time_steps_up_to_nccls():
    """Just below 1 MB one-shot (4.2 + 1.2 × 14.3 us); from it on bulk (15 + 1 + 14.3 us)."""
    values = typical(
        MODEL.variants[ENGINE_ALL_REDUCE], switch_bytes=1e6, a3_s=15e-6, h3_s=1e-6, a2_s=1e-4
    )
    below, above = (
        MODEL.time_s(ENGINE_ALL_REDUCE, CollectiveShape(size, 2), machine(), values)
        for size in (0.999e6, 1e6)
    )
    assert below == pytest.approx(21.3e-6, rel=0.02)
    assert above == pytest.approx(30.3e-6, rel=0.01)


def test_an_eager_call_is_never_quicker_than_the_host():
    """A 4 us kernel called every 25 us takes 25 us; a long one hides the call."""
    values = typical(MODEL.variants[ENGINE_ALL_REDUCE], call_s=25e-6)
    small, large = (
        MODEL.time_s(ENGINE_ALL_REDUCE, CollectiveShape(size, 2, eager=True), machine(), values)
        for size in (256, 1e9)
    )
    graph = MODEL.time_s(ENGINE_ALL_REDUCE, CollectiveShape(1e9, 2), machine(), values)
    assert small == pytest.approx(25e-6, rel=1e-3)
    assert large == pytest.approx(graph, rel=1e-9)


@given(name=st.sampled_from(NAMES), size=SIZES, ranks=RANKS, data=st.data())
def test_bulk_is_never_quicker_than_its_share_of_the_link(name, size, ranks, data):
    """A rank receives (N−1)/N of the bytes at least; no kernel beats that at the share it has.

    Latency kernels may be fitted below it (r1 under 1), since some skip the link's slow start.
    """
    values = data.draw(drawn_constants(MODEL.variants[name]))
    values |= {key: max(values[key], 1.0) for key in ("r1", "r2") if key in values}
    time_s = MODEL.time_s(name, CollectiveShape(size, ranks), machine(), values)
    least_s = (ranks - 1) / ranks * size / (share_of_link(values, ranks) * 100e9)
    assert time_s >= least_s * 0.8


def test_the_share_of_the_link_is_fitted_at_two_four_and_eight_ranks():
    """0.5, then × 1.2, then × 1.1; 6 ranks stand half way, 16 where 8 do."""
    values = {"eta_2": 0.5, "step_4": 1.2, "step_8": 1.1}
    shares = [share_of_link(values, ranks) for ranks in (2, 4, 6, 8, 16)]
    assert shares == pytest.approx([0.5, 0.6, 0.6 * 1.1**0.5, 0.66, 0.66])


def test_a_gpu_without_a_link_moves_bytes_through_its_memory():
    """1 GB among 2 ranks at 0.7 × 1000 GB/s: half of it, 0.71 ms."""
    values = typical(MODEL.variants["all_gather"])
    time_s = MODEL.time_s("all_gather", CollectiveShape(1e9, 2), machine(link=None), values)
    assert time_s == pytest.approx(0.5e9 / 0.7e12, rel=0.02)


def test_an_unknown_variant_is_a_key_error():
    """Names are settled, not guessed."""
    with pytest.raises(KeyError):
        MODEL.variants["broadcast"]
