"""The GEMM model: hand-worked times on a round machine, and what must hold for any constants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.kernels.gemm import KINDS, MODEL, GemmShape
from planner.cost.types import Device

ROUND = Device(
    name="round",
    title="Round numbers",
    bandwidth_bytes_per_s=1e12,
    matrix_flops_per_s={"bf16": 1e14, "fp8": 2e14, "nvfp4": 4e14},
    vector_flops_per_s=1e13,
    link_bytes_per_s=None,
    l2_bytes=1e7,
    visible_bytes=1e10,
    capacity_bytes=1e10,
    architecture="round",
    multiprocessors=100,
)
"""100 multiprocessors of 1 TFLOP/s each in BF16, and 1 TB/s."""


def plain(variant: str, **changes: float) -> dict[str, float]:
    """Constants of a machine without losses: everything achieved, nothing fixed."""
    lossless = {
        "matrix_share": 1.0,
        "dram_share": 1.0,
        "overlap": 6.0,
        "l2_speed": 1.0,
        "l2_share": 1.0,
        "quant_share": 1.0,
    }
    names = [constant.name for constant in MODEL.variants[variant].constants]
    return {name: lossless.get(name, 0.0) for name in names} | changes


def test_one_full_wave_takes_the_time_of_one_tile():
    """Rows 128 and features 12,800 are 100 tiles of 128 × 128, one per multiprocessor."""
    values = plain("bf16", split_s=1.0)
    time_s = MODEL.time_s("bf16", GemmShape(128, 10_000, 12_800), ROUND, values)
    tile_s = 2 * 128 * 128 * 10_000 / 1e12  # 327.7 us
    moved_s = (2 * 12_800 * 10_000 + 2 * 128 * 10_000 + 1.1 * 2 * 128 * 12_800) / 1e12  # 262.2 us
    power = 6 * (1 + tile_s / (tile_s + 30e-6))
    assert time_s == pytest.approx(tile_s * (1 + (moved_s / tile_s) ** power) ** (1 / power))


def test_a_wave_that_is_not_full_costs_a_whole_one():
    """129 features are two tiles of 128 though one more feature than one; unsmoothed, that counts."""
    values = plain("fp8_cutlass")
    shape = GemmShape(12_800, 10_000, 129)
    # 128 × 64: 100 × 3 tiles, 3 waves; 128 × 128: 100 × 2 tiles, 2 waves of twice the time;
    # 256 × 128: 50 × 2 = 100 tiles, 1 wave of four times the time. 3 < 4.
    least = 3 * 2 * 128 * 64 * 10_000 / 2e12
    time_s = MODEL.time_s("fp8_cutlass", shape, ROUND, values) - _quantised_s(shape)
    assert least <= time_s < least * 1.01


def _quantised_s(shape: GemmShape) -> float:
    """Reading 16-bit inputs and writing 8-bit ones at 1 TB/s."""
    return shape.rows * shape.depth * 3 / 1e12


def test_a_memory_bound_product_takes_its_bytes():
    """One row by 20,000 × 10,000 weights of 16 bits: 400 MB at 1 TB/s are 400 us."""
    time_s = MODEL.time_s("bf16", GemmShape(1, 10_000, 20_000), ROUND, plain("bf16", floor_s=3e-6))
    moved_s = (4e8 + 2e4 + 1.1 * 4e4) / 1e12
    assert time_s == pytest.approx(moved_s + 3e-6, rel=1e-3)


def test_splitting_the_depth_uses_idle_multiprocessors():
    """128 × 128 outputs are 16 tiles of 16 × 64 on 100 multiprocessors: 65 us for a depth of 64,000.

    Cut in parts they take no longer than their 16 MB of operands.
    """
    shape = GemmShape(128, 64_000, 128, quantised=True)
    alone = MODEL.time_s("fp8_block", shape, ROUND, plain("fp8_block"))
    split = MODEL.time_s("fp8", shape, ROUND, plain("fp8", split_s=2e-6))
    assert alone == pytest.approx(2 * 16 * 64 * 64_000 / 2e12, rel=0.01)
    assert split == pytest.approx(2e-6 + 2 * 128 * 64_000 / 1e12, rel=0.05)


def test_a_product_that_comes_quantised_saves_the_quantiser():
    """The quantiser of 1,000 × 4,000 inputs moves 12 MB: 12 us at 1 TB/s."""
    values = plain("fp8")
    whole = MODEL.time_s("fp8", GemmShape(1_000, 4_000, 500), ROUND, values)
    bare = MODEL.time_s("fp8", GemmShape(1_000, 4_000, 500, quantised=True), ROUND, values)
    assert whole - bare == pytest.approx(12e-6)


def test_serving_reads_weights_from_memory_though_they_would_fit_the_l2():
    """A benchmark that repeats one weight of 2 MB finds it in an L2 of 10 MB; serving does not."""
    values = plain("bf16", l2_speed=4.0)
    shape = GemmShape(1, 1_000, 1_000)
    cold = MODEL.time_s("bf16", shape, ROUND, values)
    warm = MODEL.time_s("bf16", shape, ROUND, values, warm=True)
    assert cold == pytest.approx(2e6 / 1e12, rel=0.01)
    assert warm == pytest.approx(cold / 4, rel=0.1)


def test_a_benchmark_that_cycles_through_many_weights_reads_them_cold():
    """Six weights of 2 MB pass an L2 of 10 MB."""
    values = plain("bf16", l2_speed=4.0)
    one = GemmShape(1, 1_000, 1_000)
    six = GemmShape(1, 1_000, 1_000, weight_copies=6)
    assert MODEL.time_s("bf16", one, ROUND, values, warm=True) < 0.4 * MODEL.time_s(
        "bf16", six, ROUND, values, warm=True
    )


def test_long_arrays_are_priced_as_short_ones():
    """Pieces that keep intermediate results in the cache change nothing."""
    rng = np.random.default_rng(0)
    rows, depth, features = (rng.integers(1, 4_000, 20_000).astype(float) for _ in range(3))
    values = starts("bf16")
    whole = MODEL.time_s("bf16", GemmShape(rows, depth, features), ROUND, values)
    last = MODEL.time_s("bf16", GemmShape(rows[-5:], depth[-5:], features[-5:]), ROUND, values)
    assert whole.shape == (20_000,)
    assert whole[-5:].tolist() == last.tolist()


def starts(variant: str) -> dict[str, float]:
    """The constants that a fit begins with."""
    return {constant.name: constant.start for constant in MODEL.variants[variant].constants}


@pytest.mark.parametrize("variant", sorted(KINDS))
def test_a_scalar_is_priced_as_an_array_of_one(variant):
    """The same formulas take both."""
    values = starts(variant)
    for rows, depth, features in ((1, 4096, 4096), (33, 512, 1000), (4096, 8192, 1024)):
        scalar = MODEL.time_s(variant, GemmShape(rows, depth, features), ROUND, values)
        array = MODEL.time_s(
            variant,
            GemmShape(*(np.array([float(size)]) for size in (rows, depth, features))),
            ROUND,
            values,
        )
        assert scalar == pytest.approx(array[0], rel=1e-12)


@pytest.mark.parametrize("variant", sorted(KINDS))
def test_a_variant_has_a_handful_of_constants_with_meaning_and_bounds(variant):
    """At most 14, each starting inside its bounds."""
    constants = MODEL.variants[variant].constants
    assert len(constants) <= 14
    assert len({constant.name for constant in constants}) == len(constants)
    for constant in constants:
        assert constant.meaning
        assert constant.unit
        assert constant.low <= constant.start <= constant.high


@st.composite
def constants(draw, variant):
    """Any constants within their bounds."""
    return {
        constant.name: draw(st.floats(constant.low, constant.high))
        for constant in MODEL.variants[variant].constants
    }


SIZE = st.integers(1, 20_000)


@pytest.mark.parametrize("variant", sorted(KINDS))
@settings(max_examples=many(40, 150), deadline=None)
@given(data=st.data(), warm=st.booleans())
def test_time_never_falls_when_the_work_grows(variant, data, warm):
    """More rows, depth or features never take less time, whatever the constants."""
    values = data.draw(constants(variant))
    sizes = [data.draw(SIZE), data.draw(SIZE), data.draw(SIZE)]
    grown = [data.draw(st.integers(size, 3 * size)) for size in sizes]
    small = MODEL.time_s(variant, GemmShape(*sizes), ROUND, values, warm=warm)
    large = MODEL.time_s(variant, GemmShape(*grown), ROUND, values, warm=warm)
    assert small <= large * (1 + 1e-9)
    assert 0 < small < math.inf


@pytest.mark.parametrize("variant", sorted(KINDS))
@settings(max_examples=many(20, 60), deadline=None)
@given(data=st.data())
def test_warm_caches_never_slow_a_product(variant, data):
    """What lies in the L2 comes no later than from memory."""
    values = data.draw(constants(variant))
    shape = GemmShape(data.draw(SIZE), data.draw(SIZE), data.draw(SIZE))
    warm = MODEL.time_s(variant, shape, ROUND, values, warm=True)
    cold = MODEL.time_s(variant, shape, ROUND, values)
    assert warm <= cold * (1 + 1e-9)
