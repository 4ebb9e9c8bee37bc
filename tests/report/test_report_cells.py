"""Numbers as words."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.report import cells


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.166, "0.17"), (6.988, "6.99"), (13.97, "14.0"), (163.9, "164"), (14336.0, "14,336")],
)
def test_a_ratio_has_three_digits(value, shown):
    assert cells.ratio(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0.0 %"), (0.0004, "<0.1 %"), (0.418, "41.8 %"), (1, "100.0 %")]
)
def test_a_share_is_in_percent_and_never_nothing_by_rounding(value, shown):
    assert cells.share(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.547, "+55 %"), (-0.013, "-1.3 %"), (0.0001, "none"), (12.0, "+1,200 %")]
)
def test_a_gain_has_its_sign(value, shown):
    assert cells.gain(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(0.0184, "0.018 USD"), (2.5, "2.50 USD")])
def test_money_keeps_two_digits(value, shown):
    assert cells.usd(value) == shown


def test_parts_of_one_composite_are_counted():
    parts = ("q", "attention.scores", "attention.softmax", "attention.values", "o")
    assert cells.node_names(parts) == "q attention (3 parts) o"


def test_a_node_and_its_collective_are_no_composite():
    assert cells.node_names(("o_proj", "o_proj.all_reduce")) == "o_proj o_proj.all_reduce"


@given(st.lists(st.text("ab-= '\"{\\", max_size=30), max_size=20))
def test_a_long_command_is_broken_where_a_shell_goes_on(rest):
    """Whatever its words: joined again it is the same."""
    line = shlex.join(["planner", "plan", *rest])
    shown = cells.typed(line).plain
    assert shlex.split(shown.replace("\\\n", "")) == shlex.split(line)


def test_options_stay_with_their_values():
    """A line is filled as far as 80, its end included."""
    sets = [word for n in range(4) for word in ("--set", f"backend.flags.flag{n}=1")]
    assert cells.typed(shlex.join(["planner", "plan", "d.yaml", *sets])).plain == (
        "planner plan d.yaml --set backend.flags.flag0=1 --set backend.flags.flag1=1 \\\n"
        "  --set backend.flags.flag2=1 --set backend.flags.flag3=1"
    )
