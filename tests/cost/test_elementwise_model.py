"""Streaming kernels: what the formula promises, on a machine with round numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_samples import drawn_constants, machine, typical

from planner.cost.kernels.elementwise import MODEL, STREAM, ElementwiseShape

BYTES = st.floats(1, 1e10)
ROWS = st.integers(1, 200_000)
SLIGHT = typical(
    STREAM, t0_s=2e-6, eta=0.8, block_s=1e-9, serial_s_per_byte=1e-13, p=8.0, l2_speed=2.0
)
"""Constants with which memory decides."""


def time_s(shape, values, *, warm=False):
    return MODEL.time_s("stream", shape, machine(), values, warm=warm)


def test_there_are_seven_constants_inside_their_bounds():
    """A handful, each with a start between its bounds."""
    assert len(MODEL.variants["stream"].constants) == 7
    assert all(word.low < word.start < word.high for word in STREAM.constants)


def test_a_large_tensor_streams_at_the_achieved_bandwidth():
    """800 MB at 0.8 × 1 TB/s = 1 ms; the launch, 2 us, and 1e-13 s a byte of a row are dust."""
    assert time_s(ElementwiseShape(5e8, 3e8, 1000), SLIGHT) == pytest.approx(1.002e-3, rel=1e-3)


def test_nothing_to_move_takes_the_launch():
    """One row of two bytes: t0."""
    assert time_s(ElementwiseShape(1, 1, 1), SLIGHT) == pytest.approx(2e-6, rel=1e-3)


def test_many_short_rows_wait_for_their_blocks():
    """100,000 blocks of 1 us on 100 multiprocessors: 1 ms, though 3 MB move in 4 us."""
    values = SLIGHT | {"block_s": 1e-6}
    assert time_s(ElementwiseShape(2e6, 1e6, 100_000), values) == pytest.approx(1.002e-3, rel=1e-3)


def test_a_long_row_is_worked_on_in_passes():
    """One row of 1 MB at 20 ps a byte: 20 us beyond what memory takes, 1.25 us, and t0."""
    values = SLIGHT | {"serial_s_per_byte": 2e-11}
    assert time_s(ElementwiseShape(5e5, 5e5, 1), values) == pytest.approx(23.25e-6, rel=1e-3)


def test_warm_data_in_the_l2_come_at_its_speed():
    """1 MB of a 10 MB L2 at twice 0.8 TB/s: 0.625 us instead of 1.25."""
    shape = ElementwiseShape(5e5, 5e5, 1000)
    cold, warm = time_s(shape, SLIGHT), time_s(shape, SLIGHT, warm=True)
    assert cold - warm == pytest.approx(0.625e-6, rel=0.01)


@given(data=st.data(), size=BYTES, more=BYTES, rows=ROWS, warm=st.booleans())
def test_more_bytes_never_take_less_time(data, size, more, rows, warm):
    """Whatever the constants, warm or cold."""
    values = data.draw(drawn_constants(STREAM))
    first, second = (
        time_s(ElementwiseShape(read, size, rows), values, warm=warm)
        for read in (size, size + more)
    )
    assert first <= second * (1 + 1e-9)


@given(data=st.data(), row=st.floats(2, 1e5), rows=ROWS, more=ROWS)
def test_more_rows_of_one_width_never_take_less_time(data, row, rows, more):
    """More tokens of one model."""
    values = data.draw(drawn_constants(STREAM))
    first, second = (
        time_s(ElementwiseShape(row * count, row * count, count), values)
        for count in (rows, rows + more)
    )
    assert first <= second * (1 + 1e-9)


@given(data=st.data(), read=BYTES, write=BYTES, rows=ROWS)
def test_never_faster_than_memory(data, read, write, rows):
    """Cold bytes come at the share of the bandwidth that the constants grant."""
    values = data.draw(drawn_constants(STREAM))
    least_s = (read + write) / (values["eta"] * 1e12)
    assert time_s(ElementwiseShape(read, write, rows), values) >= least_s


@given(data=st.data(), read=BYTES, write=BYTES, rows=ROWS, warm=st.booleans())
def test_a_number_and_an_array_agree(data, read, write, rows, warm):
    """One formula prices one kernel or many."""
    values = data.draw(drawn_constants(STREAM))
    alone = time_s(ElementwiseShape(read, write, rows), values, warm=warm)
    many = ElementwiseShape(np.array([read] * 2), np.array([write] * 2), np.array([rows] * 2))
    assert time_s(many, values, warm=warm) == pytest.approx(alone, rel=1e-12)


def test_an_unknown_variant_is_a_key_error():
    """Names are settled, not guessed."""
    with pytest.raises(KeyError):
        MODEL.variants["norm"]
