"""The operators of imported graphs: any elementwise step, any reduction, views, copies, convolution."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_examples import BATCH, SEQUENCES, TOKENS, Example, load, shape, sites

from planner.ops.types import Load, Work

STEP = load(3, 5, 11)
M = 15  # 3 sequences of 5 new tokens
IMAGE = shape(BATCH, 3, 8, 8)


def only(name: str, *inputs, step: Load = STEP, **attributes):
    [(op, site)] = sites(name, Example(inputs, attributes), step)
    return op, site


def work(name: str, *inputs, step: Load = STEP, **attributes) -> Work:
    op, site = only(name, *inputs, step=step, **attributes)
    return op.work(site)


def refusal(name: str, *inputs, **attributes) -> str:
    with pytest.raises(ValueError) as refused:
        Example(inputs, attributes).operator(name).shapes(inputs)
    return str(refused.value)


def written(name: str, *inputs, **attributes):
    return Example(inputs, attributes).operator(name).shapes(inputs)


def test_an_elementwise_step_counts_flops_an_output_element_and_its_weights_once():
    found = work("elementwise", shape(TOKENS, 64), flops=4, weights=64)
    assert found == Work(vector_flops=4 * M * 64, weight_bytes=64 * 2)


def test_inputs_broadcast_by_numpys_rule():
    assert written("elementwise", shape(TOKENS, 1), shape(64)) == (shape(TOKENS, 64),)
    assert written("elementwise", shape(BATCH, 1, 8), shape(3, 1)) == (shape(BATCH, 3, 8),)
    assert "do not broadcast" in refusal("elementwise", shape(TOKENS, 64), shape(TOKENS, 32))


def test_a_weight_may_widen_what_an_elementwise_step_writes():
    found = work("elementwise", shape(TOKENS, 1), weights=64, shape=shape(TOKENS, 64))
    assert found.vector_flops == M * 64


def test_weights_that_another_operator_owns_are_read_and_not_held_again():
    _, site = only("elementwise", shape(TOKENS, 64), weights=64, tied=True)
    assert [parameters.shared for parameters in site.parameters] == [True]


def test_a_reduction_counts_flops_an_input_element():
    found = work("reduction", IMAGE, shape=shape(BATCH, 3, 1, 1))
    assert found == Work(vector_flops=3 * 3 * 64)


def test_a_reshape_moves_nothing_and_keeps_the_elements():
    assert work("reshape", IMAGE, shape=shape(BATCH, 192)) == Work()
    assert "hold differently much" in refusal("reshape", IMAGE, shape=shape(BATCH, 191))
    # how many tokens a sequence has only the load knows
    assert written("reshape", shape(SEQUENCES, 5, 64), shape=shape(TOKENS, 64)) == (
        shape(TOKENS, 64),
    )


def test_columns_are_a_view_of_some_features():
    assert written("columns", shape(TOKENS, 96), features=32) == (shape(TOKENS, 32),)
    assert "fewer than 97" in refusal("columns", shape(TOKENS, 96), features=97)


def test_a_copy_reads_no_more_of_an_input_than_it_writes():
    op, site = only("copy", shape(TOKENS, 100), shape=shape(TOKENS, 60))
    assert op.input_bytes(site) == (M * 60 * 2,)
    op, site = only("copy", shape(TOKENS, 20), shape(TOKENS, 40), shape=shape(TOKENS, 60))
    assert op.input_bytes(site) == (M * 20 * 2, M * 40 * 2)


def test_a_convolution_is_two_flops_a_weight_an_output_element_meets():
    # 6·6 outputs of 4 channels, each of 3 channels in a 3 × 3 window
    found = work("conv", IMAGE, channels=4, window=9, shape=shape(BATCH, 4, 6, 6))
    assert found.matmul_flops == 2 * 3 * 4 * 36 * 27
    assert found.vector_flops == 3 * 4 * 36
    assert found.weight_bytes == 4 * 27 * 1 + 4 * 2


def test_groups_divide_the_depth_of_a_convolution():
    found = work(
        "conv", IMAGE, channels=6, window=9, groups=3, bias=False, shape=shape(BATCH, 6, 8, 8)
    )
    assert found == Work(matmul_flops=2 * 3 * 6 * 64 * 9, weight_bytes=6 * 9)
    assert "do not divide into 2 groups" in refusal(
        "conv", IMAGE, channels=6, window=9, groups=2, shape=shape(BATCH, 6, 8, 8)
    )


def test_a_transposed_convolution_spreads_each_input_element_over_the_window():
    found = work(
        "conv",
        IMAGE,
        channels=6,
        window=4,
        transposed=True,
        bias=False,
        shape=shape(BATCH, 6, 16, 16),
    )
    assert found == Work(matmul_flops=2 * 3 * 192 * 6 * 4, weight_bytes=3 * 6 * 4)


def test_a_convolution_needs_its_channels_where_its_shape_has_them():
    assert "no 4 channels" in refusal(
        "conv", IMAGE, channels=4, window=9, shape=shape(BATCH, 5, 6, 6)
    )
    assert "[n, channels, ..]" in refusal(
        "conv", shape(BATCH, 3), channels=4, window=9, shape=shape(BATCH, 4)
    )


def test_a_pool_counts_its_window_an_output_element():
    found = work("pool", IMAGE, window=4, shape=shape(BATCH, 3, 4, 4))
    assert found == Work(vector_flops=3 * 3 * 16 * 4)
    assert "differ in rank" in refusal("pool", IMAGE, window=4, shape=shape(BATCH, 3, 4))


@given(
    channels=st.integers(1, 40),
    inputs=st.integers(1, 40),
    side=st.integers(1, 9),
    kernel=st.integers(1, 3),
)
def test_a_general_convolution_costs_what_the_square_one_costs(channels, inputs, side, kernel):
    image = shape(BATCH, inputs, side + kernel - 1, side + kernel - 1)
    square = work("conv2d", image, channels=channels, kernel=kernel)
    found = work(
        "conv", image, channels=channels, window=kernel**2, shape=shape(BATCH, channels, side, side)
    )
    assert found == square
