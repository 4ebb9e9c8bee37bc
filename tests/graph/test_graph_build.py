"""Graphs of well-formed models: order, quantising, sharding, repeats, totals."""

import networkx as nx
import pytest
from graph_samples import BF16, FP8, PIPE, TINY, block, changed, graph, model

from planner.graph.build import model_graph
from planner.graph.totals import kv_bytes, kv_bytes_per_token, kv_layers, parameters, weights_bytes
from planner.graph.types import Run
from planner.ops.types import Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

STEP = Load((SequenceGroup(3, 2, 9),), {"batch": 4})
ATTENTION_PARTS = ("attention.scores", "attention.mask", "attention.softmax", "attention.values")


def ids(found) -> list[str]:
    return [node.id for node in found.nodes]


def of_op(found, name: str):
    return [node for node in found.nodes if node.op_name == name]


def test_nodes_stand_in_topological_order_whatever_the_order_written():
    lines = PIPE.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if "one:" in line)
    lines[first : first + 3] = reversed(lines[first : first + 3])
    assert ids(block("".join(lines), "step")) == ids(block(PIPE, "step")) == ["one", "two", "three"]


def test_the_networkx_graph_has_a_tensor_on_each_edge():
    found = block(TINY, "layer")
    assert nx.is_directed_acyclic_graph(found.graph)
    assert list(found.graph.nodes) == ids(found)
    for source, target, name, data in found.graph.edges(keys=True, data=True):
        assert data["tensor"] is found.tensors[name]
        assert name in found.by_id[source].outputs
        assert name in found.by_id[target].inputs
    edges = sum(1 for node in found.nodes for name in set(node.inputs) if name not in found.inputs)
    assert found.graph.number_of_edges() == edges


def test_a_composite_becomes_its_parts_and_remembers_its_name():
    found = block(TINY, "layer")
    assert tuple(node.id for node in found.composites["attention"]) == ATTENTION_PARTS
    assert all(found.by_id[name].composite == "attention" for name in ATTENTION_PARTS)
    assert found.by_id["attention.values"].outputs == ("attended",)
    assert found.by_id["q_proj"].composite is None


def test_a_node_without_out_writes_a_tensor_by_its_own_name():
    text = changed(PIPE, ("two: {op: relu, in: a, out: b}", "b: {op: relu, in: a}"))
    assert block(text, "step").by_id["b"].outputs == ("b",)


def test_nothing_is_quantised_where_gemms_multiply_what_they_read():
    assert not of_op(block(TINY, "layer"), "quantize")


def test_one_quantised_copy_is_shared_by_all_gemms_that_read_a_tensor():
    found = block(TINY, "layer", FP8)
    copies = {node.id: node for node in of_op(found, "quantize")}
    # h feeds q, k and v; attended feeds o_proj; middle up_proj; activated down_proj.
    assert set(copies) == {"h.quant", "attended.quant", "middle.quant", "activated.quant"}
    for name in ("q_proj", "k_proj", "v_proj"):
        assert found.by_id[name].inputs == ("h.quant",)
    assert found.tensors["h.quant"].dtype == "fp8"
    assert found.tensors["q"].dtype == "bf16"
    # The residual add still reads the 16-bit tensor.
    assert found.by_id["mlp_residual"].inputs == ("middle", "down")


def test_a_layer_that_engines_keep_in_sixteen_bits_reads_no_quantised_copy():
    found = block(TINY, "head", FP8)
    assert not of_op(found, "quantize")
    assert found.by_id["lm_head"].matmul_dtype == "bf16"


def test_tensor_parallelism_puts_one_all_reduce_behind_each_row_parallel_layer():
    found = block(TINY, "layer", ranks=2)
    assert [node.id for node in of_op(found, "all_reduce")] == [
        "o_proj.all_reduce",
        "down_proj.all_reduce",
    ]
    for node in of_op(found, "all_reduce"):
        [partial] = node.inputs
        assert partial == f"{node.outputs[0]}.partial"
        assert found.tensors[partial].shape == found.tensors[node.outputs[0]].shape
    assert of_op(block(TINY, "embed", ranks=2), "all_reduce")
    assert of_op(block(TINY, "head", ranks=2), "all_gather")


def test_one_rank_needs_no_collective():
    whole = graph(TINY)
    assert not [n for kind in whole.kinds for n in kind.nodes if n.op_name.startswith("all_")]


def test_a_blocks_border_has_the_same_shapes_on_any_number_of_ranks():
    for label in ("layer", "head"):
        one, two = block(TINY, label), block(TINY, label, ranks=2)
        for name in (*one.inputs, *one.outputs):
            assert one.tensors[name].shape == two.tensors[name].shape


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_flops_and_weights_of_all_ranks_add_up_to_the_whole(ranks):
    one, many = graph(TINY), graph(TINY, ranks=ranks)
    for whole, part in zip(one.kinds, many.kinds, strict=True):
        for node in whole.nodes:
            share = part.by_id[node.id]
            if node.op_name == "linear" and node.id not in ("k_proj", "v_proj"):
                assert _flops(whole, node) == ranks * _flops(part, share)
                assert _elements(node) == ranks * _elements(share)
            if node.id in ("attention.scores", "attention.values"):
                assert _flops(whole, node) == ranks * _flops(part, share)


@pytest.mark.parametrize(("ranks", "copies"), [(2, 1), (4, 2), (8, 4)])
def test_kv_heads_are_replicated_past_their_number(ranks, copies):
    one, many = block(TINY, "layer"), block(TINY, "layer", ranks=ranks)
    for name in ("k_proj", "v_proj"):
        assert _elements(many.by_id[name]) * ranks == copies * _elements(one.by_id[name])
    whole, part = kv_bytes_per_token(graph(TINY)), kv_bytes_per_token(graph(TINY, ranks=ranks))
    assert part * ranks == copies * whole


def _flops(found, node) -> float:
    return node.op.work(found.site(node, STEP)).matmul_flops


def _elements(node) -> int:
    return sum(p.elements for p in node.parameters)


def test_parameters_and_bytes_add_up_by_hand():
    # embed 96·64; layer: norm 64, q 64·64, k and v 64·16 each, o 64·64, up and down 64·192 each.
    layer = 64 + 64 * 64 + 2 * 64 * 16 + 64 * 64 + 2 * 64 * 192
    total = 96 * 64 + 3 * layer + 64 * 96
    assert parameters(graph(TINY)) == total
    assert weights_bytes(graph(TINY)) == 2 * total
    # In FP8 only the layers' linear weights shrink; norm, embedding and LM head stay in 16 bit.
    linear = 3 * (layer - 64)
    assert weights_bytes(graph(TINY, FP8)) == linear + 2 * (total - linear)


def test_tied_weights_are_read_but_held_once():
    tied = changed(TINY, ("shard: vocab,", "shard: vocab, tied: true,"))
    assert parameters(graph(TINY)) - parameters(graph(tied)) == 64 * 96
    head = block(tied, "head")
    assert (
        head.by_id["lm_head"].op.work(head.site(head.by_id["lm_head"], STEP)).weight_bytes
        == 2 * 64 * 96
    )


def test_the_kv_cache_adds_up_by_kind_of_layer():
    # K and V of 2 heads of 8 elements, 2 bytes: 64 bytes a token and layer, 3 layers.
    assert kv_bytes_per_token(graph(TINY)) == 3 * 64
    assert kv_bytes(graph(TINY), 100) == 3 * 64 * 100
    windowed = changed(TINY, ("options: {window: null}", "options: {window: 40}"))
    assert kv_bytes(graph(windowed), 100) == 3 * 64 * 40
    assert kv_bytes(graph(windowed), 30) == 3 * 64 * 30
    [layers] = kv_layers(graph(windowed))
    assert (layers.label, layers.times, layers.window) == ("layer", 3, 40)


def test_repeats_of_two_kinds_run_three_and_fifty_eight_times():
    dense = "- {block: layer, times: 3, label: dense}\n"
    narrow = "  - {block: layer, times: 58, label: narrow, with: {wide: hidden / 2}}"
    text = changed(TINY, ("- {block: layer, times: 3}", dense + narrow))
    found = graph(text)
    assert [(found.kinds[r.kind].label, r.times) for r in found.sequence] == [
        ("embed", 1), ("dense", 3), ("narrow", 58), ("head", 1),
    ]  # fmt: skip
    assert found.times == (1, 3, 58, 1)
    assert found.pairs == ((0, 1), (1, 1), (1, 2), (2, 2), (2, 3), (3, None))
    # 58 layers whose MLP is 32 instead of 192 wide.
    assert parameters(found) == parameters(graph(TINY)) + 58 * (64 + 10_240 + 2 * 64 * 32)


def test_a_cycle_of_blocks_repeats_in_order():
    local = "{block: layer, times: TIMES, label: local, with: {window: 16}}"
    cycle = f"- {{repeat: 4, blocks: [{local}, {{block: layer, label: global}}]}}\n"
    rest = f"  - {local}"
    sequence = cycle.replace("TIMES", "5") + rest.replace("TIMES", "2")
    text = changed(TINY, ("- {block: layer, times: 3}", sequence))
    found = graph(text)
    local, whole = 1, 2
    assert found.sequence[1:-1] == (*(Run(local, 5), Run(whole, 1)) * 4, Run(local, 2))
    assert found.times == (1, 22, 4, 1)
    # 22 local layers keep 16 tokens, 4 global ones all: 64 bytes a token and layer.
    assert kv_bytes(found, 100) == 64 * (22 * 16 + 4 * 100)


def test_uses_of_one_kind_in_a_row_are_one_run():
    text = changed(
        TINY, ("- {block: layer, times: 3}", "- {block: layer, times: 3}\n  - {block: layer}")
    )
    assert graph(text).sequence[1] == Run(1, 4)


def test_two_kinds_never_share_a_label():
    text = changed(TINY, ("- {block: layer, times: 3}",
        "- {block: layer}\n  - {block: layer, with: {window: 16}}\n  - {block: layer, with: {window: 8}}"))  # fmt: skip
    assert [kind.label for kind in graph(text).kinds] == [
        "embed",
        "layer",
        "layer-2",
        "layer-3",
        "head",
    ]


def test_an_option_that_is_a_word_can_be_given_by_a_use():
    text = changed(PIPE, ("features: hidden}", "features: hidden, shard: how}"),
        ("    outputs: [y]", "    options: {how: none}\n    outputs: [y]"),
        ("- {block: step}", "- {block: step, with: {how: row}}"))  # fmt: skip
    assert block(text, "step").by_id["one"].op.shard == "row"


def test_an_options_default_may_be_arithmetic_over_dims():
    text = changed(PIPE, ("features: hidden}", "features: size}"),
        ("    outputs: [y]", "    options: {size: hidden}\n    outputs: [y]"))  # fmt: skip
    assert block(text, "step").by_id["one"].op.features == 8


def test_a_layer_norms_attribute_may_be_nought_only_where_that_makes_sense():
    text = changed(PIPE, ("op: relu, in: a", "op: rms_norm, in: a, size: 4"))
    assert block(text, "step").by_id["two"].op.size == 4


def test_blocks_of_the_catalogue_serve_a_model_that_names_them():
    spec = model("""\
kind: model
name: mine
title: Mine
dims: {hidden: 64, heads: 4, kv_heads: 2, head_dim: 16, intermediate: 128, vocab: 256}
sequence: [{block: embedding}, {block: decoder-swiglu, times: 2}, {block: lm-head}]
""")
    found = model_graph(spec, blocks_of(spec, Catalog.standard()), BF16)
    # q 64·64, k and v 64·32, o 64·64, gate, up and down 64·128, two norms.
    layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64
    assert parameters(found) == 2 * 256 * 64 + 2 * layer + 64
