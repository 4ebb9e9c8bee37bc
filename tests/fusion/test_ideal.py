"""Groups that a perfect compiler could build: what may stand in front, behind and beside."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from thoroughness import many

from planner.capture.layout import layout
from planner.capture.solve import Problem
from planner.capture.types import FixedCosts
from planner.cost.annotate import annotate
from planner.cost.estimator import RooflineEstimator
from planner.cost.flow import flow_of
from planner.cost.roles import role_of
from planner.fusion.groups import structure
from planner.fusion.ideal import MAX_NODES, MOST_PER_NODE, ideal_matches
from planner.fusion.match import Match
from planner.graph.window import Window
from planner.ops.types import Formats, Load, SequenceGroup
from tests.cost.cost_engines import engine
from tests.cost.cost_samples import DEVICE, graph, random_models
from tests.fusion.test_match import graph_of

FP8 = Formats("fp8", "fp8", "bf16", "bf16")


def window(name: str = "llama-3.1-8b-instruct", ranks: int = 1, **formats) -> Window:
    graph = graph_of(name, ranks, **formats)
    return Window(graph.kinds[1])


def flow(found: Window, *names: str):
    keys = [(0, name) for name in names]
    return flow_of(found, sorted(keys, key=found.position.__getitem__))


def sets(found: Window) -> set[frozenset[str]]:
    return {frozenset(name for _, name in match.nodes) for match in ideal_matches(found)}


QKV = ("q_proj", "k_proj", "v_proj")
MLP = ("gate_proj", "up_proj", "act", "act_mul")


def test_a_norm_in_front_of_projections_is_computed_while_they_run():
    """(x·w/rms)·W = (x·w·W)/rms: its input is read once."""
    found = flow(window(), "input_norm", *QKV)
    assert [name for _, name in found.before] == ["input_norm"]
    assert not found.twice
    assert {"input_norm", *QKV, "rope", "kv_cache_write"} in sets(window())


def test_rows_are_read_twice_to_be_quantised_in_front():
    """The largest of a row must be known before its first element is rounded."""
    fp8 = window(formats=FP8)
    found = flow(fp8, "input_norm", "h.quant", *QKV)
    assert [name for _, name in found.before] == ["input_norm", "h.quant"]
    assert found.twice


def test_projections_of_one_input_join_all_or_alone():
    groups = sets(window())
    assert frozenset({*QKV, "rope", "kv_cache_write"}) in groups
    assert not any({"q_proj", "k_proj"} <= group and "v_proj" not in group for group in groups)


def test_elementwise_nodes_that_alone_read_a_result_stay_with_it():
    """Splitting gate and up from their product would only write two tensors where one will do."""
    groups = sets(window())
    assert frozenset(MLP) in groups
    assert frozenset({"gate_proj", "up_proj"}) not in groups
    assert frozenset({"gate_proj", "up_proj", "act"}) not in groups


def test_two_products_may_follow_each_other_and_no_third():
    llama = window()
    found = flow(llama, *MLP, "down_proj", "mlp_residual")
    assert [name for _, name in found.chained] == ["down_proj"]
    seam = Window(llama.block, llama.block)
    third = [*((0, name) for name in (*MLP, "down_proj", "mlp_residual")), (1, "input_norm")]
    assert flow_of(seam, [*third, (1, "q_proj")]) is None


def test_a_norm_behind_a_projection_needs_whole_rows():
    assert flow(window(), "o_proj", "attention_residual", "post_attention_norm").whole


def test_a_norm_of_each_head_needs_no_whole_row():
    """Its statistics are of 128 columns, which a tile holds."""
    found = flow(window("qwen3-8b"), *QKV, "q_norm", "k_norm")
    assert not found.whole


def test_norms_that_share_only_a_reader_may_be_one_launch():
    """Q and K are tensors of their own; with both normalised, their rotation comes along."""
    assert frozenset({"q_norm", "k_norm", "rope"}) in sets(window("qwen3-8b"))


REDUCED = ("o_proj.all_reduce", "attention_residual")


def test_a_sum_over_ranks_stands_behind_a_product_and_in_front_of_a_norm():
    """The ranks' sums are rows as any: a norm of them needs them whole."""
    tp = window(ranks=2)
    assert flow(tp, "o_proj", *REDUCED).overlaps
    assert not flow(tp, *REDUCED, "post_attention_norm").overlaps
    both = flow(tp, "o_proj", *REDUCED, "post_attention_norm")
    assert both.overlaps
    assert both.whole
    assert {"o_proj", *REDUCED, "post_attention_norm"} in sets(tp)


def test_no_product_follows_a_sum_over_ranks():
    tp = window(ranks=2)
    assert flow(tp, *REDUCED, "post_attention_norm", "gate_proj") is None
    assert flow(tp, "o_proj", *REDUCED, "post_attention_norm", "gate_proj") is None


def test_a_sum_over_ranks_stands_behind_two_products():
    tp = window(ranks=2)
    mlp = (*MLP, "down_proj", "down_proj.all_reduce", "mlp_residual")
    found = flow(tp, *mlp)
    assert [name for _, name in found.chained] == ["down_proj"]
    assert found.overlaps
    assert (found.whole, found.held) == (False, False)
    assert set(mlp) in sets(tp)


def test_a_norm_between_two_products_commutes_with_the_second():
    """(x·w/rms)·W = (x·w·W)/rms: slices of the first are taken up before the statistic is known."""
    seam = Window(window().block, window().block)
    keys = [(0, "down_proj"), (0, "mlp_residual"), (1, "input_norm"), *((1, name) for name in QKV)]
    found = flow_of(seam, keys)
    assert len(found.chained) == len(QKV)
    assert (found.whole, found.held) == (False, False)
    assert frozenset(keys) in {match.nodes - rest(match) for match in ideal_matches(seam)}


def rest(match: Match) -> frozenset:
    """What rotation and cache add behind."""
    return frozenset(key for key in match.nodes if key[1] in {"rope", "kv_cache_write"})


def test_a_rounding_between_two_products_needs_the_first_ones_rows_whole():
    """Its largest element must be known before the first one is rounded; of groups of 128 elements
    it is in the tile.
    """
    block = window(formats=FP8).block
    keys = [(1, "input_norm"), (1, "h.quant"), *((1, name) for name in QKV)]
    found = flow_of(Window(block, block), [(0, "down_proj"), (0, "mlp_residual"), *keys])
    assert found.held
    blocks = Formats("fp8_block", "fp8", "bf16", "bf16")
    grouped = Window(graph_of("deepseek-v3", 8, blocks).kinds[1])
    names = ("q_a_proj", "kv_a_proj_with_mqa", "q_a_norm", "q_normed.quant", "q_b_proj")
    assert not flow(grouped, *names).held


def test_a_normalised_row_that_others_read_is_held():
    """It is written, so its statistic is needed before the second product is done."""
    tied = Window(graph(NORM_FOR_TWO).kinds[0])
    assert not flow(tied, "first", "norm", "second").held
    assert flow(Window(graph(NORM_FOR_TWO.replace("[y]", "[y, h]")).kinds[0]), *TIED).held


TIED = ("first", "norm", "second")
NORM_FOR_TWO = """\
kind: model
name: r
title: R
inputs: {x: [tokens, 64]}
sequence: [{block: b}]
blocks:
  b:
    name: b
    inputs: {x: [tokens, 64]}
    nodes:
      first: {op: linear, in: x, out: f, features: 64}
      norm: {op: rms_norm, in: f, out: h}
      second: {op: linear, in: h, out: y, features: 64}
    outputs: [y]
"""


def test_experts_begin_a_kernel_and_take_no_router_in():
    """Each expert must know the scores of all tokens before its first row."""
    moe = window("qwen3-30b-a3b")
    assert frozenset({"experts"}) in sets(moe)
    assert frozenset({"experts", "mlp_residual"}) in sets(moe)
    assert flow(moe, "router", "experts") is None


def test_a_cache_is_not_written_once_for_each_tile():
    """A state in front of a product would run for every tile of columns."""
    hybrid = graph_of("qwen3-next-80b-a3b")
    for block in hybrid.kinds:
        found = Window(block)
        for match in ideal_matches(found):
            states = {key for key in match.nodes if role_of(found.node(key)) == "state"}
            assert not states & set(match.flow.before if match.flow else ())


def closed(found: Window, group: frozenset) -> bool:
    """The two rules of the set, read off the graph anew: siblings, and sole readers."""
    products = [key for key in group if role_of(found.node(key)) == "product"]
    above = {key: found.ancestors[key] & group for key in group}
    chain = any(above[key] & set(products) for key in products)
    for key in products:
        rows = found.inputs(key)[0]
        siblings = {
            other
            for other in found.readers[rows]
            if found.node(other).op_name == found.node(key).op_name
        }
        joined = siblings & group - {key}
        if (joined or chain or found.predecessors[key] & group) and not siblings <= group:
            return False
    for key in set(found.keys) - group:
        alone = all(
            found.producer.get(tensor) in group
            and found.readers[tensor] == (key,)
            and tensor not in found.escaping
            for tensor in found.inputs(key)
        )
        if alone and role_of(found.node(key)) in {"element", "state"}:
            return False
    return True


def joined(found: Window, group: frozenset) -> bool:
    """Whether a group hangs together by edges, inputs of like nodes or readers of like nodes."""

    def near(one, other) -> bool:
        if one in found.predecessors[other] or other in found.predecessors[one]:
            return True
        roles = {role_of(found.node(one)), role_of(found.node(other))}
        shared = set(found.inputs(one)) & set(found.inputs(other))
        if roles == {"product"}:
            return bool(shared)
        alike = found.node(one).op_name == found.node(other).op_name
        readers = [
            {reader for tensor in found.outputs(key) for reader in found.readers.get(tensor, ())}
            for key in (one, other)
        ]
        return "product" not in roles and alike and bool(shared or readers[0] & readers[1])

    reached, todo = set(), [next(iter(group))]
    while todo:
        key = todo.pop()
        if key not in reached:
            reached.add(key)
            todo += [other for other in group if near(key, other)]
    return reached == group


def every(found: Window) -> dict[frozenset, object]:
    """Every convex group of at most 8 nodes that one kernel can run, by trying all."""
    groups = {}
    for size in range(2, MAX_NODES + 1):
        for keys in combinations(found.keys, size):
            group = frozenset(keys)
            here = any(key[0] == 0 for key in group)
            if here and found.is_convex(group) and (made := flow_of(found, keys)):
                groups[group] = made
    return groups


@settings(max_examples=many(12, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(random_models())
def test_growing_finds_every_closed_group(model):
    found = Window(model.kinds[0])
    expected = {group for group in every(found) if joined(found, group) and closed(found, group)}
    assume(len(expected) <= MOST_PER_NODE * len(found.keys))
    assert {match.nodes for match in ideal_matches(found)} == expected


@settings(max_examples=many(12, 400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(random_models())
def test_groups_left_out_for_their_sole_readers_are_never_needed(model):
    """The least step with every group that keeps siblings together is that of the set."""
    [block] = model.kinds
    single = replace(model, sequence=(replace(model.sequence[0], times=1),))
    found = Window(block)
    own = structure(single, engine(), "ideal")
    more = [
        Match(ideal_rule(own), group, flow=made)
        for group, made in every(found).items()
        if joined(found, group) and siblings_together(found, group)
    ]
    assume(len(more) <= MOST_PER_NODE * len(found.keys))
    assert least_s(single, own) == pytest.approx(least_s(single, with_groups(own, found, more)))


def ideal_rule(own):
    return next((g.rule for g in own.inside[0] if g.rule), None)


def siblings_together(found: Window, group: frozenset) -> bool:
    whole = group
    while True:
        more = {
            key
            for key in set(found.keys) - whole
            if role_of(found.node(key)) in {"element", "state"}
            and all(
                found.producer.get(tensor) in whole
                and found.readers[tensor] == (key,)
                and tensor not in found.escaping
                for tensor in found.inputs(key)
            )
        }
        if not more:
            return closed(found, whole)
        whole |= more


def with_groups(own, found: Window, matches):
    from planner.cost.kernel import known_border
    from planner.fusion.groups import Group

    groups = tuple(
        Group("all", "", m.nodes, known_border(found, m.nodes), 1, flow=m.flow) for m in matches
    )
    return replace(own, inside=((*own.inside[0], *groups),))


QUICK_LINK = replace(DEVICE, link_bytes_per_s=1e15)
"""Behind a slow one bytes would hide, and it would be best to hide as many as possible there."""


def least_s(model, own) -> float:
    fixed, device = FixedCosts(0.0, 0.0, 0.0, 1e-9), QUICK_LINK
    costs = (annotate(model.kinds[0], Load((SequenceGroup(64, 1, 1),)), device),)
    made = layout(own, engine())
    problem = Problem(made, costs, device, engine(), fixed, RooflineEstimator(fixed.graph_node_s))
    return problem.solve("full").timeline.time_s
