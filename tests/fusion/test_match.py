"""Where rules fit: patterns, classes, seams, and the refusals they leave."""

from __future__ import annotations

import pytest

from planner.cost.annotate import annotate
from planner.cost.engine import Engine
from planner.cost.types import Device
from planner.fusion.groups import refused_rules, structure
from planner.fusion.limits import limit_refusal
from planner.fusion.match import matches
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.types import Formats, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import blocks_of
from planner.spec.types import FusionRule, SlotSpec

CATALOG = Catalog.standard()
BF16 = Formats("bf16", "bf16", "bf16", "bf16")
DEVICE = Device("toy", "Toy", 1e12, {"bf16": 1e14}, 1e13, 1e11, 0.0, 1e11, 1e11)


def graph_of(name: str = "llama-3.1-8b-instruct", ranks: int = 1, formats: Formats = BF16):
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), formats, ranks)


def layer_window(graph, *, seam: bool = False) -> Window:
    return Window(graph.kinds[1], graph.kinds[1] if seam else None)


def rule(*slots: SlotSpec, **fields) -> FusionRule:
    return FusionRule(name="r", engine_name="R", pattern=slots, source="this test", **fields)


def names(found) -> set[frozenset[str]]:
    return {frozenset(f"{'+' * offset}{name}" for offset, name in m.nodes) for m in found}


ADD_NORM = (
    SlotSpec(slot="add", op="add"),
    SlotSpec(slot="norm", op="rms_norm", reads="add"),
)


def test_a_pattern_inside_a_block_fits_once():
    found = matches(rule(*ADD_NORM), layer_window(graph_of()))
    assert names(found) == {frozenset({"attention_residual", "post_attention_norm"})}


def test_a_pattern_fits_across_the_seam_of_two_layers():
    """The residual add that ends a layer and the norm that opens the next; '+' marks the next."""
    found = matches(rule(*ADD_NORM), layer_window(graph_of(), seam=True))
    assert frozenset({"mlp_residual", "+input_norm"}) in names(found)
    assert frozenset({"+attention_residual", "+post_attention_norm"}) not in names(found)


def test_siblings_share_an_input():
    qkv = rule(
        SlotSpec(slot="q", op="linear", id="q_proj"),
        SlotSpec(slot="k", op="linear", id="k_proj", beside="q"),
        SlotSpec(slot="v", op="linear", id="v_proj", beside="q"),
    )
    found = matches(qkv, layer_window(graph_of()))
    assert names(found) == {frozenset({"q_proj", "k_proj", "v_proj"})}


def test_nodes_with_different_inputs_are_no_siblings():
    strange = rule(
        SlotSpec(slot="q", op="linear", id="q_proj"),
        SlotSpec(slot="o", op="linear", id="o_proj", beside="q"),
    )
    assert matches(strange, layer_window(graph_of())) == []


def test_an_optional_slot_gives_both_sizes():
    chain = rule(*ADD_NORM, SlotSpec(slot="q", op="quantize", reads="norm", optional=True))
    fp8 = graph_of(formats=Formats("fp8", "fp8", "bf16", "bf16"))
    sizes = sorted(len(m.nodes) for m in matches(chain, layer_window(fp8)))
    assert sizes == [2, 3]


def test_feeds_ties_a_slot_to_its_reader():
    back = rule(
        SlotSpec(slot="norm", op="rms_norm"),
        SlotSpec(slot="add", op="add", feeds="norm"),
    )
    found = matches(back, layer_window(graph_of()))
    assert names(found) == {frozenset({"attention_residual", "post_attention_norm"})}


def test_a_group_with_a_detour_outside_is_refused():
    """attention_residual and mlp_residual share a tensor, but the whole MLP lies between them."""
    detour = rule(
        SlotSpec(slot="first", op="add", id="attention_residual"),
        SlotSpec(slot="last", op="add", reads="first"),
    )
    assert matches(detour, layer_window(graph_of())) == []


def test_classes_give_every_connected_group_and_honour_excludes():
    inductor = rule(classes=("pointwise", "row_reduction"), excludes=("attention.*",))
    found = names(matches(inductor, layer_window(graph_of())))
    assert frozenset({"act", "act_mul"}) in found
    assert frozenset({"attention_residual", "post_attention_norm"}) in found
    assert not any("attention.mask" in group for group in found)
    assert not any({"rope", "act"} <= group for group in found), "not connected"


def engine(version: str = "1", **facts) -> Engine:
    text = """
kind: backend
name: toy
title: Toy
versions: ["1"]
flags:
  fuse: {type: bool, about: fuses, tunable: true, choices: [false, true], default: [{value: false}]}
  fixed: {type: bool, about: cannot be turned, default: [{value: false}]}
capture: {modes: [{mode: none}]}
fusions:
  - name: add-norm
    engine_name: fused
    pattern: [{slot: add, op: add}, {slot: norm, op: rms_norm, reads: add}]
    when: {flag.fuse: true}
    source: this test
  - name: add-norm-fixed
    engine_name: fused elsewhere
    pattern: [{slot: add, op: add}, {slot: norm, op: rms_norm, reads: add}]
    when: {flag.fixed: true}
    source: this test
  - name: gelu-mul
    engine_name: GeluAndMul
    pattern: [{slot: act, op: gelu}, {slot: mul, op: mul, reads: act}]
    source: this test
  - name: reduce-add
    engine_name: reduce
    pattern: [{slot: reduce, op: all_reduce}, {slot: add, op: add, reads: reduce}]
    limits: [{when: {tensor: 2}, slot: reduce, max_bytes: 64 KiB}]
    source: this test
host: {launch: [{value: 1 us}], replay: [{value: 1 us}], kernel: [{value: 1 us}], graph_node: [{value: 1 us}]}
memory:
  utilization: [{value: 0.9}]
  runtime: [{value: 0 GiB}]
  graphs: [{value: 0 GiB}]
  graphs_inside: [{value: false}]
  profile_tokens: [{value: 1}]
  profile_sequences: [{value: 1}]
"""
    spec = load_text(text, "toy.yaml", "backend")
    return Engine(spec, version, {"flag.fuse": False, "flag.fixed": False, **facts})


def rule_names(found) -> set[str]:
    return {group.name for groups in found.inside for group in groups if group.rule}


def test_the_engine_rule_set_keeps_to_the_flags_and_says_why_not():
    found = structure(graph_of(), engine(), "engine")
    assert rule_names(found) == set()
    sentences = refused_rules(found, engine())
    assert "add-norm (fused): needs flag.fuse = true, have false" in sentences
    assert "gelu-mul: no place in this model fits it" in sentences


def test_the_flags_rule_set_turns_tunable_flags_only():
    found = structure(graph_of(), engine(), "flags")
    assert rule_names(found) == {"add-norm"}
    fused = next(g for groups in found.inside for g in groups if g.name == "add-norm")
    assert fused.flags == (("fuse", True),)


def test_every_node_may_run_alone():
    graph = graph_of()
    found = structure(graph, engine(), "engine")
    for block, groups in zip(graph.kinds, found.inside, strict=True):
        singles = {next(iter(g.nodes))[1] for g in groups if len(g.nodes) == 1}
        assert singles == {node.id for node in block.nodes}


@pytest.mark.parametrize(("tokens", "refused"), [(8, False), (9, True)])
def test_a_size_limit_is_checked_under_the_load(tokens, refused):
    """All-reduce of [tokens, 4096] in BF16 is tokens · 8 KiB: 8 tokens are just 64 KiB."""
    graph = graph_of(ranks=2)
    toy = engine(tensor=2)
    found = structure(graph, toy, "engine")
    load = Load((SequenceGroup(tokens, 1, 16),))
    costs = annotate(graph.kinds[1], load, DEVICE)
    group = next(g for g in found.inside[1] if g.name == "reduce-add")
    sentence = limit_refusal(group, (costs,), toy)
    assert (sentence is not None) is refused
    if sentence:
        assert "72.0 KiB, above its limit of 64.0 KiB" in sentence
