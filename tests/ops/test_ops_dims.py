"""Dims: products of whole numbers and of what only the load knows."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.ops.types import Dim, Load, Pairs, SequenceGroup, as_dim, show_shape, static

SYMBOLS = st.lists(st.sampled_from(["tokens", "sequences", "batch"]), max_size=3).map(
    lambda names: tuple(sorted(names))
)
DIMS = st.builds(Dim, st.integers(1, 50).map(Fraction), SYMBOLS)
WHOLE = st.integers(1, 50)
STEP = Load((SequenceGroup(3, 7, 11),), {"batch": 5})


@given(DIMS, DIMS, DIMS)
def test_products_do_not_depend_on_their_order(a, b, c):
    assert a * b == b * a
    assert (a * b) * c == a * (b * c)


@given(DIMS, DIMS)
def test_the_value_of_a_product_is_the_product_of_values(a, b):
    assert STEP.dim(a * b) == STEP.dim(a) * STEP.dim(b)


@given(DIMS, WHOLE, WHOLE)
def test_like_sizes_add_up_and_products_distribute(a, m, n):
    assert a * m + a * n == a * (m + n)
    assert STEP.dim(a * m + a * n) == STEP.dim(a) * (m + n)


@given(DIMS, WHOLE)
def test_division_undoes_a_product_and_subtraction_a_sum(a, n):
    assert a * n / n == a
    assert a + a * n - a * n == a
    assert -a == a * -1


@given(WHOLE, WHOLE)
def test_a_dim_without_symbols_is_a_number(m, n):
    assert static(as_dim(m) * n) == m * n
    assert static(m + as_dim(n)) == m + n
    assert as_dim(m) - n == m - as_dim(n) == as_dim(m - n)
    assert as_dim(as_dim(m)) == as_dim(m)


TOKENS = Dim(symbols=("tokens",))


@pytest.mark.parametrize(
    ("refused", "sentence"),
    [
        (lambda: TOKENS + 1, "cannot add tokens and 1: only like sizes add up"),
        (lambda: 1 - TOKENS, "cannot add 1 and -1*tokens: only like sizes add up"),
        (
            lambda: TOKENS * TOKENS + TOKENS,
            "cannot add tokens*tokens and tokens: only like sizes add up",
        ),
        (lambda: TOKENS / TOKENS, "cannot divide by tokens, which only the load knows"),
        (lambda: Fraction(4) / TOKENS, "cannot divide 4 by tokens, which only the load knows"),
        (lambda: TOKENS // 2, "cannot round tokens divided by 2: only the load knows tokens"),
        (lambda: static(TOKENS), "tokens is not a fixed whole number"),
        (lambda: static(as_dim(Fraction(1, 2))), "1/2 is not a fixed whole number"),
    ],
)
def test_what_is_no_product_is_refused_in_words(refused, sentence):
    with pytest.raises(ValueError) as refusal:
        refused()
    assert str(refusal.value) == sentence


def test_a_shape_is_shown_as_it_is_written():
    pairs = Dim(symbols=(Pairs(),))
    near = Dim(symbols=(Pairs(4096),))
    shape = (TOKENS * 2, as_dim(3584), Dim(), pairs, near)
    assert show_shape(shape) == "[2*tokens, 3584, 1, pairs, pairs within 4096]"
