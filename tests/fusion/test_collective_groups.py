"""Collectives with what stands in front and behind, as one kernel of the ideal rule set."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.annotate import annotate
from planner.cost.fitted import Fitted
from planner.cost.fitting import best_tile
from planner.cost.flow import flow_of
from planner.cost.parts import Part, first_message_s, together
from planner.cost.tile import Tile
from planner.fusion.groups import structure
from planner.fusion.ideal import ideal_matches
from planner.fusion.match import Match
from planner.graph.build import model_graph
from planner.graph.types import ModelGraph
from planner.graph.window import Window
from planner.ops.types import ExpertLayout, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import blocks_of
from tests.cost.cost_engines import engine
from tests.cost.cost_samples import BF16, graph
from tests.cost.test_fitting import gpu
from tests.fusion.test_ideal import (
    closed,
    every,
    ideal_rule,
    joined,
    least_s,
    siblings_together,
    with_groups,
)

CATALOG = Catalog.standard()
MIB = 1024**2
ROWS = ExpertLayout(4, sequence=True)
DEEPEP = ExpertLayout(8, experts=16, replicas=2, exchange="all_to_all")
QKV = ("q_proj", "k_proj", "v_proj")
MLP = ("gate_proj", "up_proj", "act", "act_mul")


@cache
def window(name: str, layout: ExpertLayout, kind: int = 1) -> Window:
    model = CATALOG.find("model", name)
    graph = model_graph(model, blocks_of(model, CATALOG), BF16, layout=layout)
    return Window(graph.kinds[kind])


def flow(found: Window, *names: str):
    keys = [(0, name) for name in names]
    return flow_of(found, sorted(keys, key=found.position.__getitem__))


LLAMA = ("llama-3.1-70b-instruct", ROWS)
DEEPSEEK = ("deepseek-v3", DEEPEP, 2)


def test_gathered_rows_are_multiplied_as_they_come():
    """Flux's and AsyncTP's all-gather with GEMM: each row comes whole. The norm in front of it is
    of this rank's rows and computed once, not by every tile.
    """
    found = flow(window(*LLAMA), "input_norm", "h.all_gather", *QKV, "rope", "kv_cache_write")
    assert found.overlaps
    assert found.arrived == (0, "h.all_gather")
    assert found.before == ()


def test_what_stands_between_gather_and_projection_is_computed_by_every_tile():
    llama = flow(window(*LLAMA), "m.all_gather", *MLP, "down_proj")
    assert [name for _, name in llama.chained] == ["down_proj"]


def test_scattered_sums_stand_behind_a_projection_and_in_front_of_a_norm():
    llama = window(*LLAMA)
    behind = ("o_proj.reduce_scatter", "attention_residual", "post_attention_norm")
    assert flow(llama, "o_proj", *behind[:2]).overlaps
    assert not flow(llama, *behind).overlaps
    assert flow(llama, "o_proj", *behind).whole
    mlp = (*MLP, "down_proj", "down_proj.reduce_scatter", "mlp_residual")
    assert flow(llama, *mlp).overlaps


def test_a_kernel_has_one_collective():
    llama = window(*LLAMA)
    names = ("o_proj.reduce_scatter", "attention_residual", "post_attention_norm", "m.all_gather")
    assert flow(llama, *names) is None


def test_gathered_columns_end_a_projection_and_begin_none():
    """The LM head's logits travel tile by tile; the largest of a row is known when all have come."""
    head = window("llama-3.1-70b-instruct", ExpertLayout(4), 2)
    assert flow(head, "lm_head", "lm_head.all_gather").overlaps
    assert flow(head, "lm_head", "lm_head.all_gather", "sampling")


def test_tokens_go_to_experts_and_back_in_one_kernel():
    """As DeepGEMM's Mega MoE: rows that have come are multiplied, rows that are done go back."""
    found = flow(window(*DEEPSEEK), "experts.dispatch", "experts", "experts.combine")
    assert found.overlaps
    assert (found.exchange, found.arrived) == ((0, "experts.dispatch"),) * 2
    names = {frozenset(name for _, name in m.nodes) for m in ideal_matches(window(*DEEPSEEK))}
    assert frozenset({"experts.dispatch", "experts", "experts.combine"}) in names


def test_a_router_is_done_before_tokens_leave():
    assert flow(window(*DEEPSEEK), "router", "experts.dispatch") is None
    assert flow(window(*DEEPSEEK), "router", "experts.dispatch", "experts") is None


def test_experts_on_tensor_ranks_sum_up_as_they_are_done():
    mixtral = window("mixtral-8x7b", ExpertLayout(4))
    [reduce] = [
        node.id for node in mixtral.block.nodes if "expert" in node.id and "all_re" in node.id
    ]
    assert flow(mixtral, "experts", reduce).overlaps
    assert flow(mixtral, "experts", reduce, "mlp_residual").overlaps


def test_link_and_chip_work_at_the_same_time():
    """To the experts 5, back 7, the experts 20: 20; experts of 8: 12. One after another 32."""
    fitted = Fitted("v", {}, "datasheet", "this test")

    def part(family: str, core_s: float) -> Part:
        return Part(family, core_s, 0.0, 0.0, fitted)

    link = [part("collective", 5.0), part("collective", 7.0)]
    endless = Tile("block", pieces=math.inf)
    assert together([*link, part("moe", 20.0)], endless) == (20, 0)
    assert together([*link, part("moe", 8.0)], endless) == (12, 4)
    assert together([*link, part("moe", 20.0)], None) == (32, 12)


def test_the_last_part_travels_alone():
    """Two products of 6 and 3, a sum over ranks of 8, 2 of which a message takes that is empty.

    Four parts: of the 6 on the link three quarters hide, 9 + 8 − 4.5. Where parts are complete in
    the last third alone, of 9 three hide, less a quarter; at half of the multiprocessors that third
    is as long as six.
    """
    fitted = Fitted("v", {}, "datasheet", "this test")
    chip = [Part("gemm", time_s, 0.0, 0.0, fitted) for time_s in (6.0, 3.0)]
    parts = [*chip, Part("collective", 8.0, 0.0, 0.0, fitted, hops_s=2.0)]
    assert together(parts, Tile("block", pieces=4)) == (12.5, 3.5)
    assert together(parts, Tile("block", pieces=4, last=1 / 3)) == pytest.approx((14.75, 5.75))
    half = Tile("block", share=0.5, pieces=4, last=1 / 3)
    assert together(parts, half) == pytest.approx((12.5, 3.5))


def test_a_kernel_whose_start_is_another_parts_still_finds_the_other_ranks():
    """Attention starts in 8, a sum over ranks alone in 5, a kernel in 2: 3 more."""
    fitted = Fitted("v", {}, "datasheet", "this test")
    attention, link = Part("attention", 1, 8, 0, fitted), Part("collective", 1, 5, 0, fitted)
    assert first_message_s(attention, [attention, link], 2.0) == 3
    assert first_message_s(link, [attention, link], 2.0) == 0
    assert first_message_s(attention, [attention], 2.0) == 0


def test_rows_that_miss_the_l2_lie_in_memory_until_they_are_multiplied():
    """Llama-3.1-70B, 8192 tokens: rows of 16 KiB are 128 MiB of an L2 of 50: written, read again."""
    llama, chip = window(*LLAMA), gpu("h100-sxm")
    for tokens, expected in ((8192, 2 * 128 * MIB), (2048, 0)):
        costs = (annotate(llama.block, Load((SequenceGroup(1, tokens, tokens),)), chip),)
        found = best_tile(flow(llama, "h.all_gather", *QKV), costs, chip)
        assert found.extra_bytes == pytest.approx(expected)


@st.composite
def shared_rows(draw) -> Window:
    """A block whose ranks share rows: norms, adds, projections of columns and of rows."""
    rows, last, width = [], "x", 64
    for number in range(draw(st.integers(2, 4))):
        op = draw(st.sampled_from(["norm", "add", "wide"]))
        name = f"n{number}"
        if op == "norm":
            rows.append(f"{name}: {{op: rms_norm, in: {last}}}")
        elif op == "add":
            rows.append(f"{name}: {{op: add, in: [{last}, x]}}")
        else:
            rows.append(f"{name}u: {{op: linear, in: {last}, features: 128, shard: column}}")
            rows.append(f"{name}a: {{op: relu, in: {name}u}}")
            rows.append(f"{name}: {{op: linear, in: {name}a, features: {width}, shard: row}}")
        last = name
    nodes = "".join(f"      {row}\n" for row in rows)
    text = (
        "kind: model\nname: r\ntitle: R\ndims: {hidden: 64}\n"
        "sequence: [{block: a}, {block: b}]\nblocks:\n"
        "  a:\n    name: a\n    inputs: {ids: [tokens]}\n    nodes:\n"
        "      e: {op: embedding, in: ids, out: x, rows: 96, features: hidden, shard: true}\n"
        "    outputs: [x]\n"
        f"  b:\n    name: b\n    inputs: {{x: [tokens, hidden]}}\n    nodes:\n{nodes}"
        f"    outputs: [{last}]\n"
    )
    spec = load_text(text, "m.yaml", "model")
    graph = model_graph(spec, spec.blocks, BF16, layout=ROWS)
    return Window(graph.kinds[1])


@settings(max_examples=many(10, 200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shared_rows())
def test_growing_finds_every_group_around_collectives(found):
    """Against all subsets of up to eight nodes."""
    expected = {group for group in every(found) if joined(found, group) and closed(found, group)}
    assert {match.nodes for match in ideal_matches(found)} == expected


@st.composite
def summed_rows(draw) -> ModelGraph:
    """A block of two ranks: norms, adds, projections of columns and of rows that are summed up."""
    rows, last = [], "x"
    for number in range(draw(st.integers(2, 4))):
        name, op = f"n{number}", draw(st.sampled_from(["norm", "add", "wide", "wide"]))
        if op == "wide":
            rows.append(f"{name}u: {{op: linear, in: {last}, features: 128, shard: column}}")
            rows.append(f"{name}: {{op: linear, in: {name}u, features: 64, shard: row}}")
        else:
            rows.append(f"{name}: {NORM_OR_ADD[op].format(last)}")
        last = name
    nodes = "".join(f"      {row}\n" for row in rows)
    return graph(
        "kind: model\nname: r\ntitle: R\ninputs: {x: [tokens, 64]}\nsequence: [{block: b}]\n"
        f"blocks:\n  b:\n    name: b\n    inputs: {{x: [tokens, 64]}}\n    nodes:\n{nodes}"
        f"    outputs: [{last}]\n",
        ranks=2,
    )


NORM_OR_ADD = {"norm": "{{op: rms_norm, in: {}}}", "add": "{{op: add, in: [{}, x]}}"}


@settings(max_examples=many(10, 200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(summed_rows())
def test_no_group_around_sums_that_is_left_out_makes_a_step_quicker(model):
    """The least step with every group that keeps siblings together is that of the set."""
    found = Window(model.kinds[0])
    own = structure(model, engine(), "ideal")
    groups = [(g, made) for g, made in every(found).items() if joined(found, g)]
    more = [
        Match(ideal_rule(own), g, flow=made) for g, made in groups if siblings_together(found, g)
    ]
    assert least_s(model, own) == pytest.approx(least_s(model, with_groups(own, found, more)))
