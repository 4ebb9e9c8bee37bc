"""Loops that a compiler stores and joins, on graphs small enough to do by hand."""

import json

import pytest

from planner.fusion.loops import Loops
from planner.fusion.match import matches
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.types import Formats
from planner.spec.load import load_text
from planner.spec.types import FusionRule, LoopRule

WIDE = Formats("fp32", "fp32", "fp32", "fp32")
CLASSES = ("pointwise", "row_reduction", "gather")
GPU = LoopRule(operands=4)
CPU = LoopRule(operands=4, stored=("silu", "sigmoid"), joins=False, nests=True)


def window_of(nodes, outputs, *, x=(8, 64)):
    block = {"name": "b", "inputs": {"x": list(x)}, "nodes": nodes, "outputs": outputs}
    spec = {
        "kind": "model", "name": "m", "title": "m", "source": "this test",
        "inputs": {"x": list(x)}, "blocks": {"b": block}, "sequence": [{"block": "b"}],
    }  # fmt: skip
    model = load_text(json.dumps(spec), "m", "model")
    return Window(model_graph(model, model.blocks, WIDE).kinds[0])


def joined(window, loops):
    rule = FusionRule(name="r", engine_name="R", classes=CLASSES, loops=loops, source="this test")
    return {frozenset(name for _, name in match.nodes) for match in matches(rule, window)}


def unstored(window, loops=GPU):
    return {name for _, name in Loops(window, loops).unstored}


def linear(source):
    return {"op": "linear", "in": source, "features": 64}


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


def test_a_rule_of_loops_names_its_fault():
    with pytest.raises(ValueError, match="operands"):
        LoopRule(operands=0)
