"""Collectives with what stands in front and behind, as one kernel of the ideal rule set."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.annotate import annotate
from planner.cost.fitted import Fitted
from planner.cost.fitting import best_tile
from planner.cost.flow import flow_of
from planner.cost.parts import Part, together
from planner.fusion.ideal import ideal_matches
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.types import ExpertLayout, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import blocks_of
from tests.cost.cost_samples import BF16
from tests.cost.test_fitting import gpu
from tests.fusion.test_ideal import closed, every, joined

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


def test_scattered_sums_stand_behind_a_projection_or_in_front_of_a_norm():
    llama = window(*LLAMA)
    behind = ("o_proj.reduce_scatter", "attention_residual", "post_attention_norm")
    assert flow(llama, "o_proj", *behind[:2]).overlaps
    assert not flow(llama, *behind).overlaps
    assert flow(llama, "o_proj", *behind) is None


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
    assert together([*link, part("moe", 20.0)], overlap=True) == 20
    assert together([*link, part("moe", 8.0)], overlap=True) == 12
    assert together([*link, part("moe", 20.0)], overlap=False) == 32


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
