"""Loops that a compiler stores and joins, on graphs small enough to do by hand."""

import pytest

from planner.spec.types import LoopRule
from tests.fusion.loop_samples import CPU, GPU, joined, linear, unstored, window_of


def residuals(count):
    """Sums one behind the other, each read by a norm as well: x + p1, that + p2, …"""
    nodes, before = {}, "x"
    for n in range(1, count + 1):
        nodes[f"p{n}"] = linear("x")
        nodes[f"sum{n}"] = {"op": "add", "in": [before, f"p{n}"]}
        nodes[f"norm{n}"] = {"op": "rms_norm", "in": f"sum{n}"}
        nodes[f"end{n}"] = linear(f"norm{n}")
        before = f"sum{n}"
    return window_of(nodes, [f"end{n}" for n in range(1, count + 1)])


def test_a_sum_of_many_operands_is_stored_and_one_of_few_is_not():
    """Operands: x and p1 are 2, with p2 3, with p3 4, with p4 5, which is beyond four."""
    assert unstored(residuals(5)) == {"sum1", "sum2", "sum3", "sum5"}


def test_what_a_product_reads_is_stored():
    window = window_of({"act": {"op": "silu", "in": "x"}, "p": linear("act")}, ["p"])
    assert unstored(window) == set()


def test_a_cpu_stores_exponentials_that_several_read():
    nodes = {
        "act": {"op": "silu", "in": "x"},
        "one": {"op": "relu", "in": "act"},
        "two": {"op": "scale", "in": "act"},
    }
    window = window_of(nodes, ["one", "two"])
    assert unstored(window, GPU) == {"act"}
    assert unstored(window, CPU) == set()


def test_what_is_not_stored_runs_with_its_first_reader():
    nodes = {
        "act": {"op": "relu", "in": "x"},
        "norm": {"op": "rms_norm", "in": "act"},
        "p": linear("norm"),
        "sum": {"op": "add", "in": ["act", "p"]},
    }
    assert joined(window_of(nodes, ["sum"]), GPU) == {frozenset({"act", "norm"})}


def test_rows_of_other_rows_are_joined_by_outer_loops_alone():
    """8 × 64 means of 4 each, then norms of 64: the first's rows are the second's elements."""
    nodes = {
        "mean": {"op": "reduction", "in": "x", "shape": [8, 64]},
        "norm": {"op": "layer_norm", "in": "mean"},
    }
    window = window_of(nodes, ["norm"], x=(8, 64, 4))
    assert joined(window, GPU) == set()
    assert joined(window, CPU) == {frozenset({"mean", "norm"})}


def test_a_table_over_an_inner_side_keeps_loops_apart_on_a_cpu():
    """A table of 4 × 64 repeats twice over 8 rows; what reads the sum from memory has one loop."""
    nodes = {
        "sum": {"op": "elementwise", "in": "x", "weights": 256},
        "norm": {"op": "layer_norm", "in": "sum"},
    }
    window = window_of(nodes, ["sum", "norm"])
    assert joined(window, GPU) == {frozenset({"sum", "norm"})}
    assert joined(window, CPU) == set()


def test_exponentials_are_heavy_through_what_is_not_stored():
    """double is no exponential, but its loops compute act's, and two read it."""
    nodes = {
        "act": {"op": "silu", "in": "x"},
        "double": {"op": "scale", "in": "act"},
        "one": {"op": "relu", "in": "double"},
        "two": {"op": "relu", "in": "double"},
    }
    window = window_of(nodes, ["one", "two"])
    assert unstored(window, GPU) == {"act", "double"}
    assert unstored(window, CPU) == {"act"}


def chain(count):
    """x · p1 · p2 …, each product read once, behind as many projections."""
    nodes, before = {}, "x"
    for n in range(1, count + 1):
        nodes[f"p{n}"] = linear("x")
        nodes[f"m{n}"] = {"op": "mul", "in": [before, f"p{n}"]}
        before = f"m{n}"
    return window_of(nodes | {"end": {"op": "relu", "in": before}}, ["end"])


def test_many_operands_are_stored_even_if_read_once():
    """m1 is of two tensors, m2 of three, m3 of four; with three at most m3 is stored."""
    assert unstored(chain(3), LoopRule(operands=4, most=3)) == {"m1", "m2"}
    assert unstored(chain(3), LoopRule(operands=4, most=4)) == {"m1", "m2", "m3"}


def test_loops_of_many_operations_are_stored():
    """m2: two products of three loads, five in all; m1 three."""
    assert unstored(chain(2), LoopRule(operands=4, operations=4)) == {"m1"}
    assert unstored(chain(2), LoopRule(operands=4, operations=5)) == {"m1", "m2"}


def test_small_reductions_are_written_out():
    """Sums of 4 of 8 × 16 numbers each, which the relu reads; 5 would be a limit that holds."""
    nodes = {
        "sum": {"op": "reduction", "in": "x", "shape": [8, 16]},
        "act": {"op": "relu", "in": "sum"},
    }
    window = window_of(nodes, ["act"], x=(8, 16, 4))
    assert unstored(window, LoopRule(operands=4, unrolled=4)) == set()
    assert unstored(window, LoopRule(operands=4, unrolled=5)) == {"sum"}


def test_a_norm_over_other_sides_joins_nothing_but_is_computed_by_its_readers():
    nodes = {
        "norm": {"op": "reduction", "in": "x", "flops": 7, "weights": 16},
        "act": {"op": "relu", "in": "norm"},
        "twice": {"op": "scale", "in": "act"},
    }
    window = window_of(nodes, ["twice"], x=(2, 8, 4, 4))
    assert unstored(window) == {"norm", "act"}
    assert joined(window, GPU) == {frozenset({"act", "twice"})}


def test_a_pool_reads_every_place_of_its_window():
    """A pool over 2 × 2 reads four numbers: stored where three are the most."""
    nodes = {
        "wide": {"op": "scale", "in": "x"},
        "pool": {"op": "pool", "in": "wide", "window": 4, "shape": [2, 8, 2, 2]},
        "act": {"op": "relu", "in": "pool"},
    }
    window = window_of(nodes, ["act"], x=(2, 8, 4, 4))
    assert unstored(window, LoopRule(operands=4, most=4)) == {"wide", "pool"}
    assert unstored(window, LoopRule(operands=4, most=3)) == {"wide"}


def test_a_norm_reads_what_it_norms_twice():
    """Five operands: one reader alone would leave them in its loops, a norm goes over them twice."""
    nodes = {f"p{n}": linear("x") for n in range(1, 5)}
    before = "x"
    for n in range(1, 5):
        nodes[f"s{n}"] = {"op": "add", "in": [before, f"p{n}"]}
        before = f"s{n}"
    normed = nodes | {"end": {"op": "rms_norm", "in": before}}
    plain = nodes | {"end": {"op": "relu", "in": before}}
    assert "s4" not in unstored(window_of(normed, ["end"]))
    assert "s4" in unstored(window_of(plain, ["end"]))


def test_what_is_shifted_is_no_loop_of_what_it_is_a_part_of():
    """The norm's rows but the first, added to nothing else: another kernel than the norm's."""
    nodes = {
        "norm": {"op": "rms_norm", "in": "x"},
        "part": {"op": "copy", "in": "norm", "shape": [2, 3, 64]},
        "act": {"op": "relu", "in": "part"},
    }
    window = window_of(nodes, ["norm", "act"], x=(2, 4, 64))
    assert joined(window, GPU) == {frozenset({"part", "act"})}


def test_a_rule_of_loops_names_its_fault():
    with pytest.raises(ValueError, match="operands"):
        LoopRule(operands=0)
