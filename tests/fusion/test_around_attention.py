"""Attention with what stands around it as one kernel: what may, and that nothing is missed."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cost.attended import attended_flow, composites
from planner.fusion.attended import attended_matches
from planner.fusion.groups import structure
from planner.fusion.match import Match
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.types import ExpertLayout, Formats
from planner.spec.question import blocks_of
from tests.cost.cost_engines import engine
from tests.cost.cost_samples import BF16, graph
from tests.fusion.test_ideal import ideal_rule, least_s, with_groups
from tests.fusion.test_match import CATALOG, graph_of

QKV = ("q_proj", "k_proj", "v_proj")
PARTS = tuple(f"attention.{part}" for part in ("scores", "mask", "softmax", "values"))


def window(name: str = "llama-3.1-8b-instruct", ranks: int = 1, formats: Formats | None = None):
    made = graph_of(name, ranks) if formats is None else graph_of(name, ranks, formats)
    return Window(made.kinds[1])


def flow(found: Window, *names: str):
    keys = [(0, name) for name in (*names, *PARTS)]
    return attended_flow(found, sorted(keys, key=found.position.__getitem__))


def sets(found: Window) -> set[frozenset[str]]:
    parts = {name for each in composites(found) for _, name in each}
    return {frozenset(name for _, name in match.nodes) - parts for match in attended_matches(found)}


def names(keys) -> list[str]:
    return [name for _, name in keys]


def test_rotation_and_write_of_the_new_keys_stand_in_front():
    """They are of each head, and cached rows are never touched."""
    found = flow(window(), "rope", "kv_cache_write")
    assert names(found.beside) == ["rope", "kv_cache_write"]
    assert found.products == found.chained == ()


def test_from_the_norm_to_the_residual_is_one_kernel():
    """ClusterFusion's and NKI's attention block: K and V are of a KV head, Q and O of its queries;
    the norm is computed again by every tile.
    """
    found = flow(
        window(), "input_norm", *QKV, "rope", "kv_cache_write", "o_proj", "attention_residual"
    )
    assert names(found.products) == list(QKV)
    assert names(found.shared) == ["k_proj", "v_proj"]
    assert names(found.before) == ["input_norm"]
    assert names(found.chained) == ["o_proj"]
    assert not found.whole


def test_a_norm_of_each_head_stands_in_front_and_one_of_whole_rows_does_not():
    qwen = window("qwen3-8b")
    assert flow(qwen, "q_norm", "k_norm", "rope", "kv_cache_write")
    one_head = window("qwen3-8b", 8)  # of K: its norm is of a row and of a head
    assert flow(one_head, "q_norm", "k_norm", "rope", "kv_cache_write")
    assert flow(window(), "input_norm") is None


def test_a_statistic_of_all_heads_needs_all_of_them_in_one_tile():
    """Dynamic FP8 of each token: its largest element may lie in any head. In groups of 128 elements
    it lies in the head.
    """
    fp8 = window(formats=Formats("fp8", "fp8", "bf16", "bf16"))
    assert flow(fp8, "attended.quant").whole
    assert not flow(window(), "o_proj", "attention_residual", "post_attention_norm").whole


def test_no_other_product_follows_the_sum_over_heads():
    rest = ("o_proj", "attention_residual", "post_attention_norm")
    assert flow(window(), *rest) is not None
    assert flow(window(), *rest, "gate_proj", "up_proj") is None


def test_ranks_sum_up_behind_the_sum_over_heads():
    """Once, what is summed over heads, and a norm may follow but no product."""
    tp = window(ranks=2)
    rest = ("o_proj", "o_proj.all_reduce", "attention_residual", "post_attention_norm")
    found = flow(tp, *rest)
    assert found.overlaps
    assert names(found.rows) == ["post_attention_norm"]
    assert flow(tp, *rest, "gate_proj", "up_proj") is None
    gathered = Window(rows_of_ranks().kinds[1])
    assert flow(gathered, "h.all_gather", *QKV, "rope", "kv_cache_write") is None


def rows_of_ranks():
    """Llama-3.1-8B on two ranks that share rows between projections."""
    model = CATALOG.find("model", "llama-3.1-8b-instruct")
    layout = ExpertLayout(2, sequence=True)
    return model_graph(model, blocks_of(model, CATALOG), BF16, layout=layout)


def test_products_of_each_head_stand_on_both_sides_of_latent_attention():
    """What DeepSeek absorbs into queries and outputs is a matrix for each head."""
    [_, dense, *_] = graph_of("deepseek-v3", 8).kinds
    found = Window(dense)
    parts = next(each for each in composites(found) if "decode" in each[0][1])
    keys = sorted([*parts, (0, "q_absorb"), (0, "v_absorb")], key=found.position.__getitem__)
    assert names(attended_flow(found, keys).by_head) == ["q_absorb", "v_absorb"]


def test_half_an_attention_is_no_kernel_of_these():
    found = window()
    assert attended_flow(found, [(0, "attention.scores"), (0, "attention.mask")]) is None


def test_steps_that_another_grouping_is_never_worse_than_are_left_out():
    front = ("input_norm", *QKV, "rope", "kv_cache_write")
    behind = ("o_proj", "attention_residual")
    assert sets(window()) == {
        frozenset(front),
        frozenset(behind),
        frozenset((*front, *behind)),
    }
    tp = sets(window(ranks=2))
    assert frozenset(front) in tp
    projected = [each for each in tp if "o_proj" in each]
    assert frozenset(("o_proj", "o_proj.all_reduce", "attention_residual")) in projected
    assert all({"o_proj.all_reduce", "attention_residual"} <= each for each in projected)


def test_a_residual_stands_behind_the_product_that_it_adds_to():
    """In front of the next norm it would be as many launches, and down's result would be stored."""
    found = window()
    assert sets(Window(found.block, found.block)) == set()


def test_what_no_product_feeds_may_stand_in_front():
    """Of a block whose rows are scaled first, by a block before it that is a look-up alone."""
    found = Window(graph(SCALED).kinds[0])
    assert frozenset({"scale", "norm", "q_proj", "k_proj", "v_proj", "write", "o_proj"}) in sets(
        found
    )


SCALED = """\
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
      scale: {op: relu, in: x, out: s}
      norm: {op: rms_norm, in: s, out: h}
      q_proj: {op: linear, in: h, out: q, features: 64}
      k_proj: {op: linear, in: h, out: k, features: 16}
      v_proj: {op: linear, in: h, out: v, features: 16}
      write: {op: kv_cache_write, in: [k, v], out: cache}
      attention: {op: attention, in: [q, cache], out: a, heads: 8, kv_heads: 2, head_dim: 8}
      o_proj: {op: linear, in: a, out: o, features: 64}
    outputs: [o]
"""


@st.composite
def attention_blocks(draw):
    """A layer of attention, with or without norms, rotation, an activation, a last projection and
    another rank to sum up with.
    """
    normed, heads_normed, rotated = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    gated, after, tail = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    rows = []
    x = h = "x"
    if draw(st.booleans()):
        rows.append("first: {op: linear, in: x, out: p, features: 64}")
        rows.append("add: {op: add, in: [x, p], out: w}")
        x = h = "w"
    if normed:
        rows.append(f"norm: {{op: rms_norm, in: {x}, out: h}}")
        h = "h"
    for name, features in (("q", 64), ("k", 16), ("v", 16)):
        made = f"{{op: linear, in: {h}, out: {name}, features: {features}, shard: column}}"
        rows.append(f"{name}_proj: {made}")
    q, k = "q", "k"
    if heads_normed:
        rows.append("q_norm: {op: rms_norm, in: q, out: qn, size: 8}")
        rows.append("k_norm: {op: rms_norm, in: k, out: kn, size: 8}")
        q, k = "qn", "kn"
    if rotated:
        rows.append(f"rope: {{op: rope, in: [{q}, {k}], out: [qr, kr], head_dim: 8}}")
        q, k = "qr", "kr"
    rows.append(f"write: {{op: kv_cache_write, in: [{k}, v], out: cache}}")
    shape = "heads: 8, kv_heads: 2, head_dim: 8"
    rows.append(f"attention: {{op: attention, in: [{q}, cache], out: attended, {shape}}}")
    o = "attended"
    if gated:
        rows.append("act: {op: relu, in: attended, out: active}")
        o = "active"
    rows.append(f"o_proj: {{op: linear, in: {o}, out: o, features: 64, shard: row}}")
    rows.append(f"residual: {{op: add, in: [{x}, o], out: y}}")
    last = "y"
    if after:
        rows.append("after: {op: rms_norm, in: y, out: z}")
        last = "z"
    if tail:
        rows.append(f"up: {{op: linear, in: {last}, out: u, features: 64}}")
        last = "u"
    nodes = "".join(f"      {row}\n" for row in rows)
    return graph(
        "kind: model\nname: r\ntitle: R\ninputs: {x: [tokens, 64]}\nsequence: [{block: b}]\n"
        f"blocks:\n  b:\n    name: b\n    inputs: {{x: [tokens, 64]}}\n    nodes:\n{nodes}"
        f"    outputs: [{last}]\n",
        ranks=draw(st.integers(1, 2)),
    )


def every(found: Window) -> list[Match]:
    """Every convex group around the attention that one kernel can run, by trying all."""
    [parts] = composites(found)
    others = [key for key in found.keys if key not in parts]
    groups = []
    for size in range(1, len(others) + 1):
        for some in combinations(others, size):
            group = frozenset((*some, *parts))
            keys = sorted(group, key=found.position.__getitem__)
            made = attended_flow(found, keys) if found.is_convex(group) else None
            if made:
                groups.append(Match(None, group, flow=made))
    return groups


@settings(max_examples=many(8, 64), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(attention_blocks())
def test_no_group_that_is_left_out_makes_a_step_quicker(model):
    """Least step with all that one kernel can run around the attention, and with the set."""
    [block] = model.kinds
    single = replace(model, sequence=(replace(model.sequence[0], times=1),))
    own = structure(single, engine(), "ideal")
    assert ideal_rule(own) is not None
    more = with_groups(own, Window(block), every(Window(block)))
    assert least_s(single, own) == pytest.approx(least_s(single, more), rel=1e-9)
