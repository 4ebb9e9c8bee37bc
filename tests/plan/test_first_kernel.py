"""Which kernel to write first: what one ideal group saves beside the engine's own kernels."""

from __future__ import annotations

import pytest

from planner.fusion.order import in_some_order
from planner.plan.assemble import assemble
from planner.plan.first_kernel import beside
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask


@pytest.fixture(scope="module")
def plan():
    text = "model: qwen2.5-7b-instruct\ngpu: rtx-4090\nstep: {decode: {batch: 16, context: 4096}}\n"
    return assemble(ask(load_text(text, "deploy.yaml", "deployment"), Catalog.standard()))


def test_best_kernel_comes_first(plan):
    gains = [each.gain_s for each in plan.first_kernels]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0


def test_a_kernel_saves_what_it_replaces_less_what_it_takes(plan):
    """Engine kernels inside the group go, the group comes; both once in each of its blocks."""
    inside = [
        (row, [k for k in plan.kernels if set(k.nodes) <= set(row.nodes)])
        for row in plan.first_kernels
    ]
    whole = [
        (row, rows)
        for row, rows in inside
        if sorted(n for k in rows for n in k.nodes) == sorted(row.nodes)
        and all(k.repeat == row.repeat for k in rows)
    ]
    assert whole
    for row, rows in whole:
        saved_s = row.repeat * (sum(k.time_s for k in rows) - row.time_s)
        assert row.gain_s == pytest.approx(saved_s)
        assert row.launches_saved == row.repeat * (sum(k.launches for k in rows) - 1)


def test_the_ideal_step_is_at_least_as_quick_as_with_any_one_kernel(plan):
    """The engine's kernels with one group in their place are one of the ideal groupings."""
    best = plan.first_kernels[0].gain_s
    assert plan.step.rule_sets["ideal"].time_s <= plan.step.time_s - best + 1e-12


def test_kernels_come_with_a_tile_that_fits(plan):
    """An RTX 4090 has 256 KiB of registers a multiprocessor, half of them for sums, no clusters."""
    tiled = [row for row in plan.first_kernels if row.level]
    assert tiled
    for row in tiled:
        assert row.level in {"block", "grid"}
        assert row.multiprocessors == 1
        assert 0 < row.kept_bytes <= 128 * 1024
        assert min(row.tile) >= 16


def planned(model: str, step: str):
    text = f"model: {model}\ngpu: h100-sxm\nstep: {step}\n"
    return assemble(ask(load_text(text, "deploy.yaml", "deployment"), Catalog.standard()))


def test_a_kernel_around_attention_is_listed_with_its_cluster():
    """One sequence of Qwen3-30B-A3B: from the norm to the residual behind o_proj."""
    plan = planned("qwen3-30b-a3b", "{decode: {batch: 1, context: 1024}}")
    [row, *_] = [each for each in plan.first_kernels if "attention.scores" in each.nodes]
    assert {"input_norm", "q_proj", "rope", "kv_cache_write", "o_proj"} <= set(row.nodes)
    assert (row.level, row.tile, row.multiprocessors) == ("cluster", (1, 2048), 8)


def test_a_kernel_that_computes_a_norm_for_itself_leaves_the_engines_own():
    """The router still reads what the engine's norm stores; a router that stores none is not
    listed.
    """
    plan = planned("qwen3-30b-a3b", "{prefill: {batch: 1, tokens: 4096}}")
    experts = [each for each in plan.first_kernels if "experts" in each.nodes]
    assert "post_attention_norm" in experts[0].nodes
    assert experts[0].gain_s > 0
    assert not any("router" in each.nodes for each in plan.first_kernels)


def owners(*groups: str):
    """An engine's kernels by the nodes they run; each letter is a node of block 0."""
    kernels = [frozenset((0, node) for node in group) for group in groups]
    return {node: (None, nodes) for nodes in kernels for node in nodes}


def reads(*edges: str):
    """``ab``: b reads a."""
    return [((0, producer), (0, reader)) for producer, reader in edges]


def test_a_new_kernel_that_waits_for_one_that_waits_for_it_is_in_no_order():
    """x reads a, b reads y. The engine runs xy as one kernel; ab would wait for y, and xy for a.
    With x and y alone, a new kernel of all four or one of a and x have an order.
    """
    edges = reads("ax", "yb")
    new = {(0, "a"), (0, "b")}
    assert not in_some_order(beside(new, owners("a", "b", "xy")), edges)
    assert in_some_order(beside(new, owners("a", "b", "x", "y")), edges)
    assert in_some_order(beside({(0, n) for n in "abxy"}, owners("a", "b", "xy")), edges)
    assert in_some_order(beside({(0, "a"), (0, "x")}, owners("a", "b", "xy")), edges)


def test_rings_may_lead_through_a_third_kernel_and_the_next_block():
    """a → c, c with d of the next block in one kernel, d → e there, and e with f, which b reads."""
    first, after = {(0, n) for n in "ab"}, [((0, "a"), (0, "c")), ((1, "d"), (1, "e"))]
    edges = [*after, ((0, "f"), (0, "b"))]
    kernels = [frozenset(each) for each in ([(0, "c"), (1, "d")], [(1, "e"), (0, "f")])]
    found = {node: (None, nodes) for nodes in kernels for node in nodes}
    found |= {node: (None, frozenset({node})) for node in first}
    assert not in_some_order(beside(first, found), edges)
    assert in_some_order(beside(first, found), edges[:-1])


def test_nodes_that_a_split_kernel_leaves_run_alone():
    """The engine's abc and de, a new kernel of b and d: a, c and e are left."""
    groups = beside({(0, "b"), (0, "d")}, owners("abc", "de", "f"))
    assert sorted("".join(sorted(n for _, n in each)) for each in groups) == [
        "a",
        "bd",
        "c",
        "e",
        "f",
    ]
