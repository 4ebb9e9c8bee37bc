"""Nodes that several kernels compute for themselves: against every way to store or repeat them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.capture.layout import Slot, layout
from planner.capture.solve import Problem
from planner.capture.types import FixedCosts
from planner.capture.work import worked
from planner.cost.annotate import annotate
from planner.cost.estimator import RooflineEstimator
from planner.cost.flow import flow_of
from planner.cost.kernel import border
from planner.fusion.groups import Group, structure
from planner.fusion.order import in_some_order
from planner.graph.window import Window
from planner.ops.types import Load, SequenceGroup
from tests.cost.cost_engines import engine
from tests.cost.cost_samples import DEVICE, graph
from tests.fusion.test_match import graph_of

NORM = (0, "norm")
FIXED = FixedCosts(0.0, 0.0, 0.0, 1e-9)
MOE = "experts: {op: moe, in: [m, routing], out: routed, experts: 8, top_k: 2, intermediate: 32}"


def block_of(*rows: str, out: str):
    nodes = "".join(f"      {row}\n" for row in rows)
    return graph(
        "kind: model\nname: r\ntitle: R\ninputs: {x: [tokens, 64], z: [tokens, 64]}\n"
        "sequence: [{block: b}]\nblocks:\n  b:\n    name: b\n"
        f"    inputs: {{x: [tokens, 64], z: [tokens, 64]}}\n    nodes:\n{nodes}"
        f"    outputs: [{out}]\n"
    )


def problem(model, tokens: float) -> Problem:
    own = structure(model, engine(), "ideal")
    costs = (annotate(model.kinds[0], Load((SequenceGroup(1, tokens, tokens),)), DEVICE),)
    made = layout(own, engine())
    return Problem(made, costs, DEVICE, engine(), FIXED, RooflineEstimator(FIXED.graph_node_s))


def together(model) -> list[list[str]]:
    own = structure(model, engine(), "ideal")
    return [
        sorted("+".join(sorted(name for _, name in each.nodes)) for each in group.together)
        for group in own.inside[-2 if len(own.inside) > 1 else 0]
        if group.together
    ]


def test_a_norm_of_router_and_experts_is_computed_in_both():
    """Qwen3-MoE. Projections that read one norm join as siblings: Llama has no such node."""
    found = together(graph_of("qwen3-30b-a3b"))
    assert ["experts+mlp_residual", "post_attention_norm+router"] in found
    assert all(len(each) == 2 for each in found)
    assert together(graph_of()) == []


def test_what_is_saved_is_a_write_and_the_reads_of_kernels_that_read_the_input_anyway():
    """1e6 tokens of 64 BF16 numbers are 128 MB, at 1 TB/s 128 us. Router and norm read x, 128;
    experts and add read x for both, 128, and write y, 128. Weights are nothing beside it. Stored,
    the first writes 128 more and the second reads 128 more.
    """
    rows = "norm: {op: rms_norm, in: x, out: m}", *ROUTED, "add: {op: add, in: [x, routed], out: y}"
    asked = problem(block_of(*rows, out="y"), 1e6)
    [bundle] = [
        n for n, slot in enumerate(asked.layout.slots) if len(slot.together) and has_add(slot)
    ]
    first, second = asked.priced(bundle).together
    scores = float(first.asked.work.hbm_bytes) - 128e6
    assert 0 < scores < 50e6
    assert first.asked.work.hbm_bytes == pytest.approx(128e6 + scores)
    assert second.asked.work.hbm_bytes == pytest.approx(2 * 128e6 + scores, rel=0.01)
    assert asked.priced(bundle).slot.group.saves == (NORM, 2)


ROUTED = ("router: {op: moe_router, in: m, out: routing, experts: 8, top_k: 2}", MOE)


def has_add(slot: Slot) -> bool:
    return any((0, "add") in each.group.nodes for each in slot.together)


def test_what_saves_less_than_a_quarter_of_a_microsecond_is_not_looked_at():
    """One token of 64 numbers."""
    rows = "norm: {op: rms_norm, in: x, out: m}", *ROUTED, "add: {op: add, in: [x, routed], out: y}"
    asked = problem(block_of(*rows, out="y"), 1)
    found = [asked.priced(n) for n, slot in enumerate(asked.layout.slots) if slot.together]
    assert found
    assert all(each.estimate.core_s == float("inf") and not each.together for each in found)


def test_a_solution_lists_the_kernels_and_not_the_choice():
    rows = "norm: {op: rms_norm, in: x, out: m}", *ROUTED, "add: {op: add, in: [x, routed], out: y}"
    [run] = problem(block_of(*rows, out="y"), 1e6).solve("full").runs
    assert [sorted(n for _, n in kernel.group.border.nodes) for kernel in run.kernels] == [
        ["norm", "router"],
        ["add", "experts", "norm"],
    ]


@st.composite
def blocks(draw):
    """A norm that router, experts and perhaps a projection read, with adds in front and behind."""
    rows, x = [], "x"
    if draw(st.booleans()):
        rows.append("before: {op: add, in: [x, z], out: w}")
        x = "w"
    rows += [f"norm: {{op: rms_norm, in: {x}, out: m}}", *ROUTED]
    out = "routed"
    if draw(st.booleans()):
        rows.append("shared: {op: linear, in: m, out: s, features: 64}")
        rows.append("joined: {op: add, in: [s, routed], out: t}")
        out = "t"
    if draw(st.booleans()):
        rows.append(f"add: {{op: add, in: [{x}, {out}], out: y}}")
        out = "y"
    return block_of(*rows, out=out)


def partitions(nodes: frozenset, groups: list[Group]):
    if not nodes:
        yield ()
        return
    first = min(nodes)
    for group in groups:
        if first in group.nodes and group.nodes <= nodes:
            yield from ((group, *rest) for rest in partitions(nodes - group.nodes, groups))


def repeated(group: Group, window: Window) -> Group | None:
    """The kernel with the norm in front, or inside and stored for nobody."""
    nodes = group.nodes | {NORM}
    flow = flow_of(window, sorted(nodes, key=window.position.__getitem__))
    if flow is None and len(nodes) > 1:
        return None
    edge = border(window, nodes)
    kept = tuple(each for each in edge.writes if each[0] != NORM)
    return replace(group, border=replace(edge, writes=kept), flow=flow)


def brute_force_s(model, asked: Problem) -> float:
    """The least over all covers, the norm stored or computed by all that read it."""
    window = Window(model.kinds[0])
    plain = [group for group in asked.layout.structure.inside[0] if not group.together]
    readers = set(window.readers[0, "m"])
    edges = [(p, key) for key in window.keys for p in window.predecessors[key]]
    known = {}

    def price_s(group: Group) -> float:
        if group.border not in known:
            slot = Slot(group, (0,), outside=False, splits=False, fuses=frozenset(), alone=None)
            _, estimate = worked(slot, asked.costs, DEVICE, asked.estimator)
            known[group.border] = estimate.core_s + estimate.floor_s * bool(group.launches)
        return float(known[group.border])

    best = float("inf")
    for cover in partitions(frozenset(window.keys), plain):
        if not in_some_order([group.nodes for group in cover], edges):
            continue
        best = min(best, sum(map(price_s, cover)))
        owner = next(group for group in cover if NORM in group.nodes)
        if owner.nodes & readers:
            own = [
                repeated(group, window) if group is owner or group.nodes & readers else group
                for group in cover
            ]
            if all(own):
                best = min(best, sum(map(price_s, own)))
    return best


@settings(max_examples=many(8, 16), deadline=None)
@given(blocks(), st.sampled_from([2e4, 1e6]))
def test_the_search_finds_the_best_of_storing_and_computing_again(model, tokens):
    asked = problem(model, tokens)
    found_s = asked.solve("full").timeline.time_s
    assert found_s == pytest.approx(brute_force_s(model, asked), rel=1e-9)
