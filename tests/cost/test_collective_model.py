"""Collectives: what the formula promises, on a machine with round numbers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_samples import drawn_constants, machine, typical

from planner.cost.kernels.all_reduce import CROSS_DEVICE, SYMMETRIC
from planner.cost.kernels.collective import ENGINE_ALL_REDUCE, MODEL, VARIANTS, CollectiveShape
from planner.cost.kernels.links import share_of_link

NAMES = [variant.name for variant in VARIANTS]
GROWING = [name for name in NAMES if name != SYMMETRIC]
"""Symmetric memory takes less for more where it takes over: 17 us after 26 (eight B200)."""
OF_THE_LINK = [name for name in NAMES if name not in {CROSS_DEVICE, SYMMETRIC}]
"""Of the others one stage is counted by what a pair has, whatever more ranks have."""
SIZES = st.floats(64, 4e9)
RANKS = st.integers(2, 16)


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_has_at_most_fourteen_constants_inside_their_bounds(name):
    """A handful of constants to fit, each with a start between its bounds."""
    variant = MODEL.variants[name]
    constants = variant.constants
    assert len({word.name for word in constants} - set(variant.lent)) <= 14
    if variant.lender:
        lender = MODEL.variants[variant.lender].constants
        assert set(variant.lent) <= {word.name for word in lender} & {w.name for w in constants}
    assert all(word.low < word.start < word.high for word in constants)


@given(name=st.sampled_from(GROWING), small=SIZES, more=SIZES, ranks=RANKS, data=st.data())
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


STARTS = {"step_4": 1, "step_8": 1, "a2_s": 40e-6, "h2_s": 1e-6, "a3_s": 15e-6, "h3_s": 1e-6}
KIB, MIB = 2**10, 2**20


def in_turn(first, second):
    """The soft maximum of two stages, of order 4."""
    return (first**4 + second**4) ** 0.25


@pytest.mark.parametrize(
    ("ranks", "size", "g1", "expected_us"),
    [
        (2, 1e6, 1, 4 + 0.2 + 1.2 * 1e6 / 70e3),  # two ranks stay with one stage: S / 70 GB/s
        (4, 512 * KIB - 1, 1, 4 + 0.6 + 1.2 * 3 * (512 * KIB - 1) / 70e3),  # three others to read
        (4, 256 * KIB, 0.5, 4 + 0.6 + 1.2 * 3**0.5 * 256 * KIB / 70e3),  # in part side by side
        # two stages: 40 + 3 us to meet, or 1.2 · 1.1 times w = 2 · (3/4) · S / 70 GB/s = 14.8 us
        (4, 512 * KIB, 1, in_turn(43, 4.6 + 1.32 * 1.5 * 512 * KIB / 70e3)),
        (8, 256 * KIB - 1, 1, 4 + 1.4 + 1.2 * 7 * (256 * KIB - 1) / 70e3),
        (8, 256 * KIB, 1, in_turn(47, 5.4 + 1.32 * 1.75 * 256 * KIB / 70e3)),
        (8, 8 * MIB, 1, in_turn(47, 5.4 + 1.32 * 1.75 * 8 * MIB / 70e3)),
        # NCCL would take 15 + 7 + 209.7 us: no less than just below, 282.3
        (8, 8 * MIB + 16, 1, in_turn(47, 5.4 + 1.32 * 1.75 * 8 * MIB / 70e3)),
        (8, 64 * MIB, 1, 15 + 7 + 1.75 * 64 * MIB / 70e3),
    ],
)
def test_cross_device_kernels_go_in_two_stages_by_size(ranks, size, g1, expected_us):
    """512 KiB among up to four ranks, 256 KiB among more, whatever would be quicker."""
    values = typical(MODEL.variants[CROSS_DEVICE], **STARTS, g1=g1)
    time_s = MODEL.time_s(CROSS_DEVICE, CollectiveShape(size, ranks), machine(), values)
    assert time_s * 1e6 == pytest.approx(expected_us, rel=1e-4)


def test_two_stages_take_no_less_than_one_just_below():
    """They would meet in 5 + 7 us: at 256 KiB among eight, one stage takes 5.4 + 31.5 us."""
    values = typical(MODEL.variants[CROSS_DEVICE], **STARTS | {"a2_s": 5e-6})
    time_s = MODEL.time_s(CROSS_DEVICE, CollectiveShape(256 * KIB, 8), machine(), values)
    assert time_s * 1e6 == pytest.approx(5.4 + 1.2 * 7 * 256 * KIB / 70e3, rel=1e-4)


@pytest.mark.parametrize(
    ("architecture", "ranks", "first", "last", "start_us"),
    [  # in MiB, as vLLM's tables have them; two shots start in 15 us, multimem in 10
        ("hopper", 2, 8, 64, 15),
        ("hopper", 4, 8, 32, 10),
        ("hopper", 6, 0.5, 64, 10),
        ("hopper", 8, 0.25, 64, 10),
        ("blackwell", 2, 2, 8, 15),
        ("blackwell", 4, 2, 32, 15),
        ("blackwell", 6, 1, 128, 10),
        ("blackwell", 8, 1, 128, 10),
        ("blackwell-ultra", 2, 4, 4, 15),
        ("blackwell-ultra", 4, 4, 32, 15),
        ("blackwell-ultra", 6, 8, 32, 10),
        ("blackwell-ultra", 8, 4, 64, 10),
    ],
)
def test_symmetric_memory_works_between_two_sizes(architecture, ranks, first, last, start_us):
    """Below them the engine's own kernel, beyond them NCCL: 15 us, 1 us a rank and w at 70 GB/s.
    Between them 2 · S / 100 GB/s, whatever the ranks.
    """
    values = typical(MODEL.variants[SYMMETRIC], **STARTS)
    device = replace(machine(), architecture=architecture)

    def time_us(size, name=SYMMETRIC):
        return MODEL.time_s(name, CollectiveShape(size, ranks), device, values) * 1e6

    begin, end = first * MIB, last * MIB
    assert time_us(begin - 16) == pytest.approx(time_us(begin - 16, CROSS_DEVICE), rel=1e-9)
    for size in (begin, end):
        assert time_us(size) == pytest.approx(start_us + 2 * size / 100e3, rel=1e-6)
    wire_us = 2 * (ranks - 1) / ranks * (end + 16) / 70e3
    assert time_us(end + 16) == pytest.approx(15 + ranks - 1 + wire_us, rel=1e-6)


def test_other_gpus_have_no_symmetric_memory():
    """Their own kernel ends at 8 MiB, and NCCL's takes less from there: 22 us and w."""
    values = typical(MODEL.variants[SYMMETRIC], **STARTS)
    time_s = MODEL.time_s(SYMMETRIC, CollectiveShape(8 * MIB, 8), machine(), values)
    assert time_s * 1e6 == pytest.approx(22 + 1.75 * 8 * MIB / 70e3, rel=1e-6)


def test_an_eager_call_copies_first_and_takes_longer_through_symmetric_memory():
    """Among eight B200, 1 GB/ms and a call in 20 us, 30 through symmetric memory.

    128 KiB of its own: 5.4 + 15.7 us, 8 to start the copy and 0.3 for 256 KiB at 0.85 TB/s, above
    the call's 20. 1 MiB by multimem: 10 + 21 us and 2.5 of the copy, beside 30 of the calls; soft
    maxima of order 8.
    """
    values = typical(MODEL.variants[SYMMETRIC], **STARTS, call_s=20e-6)
    device = replace(machine(), architecture="blackwell")
    own_us = 5.4 + 1.2 * 7 * 128 * KIB / 70e3 + 8 + 256 * KIB / 0.85e6
    through_us = 10 + 2 * MIB / 100e3 + 2 * MIB / 0.85e6
    for size, alone_us, call_us in ((128 * KIB, own_us, 20), (MIB, through_us, 30)):
        shape = CollectiveShape(size, 8, eager=True, copied=True)
        time_s = MODEL.time_s(SYMMETRIC, shape, device, values)
        assert time_s * 1e6 == pytest.approx((alone_us**8 + call_us**8) ** (1 / 8), rel=1e-6)


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


@given(name=st.sampled_from(OF_THE_LINK), size=SIZES, ranks=RANKS, data=st.data())
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
