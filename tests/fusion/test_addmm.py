"""Sums behind products: which a library's call makes, and which biases loops add."""

import pytest

from planner.fusion.loops import Loops
from planner.fusion.match import matches
from planner.spec.types import FusionRule, LoopRule, SlotSpec
from tests.fusion.loop_samples import joined, linear, unstored, window_of

CALL = LoopRule(operands=4, sums="call")
APART = LoopRule(operands=4, sums="apart")
ACT = {"op": "relu", "in": "sum"}
NORM = {"op": "layer_norm", "in": "sum"}


def sums(end=ACT, **nodes):
    """x · W + (x · W + b), and what reads it; nodes given are put in place."""
    parts = {
        "one": linear("x", bias=True),
        "two": linear("x"),
        "sum": {"op": "add", "in": ["one", "two"]},
        "end": end,
    }
    return parts | nodes


def calls(window, rule):
    return {sum_[1]: product[1] for sum_, product in Loops(window, rule).calls.items()}


def loose(window, rule):
    return {name for _, name in Loops(window, rule).loose}


def test_a_product_and_a_sum_become_one_call():
    window = window_of(sums(), ["end"])
    assert calls(window, CALL) == {"sum": "two"}
    assert unstored(window, CALL) == set()


def test_of_two_products_the_later_operand_is_taken():
    window = window_of(sums(one=linear("x")), ["end"])
    assert calls(window, CALL) == {"sum": "two"}


@pytest.mark.parametrize(
    "nodes",
    [
        {"two": linear("x", bias=True)},
        {"more": {"op": "relu", "in": "two"}},
    ],
    ids=["has a bias already", "another reads it"],
)
def test_what_no_call_can_take_stays_a_loop(nodes):
    window = window_of(sums(**nodes), ["end", *set(nodes) - {"two"}])
    assert calls(window, CALL) == {}


def test_products_over_three_sides_have_a_view_in_between():
    assert calls(window_of(sums(), ["end"], x=(2, 4, 64)), CALL) == {}


def test_elementwise_readers_keep_the_sum_on_a_gpu():
    assert calls(window_of(sums(), ["end"]), APART) == {}
    assert calls(window_of(sums(NORM), ["end"]), APART) == {"sum": "two"}


def test_a_sum_that_leaves_is_part_of_the_call():
    nodes = {name: node for name, node in sums().items() if name != "end"}
    assert calls(window_of(nodes, ["sum"]), APART) == {"sum": "two"}


def test_biases_of_fp32_are_added_by_elementwise_readers_on_a_gpu():
    """one's bias is another operand of the sum: x·W, b and the other product are three."""
    window = window_of(sums(), ["end"])
    assert loose(window, APART) == {"one"}
    assert loose(window_of(sums(), ["end"], dtype="bf16"), APART) == set()
    assert loose(window, CALL) == set()
    made = Loops(window, APART).made
    assert len(made[0, window.node((0, "sum")).outputs[0]]) == 3


def test_a_norm_squares_first_or_takes_the_mean_first():
    """An RMS norm reads elements, a layer norm's first step is a reduction."""
    plain = {"p": linear("x", bias=True)}
    for op, expected in (("rms_norm", {"p"}), ("layer_norm", set())):
        nodes = plain | {"end": {"op": op, "in": "p"}}
        assert loose(window_of(nodes, ["end"]), APART) == expected


def test_a_batched_product_adds_no_bias():
    """Rows behind a transpose do not lie one behind the other: a product for each of the first."""
    nodes = {
        "turned": {"op": "copy", "in": "x", "shape": [2, 64, 4]},
        "p": {"op": "linear", "in": "turned", "features": 8, "bias": True},
        "end": {"op": "relu", "in": "p"},
    }
    window = window_of(nodes, ["end"], x=(2, 4, 64))
    assert loose(window, CALL) == {"p"}
    assert Loops(window, CALL).repeated == {(0, "p")}


def test_no_rule_no_sums():
    window = window_of(sums(), ["end"])
    assert calls(window, LoopRule(operands=4)) == {}
    assert loose(window, LoopRule(operands=4)) == set()


def test_a_pattern_with_loops_fits_where_they_leave_the_sum():
    slots = (
        SlotSpec(slot="product", op="linear"),
        SlotSpec(slot="sum", op="add", reads="product"),
    )
    rule = FusionRule(name="r", engine_name="R", pattern=slots, loops=CALL, source="this test")
    window = window_of(sums(), ["end"])
    found = [{name for _, name in match.nodes} for match in matches(rule, window)]
    assert found == [{"two", "sum"}]
    assert joined(window, CALL) == set()
