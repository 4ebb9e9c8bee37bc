"""Kernels with a state along each sequence: by hand, on a machine with round numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_samples import drawn_constants, machine, typical

from planner.cost.kernels.recurrent import (
    CHUNKS,
    CONV_PROMPTS,
    CONV_STEPS,
    FLASHINFER,
    MODEL,
    STEPS,
    VARIANTS,
    RecurrentShape,
)
from planner.cost.recurrent import is_measured, recurrent_shapes
from planner.ops.recurrent import CausalConv1d, LinearAttention
from planner.ops.types import Dim, Formats, Load, SequenceGroup, Site, Tensor, as_dim

SLIGHT = {"floor_s": 1e-5, "step_s": 1e-9, "piece_s": 1e-10, "state_s": 1e-10, "eta": 0.5, "p": 8.0}
"""Constants with which memory decides."""
COUNTS = st.integers(1, 10_000)
BYTES = st.floats(1, 1e10)
BF16 = Formats("bf16", "bf16", "bf16", "bf16")
DELTA = LinearAttention(16, 4, 128, 128, "delta")
QKV = 2 * 4 * 128 + 16 * 128


def time_s(variant, shape, *, warm=False, **given):
    values = typical(VARIANTS[variant], **{**SLIGHT, **given})
    return MODEL.time_s(variant, shape, machine(), values, warm=warm)


def site(op, widths, *groups):
    inputs = tuple(Tensor("x", (Dim(symbols=("tokens",)), as_dim(w)), "bf16") for w in widths)
    shapes = tuple(tensor.shape for tensor in inputs)
    outputs = tuple(Tensor("y", shape, "bf16") for shape in op.shapes(shapes))
    return Site(inputs, outputs, Load(groups), op.parameters(shapes, BF16), BF16)


def test_few_heads_wait_for_one_chunk_after_another():
    """128 chunks of 2 us: 256 us and the launch, though 8 MB take 16 us."""
    shape = RecurrentShape(128, 512, 4, 8e6)
    assert time_s(CHUNKS, shape, step_s=2e-6) == pytest.approx(266e-6, rel=1e-3)


def test_many_heads_are_shared_out_over_the_multiprocessors():
    """64 sequences of 16 heads, 8 chunks each: 8192 of 3 us and 1024 states of 5 us on 100."""
    shape = RecurrentShape(8, 8192, 1024, 8e6)
    found = time_s(FLASHINFER, shape, step_s=2e-6, piece_s=3e-6, state_s=5e-6)
    assert found == pytest.approx(1e-5 + (8192 * 3e-6 + 1024 * 5e-6) / 100, rel=1e-3)


def test_only_a_chain_of_kernels_hands_tensors_on_through_memory():
    """100 MB and 400 MB between kernels at half of 1 TB/s: 1 ms, or 0.2 ms where they stay."""
    shape = RecurrentShape(1, 1, 1, 1e8, 4e8)
    assert time_s(CHUNKS, shape) == pytest.approx(1.01e-3, rel=1e-3)
    assert time_s(FLASHINFER, shape) == pytest.approx(0.21e-3, rel=1e-3)


def test_warm_states_in_the_l2_come_at_its_speed():
    """1 MB of a 10 MB L2 at twice 0.5 TB/s: 1 us instead of 2."""
    shape = RecurrentShape(1, 1, 1, 1e6)
    cold, warm = time_s(STEPS, shape), time_s(STEPS, shape, warm=True, l2_speed=2.0)
    assert cold - warm == pytest.approx(1e-6, rel=0.01)


def test_a_prompt_of_the_delta_rule():
    """Two prompts of 130 tokens, 16 heads and 4 of keys, 128 wide: three chunks of 64.

    Rows: (2 · 4 · 128 + 16 · 128) + 2 · 16 in, 16 · 128 out, of 2 B: 10,304 B · 260 tokens. States
    are written, 16 · 128 · 128 · 4 B = 1 MiB each, and none is read, for both begin here. Handed on
    a chunk, written and read: states 16 · 128² and rows 16 · 64 · (128 + 2 · 128 + 64), of 2 B.
    """
    at = site(DELTA, (QKV, 16, 16), SequenceGroup(2, 130, 130))
    [(variants, shape)] = recurrent_shapes(DELTA, at, None)
    assert variants == (CHUNKS, FLASHINFER)
    assert (shape.steps, shape.pieces, shape.states) == (3, 2 * 16 * 3, 32)
    assert shape.moved_bytes == 260 * 10_304 + 2 * 2**20
    assert shape.handed_bytes == 2 * 6 * 2 * (16 * 128**2 + 16 * 64 * 448)


def test_prompts_and_tokens_are_launches_of_their_own():
    """Three sequences decode: their states are read and written, and each head is a piece."""
    at = site(DELTA, (QKV, 16, 16), SequenceGroup(2, 130, 130), SequenceGroup(3, 1, 900))
    (first, _), (second, tokens) = recurrent_shapes(DELTA, at, "flashinfer")
    assert first[0] == FLASHINFER
    assert second == (STEPS,)
    assert (tokens.steps, tokens.pieces, tokens.states, tokens.handed_bytes) == (1, 48, 48, 0)
    assert tokens.moved_bytes == 3 * 10_304 + 3 * 2 * 2**20


def test_drafts_to_be_verified_are_decoded():
    at = site(DELTA, (QKV, 16, 16), SequenceGroup(2, 4, 130, verified=True))
    [(variants, _)] = recurrent_shapes(DELTA, at, None)
    assert variants == (STEPS,)


def test_a_convolution_of_any_model_is_measured():
    """4 taps of 3,072 channels: the last three rows of each sequence are its state."""
    op = CausalConv1d(4)
    at = site(op, (3072,), SequenceGroup(2, 100, 100), SequenceGroup(5, 1, 50))
    (prompts, shape), (steps, tokens) = recurrent_shapes(op, at, None)
    assert (prompts, steps) == ((CONV_PROMPTS,), (CONV_STEPS,))
    weights, state = 4 * 3072 * 2, 3 * 3072 * 2
    assert shape.moved_bytes == 200 * 2 * 3072 * 2 + 2 * state + weights
    assert tokens.moved_bytes == 5 * 2 * 3072 * 2 + 2 * 5 * state + weights


@pytest.mark.parametrize(
    ("op", "widths"),
    [
        (LinearAttention(16, 4, 128, 128, "sum"), (QKV, 16, 16)),  # Mamba-2, lightning
        (DELTA, (QKV, 16, 16 * 128)),  # Kimi's decay of each element of a key
    ],
)
def test_rules_that_no_table_times_have_no_shape(op, widths):
    at = site(op, widths, SequenceGroup(2, 130, 130))
    assert not is_measured(op, at)
    assert not list(recurrent_shapes(op, at, None))


@given(
    st.data(),
    st.sampled_from(sorted(VARIANTS)),
    st.tuples(COUNTS, COUNTS, COUNTS, BYTES, BYTES),
    st.tuples(COUNTS, COUNTS, COUNTS, BYTES, BYTES),
    st.booleans(),
)
def test_more_work_never_takes_less_time(data, variant, least, more, warm):
    values = data.draw(drawn_constants(VARIANTS[variant]))
    first, second = (
        MODEL.time_s(variant, RecurrentShape(*sizes), machine(), values, warm=warm)
        for sizes in (least, tuple(a + b for a, b in zip(least, more, strict=True)))
    )
    assert first <= second * (1 + 1e-9)


@given(st.data(), st.sampled_from(sorted(VARIANTS)), COUNTS, COUNTS, BYTES)
def test_a_number_and_an_array_agree(data, variant, steps, pieces, moved):
    values = data.draw(drawn_constants(VARIANTS[variant]))
    alone = RecurrentShape(steps, pieces, pieces, moved, moved)
    many = RecurrentShape(*(np.array([float(size)] * 2) for size in vars(alone).values()))
    found = MODEL.time_s(variant, many, machine(), values)
    assert found == pytest.approx(MODEL.time_s(variant, alone, machine(), values), rel=1e-12)


@given(st.integers(1, 40), st.integers(2, 9000), st.integers(1, 9000))
def test_shapes_of_one_load_and_of_many_agree(count, new, past):
    def shape(*numbers):
        at = site(DELTA, (QKV, 16, 16), SequenceGroup(*numbers))
        return next(iter(recurrent_shapes(DELTA, at, None)))[1]

    alone = shape(count, new, new + past)
    many = shape(*(np.array([float(n)] * 2) for n in (count, new, new + past)))
    for name, value in vars(alone).items():
        assert np.asarray(getattr(many, name)) == pytest.approx(value, rel=1e-12)
