"""Graphs of a few nodes, and what loops make of them."""

import json

from planner.fusion.loops import Loops
from planner.fusion.match import matches
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.types import Formats
from planner.spec.load import load_text
from planner.spec.types import FusionRule, LoopRule

CLASSES = ("pointwise", "row_reduction", "gather")
GPU = LoopRule(operands=4)
CPU = LoopRule(operands=4, stored=("silu", "sigmoid"), joins=False, nests=True)


def formats(dtype):
    return Formats(dtype, dtype, dtype, dtype)


def window_of(nodes, outputs, *, x=(8, 64), dtype="fp32"):
    block = {"name": "b", "inputs": {"x": list(x)}, "nodes": nodes, "outputs": outputs}
    spec = {
        "kind": "model", "name": "m", "title": "m", "source": "this test",
        "inputs": {"x": list(x)}, "blocks": {"b": block}, "sequence": [{"block": "b"}],
    }  # fmt: skip
    model = load_text(json.dumps(spec), "m", "model")
    return Window(model_graph(model, model.blocks, formats(dtype)).kinds[0])


def joined(window, loops):
    rule = FusionRule(name="r", engine_name="R", classes=CLASSES, loops=loops, source="this test")
    return {frozenset(name for _, name in match.nodes) for match in matches(rule, window)}


def unstored(window, loops=GPU):
    return {name for _, name in Loops(window, loops).unstored}


def linear(source, *, bias=False):
    return {"op": "linear", "in": source, "features": 64, "bias": bias}
