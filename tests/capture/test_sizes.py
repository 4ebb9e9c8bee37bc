"""Capture sizes: rules expanded, and the size a batch is padded to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.capture.sizes import expand, padded
from planner.errors import UsageError
from planner.spec.expr import ExpressionError
from planner.spec.types import CaptureSizes, SizeRange


def rule(**fields):
    return CaptureSizes(**fields)


def test_sizes_above_the_cap_are_left_out():
    """A cap of 3 keeps 1 and 2 of 1, 2 and 4."""
    assert expand(rule(cap=3, sizes=(1, 2, 4)), {}) == (1, 2)


def test_the_cap_is_an_expression_over_flags():
    """Twice three sequences, at most five: five."""
    given_ = rule(cap="min(seqs * 2, 5)", ranges=(SizeRange(first=1, last=10, step=1),))
    assert expand(given_, {"seqs": 3}) == (1, 2, 3, 4, 5)
    assert expand(given_, {"seqs": 2}) == (1, 2, 3, 4)


def test_sizes_may_be_rounded_up_to_whole_sequences():
    """To multiples of 3 below 10: 1 and 2 become 3, 4 becomes 6, 8 becomes 9, and 10 would be 12,
    which is above the cap.
    """
    assert expand(rule(cap=10, sizes=(1, 2, 4, 8, 10)), {}, 3) == (3, 6, 9)
    assert expand(rule(cap=10, sizes=(1, 2, 4, 8, 10)), {}, 1) == (1, 2, 4, 8, 10)


def test_a_range_includes_both_ends():
    """From 8 to 24 by 8."""
    assert expand(rule(cap=100, ranges=(SizeRange(first=8, last=24, step=8),)), {}) == (8, 16, 24)


def test_a_range_stops_below_a_last_size_it_does_not_reach():
    """From 8 by 8, 30 is passed over and 24 is the last."""
    assert expand(rule(cap=30, ranges=(SizeRange(first=8, last="cap", step=8),)), {}) == (8, 16, 24)


def test_a_range_that_begins_above_the_cap_is_empty():
    """Nothing from 256 on fits below 100."""
    given_ = rule(cap=100, sizes=(1,), ranges=(SizeRange(first=256, last="cap", step=16),))
    assert expand(given_, {}) == (1,)


def test_powers_of_two_run_from_their_start_to_the_cap():
    """256, 512, 1024; 300 is rounded up to the next power."""
    assert expand(rule(cap=1024, powers_of_two_from=256), {}) == (256, 512, 1024)
    assert expand(rule(cap=1024, powers_of_two_from=300), {}) == (512, 1024)
    assert expand(rule(cap=4, powers_of_two_from=1), {}) == (1, 2, 4)


def test_an_extra_size_is_captured_only_below_the_cap():
    """A token budget of 100 is added under a cap of 512, one of 2048 is not."""
    given_ = rule(cap=512, sizes=(1,), extra=("budget",))
    assert expand(given_, {"budget": 100}) == (1, 100)
    assert expand(given_, {"budget": 2048}) == (1,)


def test_a_size_named_twice_is_captured_once():
    """Overlapping ranges give a set."""
    twice = (SizeRange(first=1, last=4, step=1), SizeRange(first=2, last=6, step=2))
    assert expand(rule(cap=10, sizes=(4,), ranges=twice), {}) == (1, 2, 3, 4, 6)


def test_a_flag_that_does_not_exist_is_refused():
    """An expression that names no flag is an error, not an empty list."""
    with pytest.raises(ExpressionError, match="max_seqs"):
        expand(rule(cap="max_seqs * 2"), {"max_num_seqs": 4})


def test_a_rule_that_would_capture_millions_is_refused():
    """A flag of ten million must not make a list of ten million."""
    with pytest.raises(UsageError, match="more than"):
        expand(rule(cap="n", ranges=(SizeRange(first=1, last="cap", step=1),)), {"n": 10**7})


def test_a_batch_is_padded_to_the_next_size():
    """Five runs as eight, eight as eight."""
    assert padded(5, (1, 2, 4, 8)) == 8
    assert padded(8, (1, 2, 4, 8)) == 8


def test_a_batch_above_the_largest_size_has_none():
    """Nothing holds nine."""
    assert padded(9, (1, 2, 4, 8)) is None
    assert padded(1, ()) is None


@given(st.sets(st.integers(1, 500), max_size=20), st.integers(1, 600))
def test_padding_is_the_least_size_that_holds_the_batch(sizes, size):
    """Against a scan of all sizes."""
    holding = [each for each in sizes if each >= size]
    assert padded(size, sorted(sizes)) == (min(holding) if holding else None)


@given(
    cap=st.integers(1, 700),
    first=st.integers(1, 50),
    last=st.integers(1, 900),
    step=st.integers(1, 40),
)
def test_a_range_is_every_size_the_rule_describes(cap, first, last, step):
    """Against a test of every whole number."""
    given_ = rule(cap=cap, ranges=(SizeRange(first=first, last=last, step=step),))
    wanted = [n for n in range(1, 1000) if first <= n <= min(last, cap) and (n - first) % step == 0]
    assert list(expand(given_, {})) == wanted
