"""The whole way from a graph to kernels against brute force on the unrolled model.

The brute force knows nothing of windows, borders or blocks: it unrolls the model into one list of
nodes with the tensors they read, tries every partition whose groups may be run one after the other,
and counts bytes by looking at who reads what.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.capture.layout import layout
from planner.capture.solve import Problem
from planner.capture.types import FixedCosts
from planner.cost.annotate import annotate
from planner.cost.engine import Engine
from planner.cost.estimator import RooflineEstimator
from planner.cost.types import Device
from planner.fusion.groups import structure
from planner.graph.build import model_graph
from planner.ops.types import Formats, Load
from planner.spec.load import load_text

BATCH = 1000
WIDTH = 2
"""Bytes of an element of BF16."""
FIXED = FixedCosts(launch_s=3e-6, replay_s=0.0, kernel_s=1e-6, graph_node_s=0.5e-6)
DEVICE = Device("toy", "Toy", 1e9, {"bf16": 1e15}, 1e15, None, 0.0, 1e12, 1e12)

BACKEND = """
kind: backend
name: toy
title: Toy
versions: ["1"]
capture: {modes: [{mode: full}], available: [{mode: full}]}
fusions:
  - {name: pointwise, engine_name: fused, classes: [pointwise], max_nodes: 3, source: this test}
host:
  launch: [{value: 3 us}]
  replay: [{value: 0 us}]
  kernel: [{value: 1 us}]
  graph_node: [{value: 0.5 us}]
memory:
  utilization: [{value: 0.9}]
  runtime: [{value: 0 GiB}]
  graphs: [{value: 0 GiB}]
  graphs_inside: [{value: false}]
  profile_tokens: [{value: 1}]
  profile_sequences: [{value: 1}]
"""


def engine() -> Engine:
    return Engine(load_text(BACKEND, "toy.yaml", "backend"), "1", {"version": "1"})


@st.composite
def models(draw):
    """A block of two to four elementwise nodes, run one to three times."""
    count = draw(st.integers(2, 4))
    lines, tensors = [], ["x"]
    for position in range(count):
        op = draw(st.sampled_from(["relu", "add"]))
        inputs = [draw(st.sampled_from(tensors)) for _ in range(2 if op == "add" else 1)]
        lines.append(
            f"      n{position}: {{op: {op}, in: [{', '.join(inputs)}], out: t{position}}}"
        )
        tensors.append(f"t{position}")
    times = draw(st.integers(1, 3))
    return "\n".join(
        [
            "kind: model",
            "name: toy",
            "title: Toy",
            "inputs: {x: [batch, width]}",
            "dims: {width: 4}",
            f"sequence: [{{block: b, times: {times}}}]",
            "blocks:",
            "  b:",
            "    kind: block",
            "    name: b",
            "    inputs: {x: [batch, width]}",
            "    nodes:",
            *lines,
            f"    outputs: [t{count - 1}]",
        ]
    ), times


def unrolled(graph, times):
    """(reads, writes) of each node, tensors named by block, the model's result kept apart."""
    block = graph.kinds[0]
    nodes = []
    for index in range(times):
        names = {t: f"{index}.{t}" for t in block.tensors}
        names["x"] = f"{index - 1}.{block.outputs[0]}" if index else "input"
        nodes += [
            (index, tuple(dict.fromkeys(names[t] for t in node.inputs)), names[node.outputs[0]])
            for node in block.nodes
        ]
    return nodes, f"{times - 1}.{block.outputs[0]}"


def group_bytes(group, nodes, result, size):
    inside = {nodes[i][2] for i in group}
    moved = len({t for i in group for t in nodes[i][1]} - inside)
    for i in group:
        written = nodes[i][2]
        readers = [j for j, (_, reads, _) in enumerate(nodes) if written in reads]
        if written == result or not readers or any(j not in group for j in readers):
            moved += 1
    return moved * size


def allowed(group, nodes):
    """At most three nodes, of two neighbouring blocks at most, connected through their tensors."""
    if len(group) > 3 or max(nodes[i][0] for i in group) - min(nodes[i][0] for i in group) > 1:
        return False
    reached, waiting = set(), [next(iter(group))]
    while waiting:
        here = waiting.pop()
        reached.add(here)
        waiting += [
            there
            for there in group - reached
            if nodes[here][2] in nodes[there][1] or nodes[there][2] in nodes[here][1]
        ]
    return reached == group


def cheapest(nodes, result, size, fixed_s):
    """Shortest chain of downsets, over every allowed group that is ready."""
    producers = {written: i for i, (_, _, written) in enumerate(nodes)}
    before = [frozenset(producers[t] for t in reads if t in producers) for _, reads, _ in nodes]
    groups = [
        frozenset(chosen)
        for size_ in range(1, 4)
        for chosen in itertools.combinations(range(len(nodes)), size_)
        if allowed(frozenset(chosen), nodes)
    ]
    cost = {g: fixed_s + group_bytes(g, nodes, result, size) / 1e9 for g in groups}

    @cache
    def rest(done):
        if len(done) == len(nodes):
            return 0.0
        ready = (g for g in groups if not g & done and all(before[i] <= done | g for i in g))
        return min((cost[g] + rest(done | g) for g in ready), default=math.inf)

    return rest(frozenset())


@settings(max_examples=many(40, 150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(models())
def test_search_over_blocks_equals_brute_force_over_the_unrolled_model(made):
    text, times = made
    model = load_text(text, "toy.yaml", "model")
    graph = model_graph(model, dict(model.blocks), Formats("bf16", "bf16", "bf16", "bf16"))
    load = Load(shapes={"batch": BATCH})
    toy = engine()
    problem = Problem(
        layout(structure(graph, toy, "flags"), toy),
        tuple(annotate(block, load, DEVICE) for block in graph.kinds),
        DEVICE,
        toy,
        FIXED,
        RooflineEstimator(FIXED.graph_node_s),
    )
    found = problem.solve("full").timeline.time_s
    nodes, result = unrolled(graph, times)
    expected = cheapest(nodes, result, BATCH * 4 * WIDTH, FIXED.graph_node_s)
    assert found == pytest.approx(expected, rel=1e-9)
