"""Orders and choices by hand, and what holds for any figures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.calibrate.ranking import Option, choice, order, regret


def options(work, *figures):
    """Options of one piece of work, each (measured, predicted) of a kind of its own."""
    return [Option(work, kind, *pair) for kind, pair in enumerate(figures)]


times = st.lists(
    st.tuples(st.floats(0.1, 100), st.floats(0.1, 100)), min_size=2, max_size=6, unique=True
)


def test_pairs_in_order_are_counted():
    """Measured 1 < 2 < 3, predicted 2, 1, 3: of (1,2), (1,3), (2,3) the first is wrong."""
    found = order(options("w", (1, 2), (2, 1), (3, 3)))
    assert (found.groups, found.pairs) == (1, 3)
    assert found.right == pytest.approx(2 / 3)


def test_a_predicted_tie_counts_half_and_a_measured_one_not_at_all():
    """(1,5) and (2,5) tie by prediction; (2,5) and (2,7) were measured alike; (1,5), (2,7) right."""
    found = order(options("w", (1, 5), (2, 5), (2, 7)))
    assert found.pairs == 2
    assert found.right == pytest.approx(1.5 / 2)


def test_works_do_not_mix():
    """One option each is no pair."""
    assert order([*options("a", (1, 2)), *options("b", (2, 1))]).pairs == 0


def test_repetitions_of_one_kind_stand_as_their_median():
    """Measured 1, 2, 9 of kind 0 is 2, which is less than the 3 of kind 1."""
    repeated = [Option("w", 0, measured, 1.0) for measured in (1.0, 2.0, 9.0)]
    found = order([*repeated, Option("w", 1, 3.0, 2.0)])
    assert (found.pairs, found.right) == (1, 1.0)


def test_the_interval_is_of_whole_groups():
    """Four groups of one pair, all right: every draw is. Half of them: 0 to 1 in few draws."""
    right = [option for work in range(4) for option in options(work, (1, 1), (2, 2))]
    assert (order(right).low, order(right).high) == (1.0, 1.0)
    mixed = right[:4] + [o for work in (5, 6) for o in options(work, (1, 2), (2, 1))]
    found = order(mixed)
    assert found.right == 0.5
    assert (found.low, found.high) == (0.0, 1.0)


def test_tau_and_regret_by_hand():
    """Two groups.

    a: measured 10, 12, 20, predicted 3, 1, 2: pairs (10,12) wrong, (10,20) wrong, (12,20) right:
    tau (1 − 2) / 3; the choice is 12, a regret of 0.2. b: in order: tau 1, regret 0.
    """
    found = choice([*options("a", (10, 3), (12, 1), (20, 2)), *options("b", (1, 1), (2, 2))])
    assert (found.groups, found.options, found.first) == (2, 5, 0.5)
    assert found.tau == pytest.approx((-1 / 3 + 1) / 2)
    assert found.regret == pytest.approx(0.1)
    assert found.worst_tenth == pytest.approx(0.2 * 0.9)  # between 0 and 0.2, at nine tenths


def test_nothing_to_compare_is_no_figure():
    """Neither nought nor one."""
    assert (order([]).right, choice([]).tau) == (None, None)


@given(times)
def test_predictions_that_are_the_measurements_are_perfect(figures):
    """Every pair right, tau 1, no regret."""
    exact = options("w", *((measured, measured) for measured, _ in figures))
    found = choice(exact)
    if found.groups:
        assert (found.tau, found.first, found.regret) == (1.0, 1.0, 0.0)
        assert order(exact).right == 1.0


@given(times)
def test_turned_round_a_prediction_is_as_wrong_as_it_was_right(figures):
    """Right share and tau of −prediction are one less the share, and minus tau."""
    there, back = (
        options("w", *((measured, sign * predicted) for measured, predicted in figures))
        for sign in (1, -1)
    )
    if order(there).pairs:
        assert order(back).right == pytest.approx(1 - order(there).right)
        assert choice(back).tau == pytest.approx(-choice(there).tau)


@given(times, st.floats(0.01, 100))
def test_a_common_factor_changes_no_order(figures, factor):
    """A prediction that is wrong by the same factor everywhere ranks as well."""
    plain = options("w", *figures)
    scaled = options("w", *((measured, factor * predicted) for measured, predicted in figures))
    assert regret(plain) >= 0
    assert regret(scaled) == pytest.approx(regret(plain))
