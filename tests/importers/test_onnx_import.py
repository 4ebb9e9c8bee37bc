"""ONNX files as model specs: weights and FLOPs against sums done by hand, and what is refused."""

import contextlib

import numpy as np
import onnx
import onnx_models
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import UsageError
from planner.graph.build import model_graph
from planner.graph.totals import kv_bytes_per_token, parameters
from planner.importers.exported.onnx_file import onnx_export
from planner.importers.exported.read import Options, converted
from planner.ops.types import Formats, Load, SequenceGroup
from planner.spec.load import load_text
from planner.spec.write import written

WIDE = Formats("bf16", "bf16", "bf16", "bf16")


def imported(folder, model, **options):
    file = folder / "model.onnx"
    onnx.save(model, str(file))
    return converted(onnx_export(file), "model", "model.onnx", Options(**options))


def graph_of(found, formats=WIDE):
    return model_graph(
        load_text(written(found.data), "spec", "model"), model_blocks(found), formats
    )


def model_blocks(found):
    return load_text(written(found.data), "spec", "model").blocks


def flops(graph, load):
    """FLOPs of matrix units and of vector units over all blocks."""
    matmul = vector = 0
    for kind, times in zip(graph.kinds, graph.times, strict=True):
        for node in kind.nodes:
            work = node.op.work(kind.site(node, load))
            matmul, vector = matmul + times * work.matmul_flops, vector + times * work.vector_flops
    return matmul, vector


def ops(found, block):
    return [node["op"] for node in found.data["blocks"][block]["nodes"].values()]


def test_an_mlp_is_its_layer_so_many_times(tmp_path):
    found = imported(tmp_path, onnx_models.mlp(width=32, layers=4, classes=10))
    assert found.data["inputs"] == {"x": ["batch", 32]}
    assert found.data["sequence"] == [{"block": "layer", "times": 4}, {"block": "end"}]
    assert ops(found, "layer") == ["linear", "relu"]
    graph = graph_of(found)
    # four times 32·32 + 32, and 32·10 + 10
    assert parameters(graph) == 4 * (32 * 32 + 32) + 330
    matmul, vector = flops(graph, Load(shapes={"batch": 5}))
    assert matmul == 2 * 5 * (4 * 32 * 32 + 32 * 10)
    assert vector == 5 * (4 * (32 + 32) + 10)  # biases, and one FLOP of each ReLU


@settings(max_examples=25, deadline=None)
@given(width=st.integers(2, 40), layers=st.integers(1, 6), classes=st.integers(2, 50))
def test_whatever_its_dims_an_mlp_keeps_every_weight(tmp_path_factory, width, layers, classes):
    model = onnx_models.mlp(width, layers, classes)
    found = imported(tmp_path_factory.mktemp("mlp"), model)
    assert parameters(graph_of(found)) == onnx_models.stored(model)
    assert (
        parameters(graph_of(found)) == layers * (width * width + width) + width * classes + classes
    )
    assert flops(graph_of(found), Load(shapes={"batch": 3}))[0] == 6 * (
        layers * width * width + width * classes
    )


def test_a_decoder_that_is_written_out_is_read_as_the_layers_it_was(tmp_path):
    found = imported(tmp_path, onnx_models.decoder())
    assert found.data["inputs"] == {"token_ids": ["tokens"]}
    assert found.data["sequence"] == [
        {"block": "begin"}, {"block": "layer", "times": 3}, {"block": "end"},
    ]  # fmt: skip
    assert ops(found, "begin") == ["embedding"]
    assert ops(found, "layer") == [
        "rms_norm", "linear", "linear", "linear", "rope", "kv_cache_write", "attention", "linear",
        "add", "rms_norm", "linear", "linear", "silu", "mul", "linear", "add",
    ]  # fmt: skip
    assert ops(found, "end") == ["rms_norm", "linear"]
    assert set(found.data["blocks"]["layer"]["nodes"]) >= {"q_proj", "o_proj", "gate_proj", "rope"}


def test_the_weights_and_flops_of_a_decoder_are_those_of_its_formulas(tmp_path):
    model = onnx_models.decoder(vocab=100, hidden=32, heads=4, inner=48, layers=3)
    graph = graph_of(imported(tmp_path, model))
    layer = 4 * 32 * 32 + 3 * 32 * 48 + 2 * 32
    assert parameters(graph) == 100 * 32 + 3 * layer + 32 + 32 * 100
    # the table of RoPE's frequencies is stored, and no parameter: 8 numbers
    assert parameters(graph) == onnx_models.stored(model) - 8
    assert kv_bytes_per_token(graph) == 3 * 2 * 32 * 2
    # two sequences, one token each over 10 keys: projections 2·2·weights, attention 4·32·10 a token
    matmul, _ = flops(graph, Load((SequenceGroup(2, 1, 10),)))
    projections = 2 * 2 * (3 * (4 * 32 * 32 + 3 * 32 * 48) + 32 * 100)
    assert matmul == projections + 3 * 2 * 4 * 32 * 10


def test_attention_without_a_mask_of_positions_looks_both_ways_and_keeps_nothing(tmp_path):
    found = imported(tmp_path, onnx_models.decoder(causal=False))
    node = found.data["blocks"]["layer"]["nodes"]["attention"]
    assert (node["causal"], node["cached"]) == (False, False)
    assert kv_bytes_per_token(graph_of(found)) == 0
    asked = imported(tmp_path, onnx_models.decoder(causal=False), attention="causal")
    assert kv_bytes_per_token(graph_of(asked)) == 3 * 2 * 32 * 2


def test_the_last_token_alone_gets_logits_where_that_is_asked_for(tmp_path):
    found = imported(tmp_path, onnx_models.decoder(), last_token=True)
    assert ops(found, "end") == ["rms_norm", "select_last", "linear"]
    load = Load((SequenceGroup(2, 7, 7),))
    [all_tokens, last] = [
        flops(graph_of(each), load)[0]
        for each in (imported(tmp_path, onnx_models.decoder()), found)
    ]
    assert all_tokens - last == 2 * (14 - 2) * 32 * 100


def test_a_decoder_can_be_cut_over_ranks(tmp_path):
    found = imported(tmp_path, onnx_models.decoder())
    model = load_text(written(found.data), "spec", "model")
    halves = model_graph(model, model.blocks, WIDE, ranks=2)
    # every matrix is halved, norms are whole on both ranks
    assert parameters(halves) == (100 * 32 + 3 * (4 * 32 * 32 + 3 * 32 * 48) + 3200) // 2 + 7 * 32


def test_contrib_operators_are_unpacked_with_their_window_and_caches(tmp_path):
    model = onnx_models.grouped(hidden=64, heads=8, kv_heads=2, layers=2, vocab=50)
    found = imported(tmp_path, model)
    graph = graph_of(found)
    # a layer: 64·(8 + 4)·8 to Q, K and V, 64·64 back, a norm; one norm and two tables beside
    assert parameters(graph) == 2 * (64 * 96 + 64 * 64 + 64) + 64 + 2 * 50 * 64
    # the tables of sines and cosines are no parameters: 2 · 16 · 4
    assert parameters(graph) == onnx_models.stored(model) - 2 * 16 * 4
    assert kv_bytes_per_token(graph) == 2 * 2 * 2 * 8 * 2
    layer = next(b for b in found.data["blocks"].values() if "attention" in b["nodes"])["nodes"]
    assert layer["attention"]["window"] == 128
    assert (layer["attention"]["heads"], layer["attention"]["kv_heads"]) == (8, 2)
    assert [layer[name]["features"] for name in layer if layer[name]["op"] == "columns"] == [
        64,
        16,
        16,
    ]
    assert any("caches" in note for note in found.notes)


def test_a_convolution_in_front_of_attention_is_a_tower_over_images(tmp_path):
    model = onnx_models.tower(hidden=16, heads=2, patches=4)
    found = imported(tmp_path, model)
    assert found.data["inputs"] == {"pixels": ["sequences", 3, 32, 32]}
    graph = graph_of(found)
    assert parameters(graph) == onnx_models.stored(model)
    assert parameters(graph) == 16 * 3 * 64 + 16 + 16 * 16 + 4 * (16 * 16 + 16) + 32
    # three images of 16 patches: the convolution 2·16·(3·64)·16, the projections, 4·16·16² of scores
    matmul, _ = flops(graph, Load((SequenceGroup(3, 16, 16),)))
    assert matmul == 3 * (2 * 16 * 192 * 16 + 2 * 16 * 4 * 16 * 16 + 4 * 16 * 16 * 16)
    assert any("16 tokens" in note for note in found.notes)


def test_a_written_out_layer_norm_and_gelu_are_one_node_each(tmp_path):
    b = onnx_models.Builder()
    mean = b.add("ReduceMean", "x", out="mean", axes=[-1])
    centred = b.add("Sub", "x", mean, out="centred")
    square = b.add("Mul", centred, centred, out="square")
    variance = b.add("ReduceMean", square, out="variance", axes=[-1])
    shifted = b.add("Add", variance, b.constant("eps", 1e-5, np.float32), out="shifted")
    root = b.add("Sqrt", shifted, out="root")
    scaled = b.add("Div", centred, root, out="scaled")
    weighted = b.add("Mul", scaled, b.weight("ln.weight", 8), out="weighted")
    y = b.add("Add", weighted, b.weight("ln.bias", 8), out="normed")
    part = b.add("Div", y, b.constant("root2", 1.4142135, np.float32), out="part")
    shift = b.add("Add", b.add("Erf", part, out="erf"), b.constant("one", 1.0, np.float32), out="s")
    b.add("Mul", b.add("Mul", y, shift, out="m"), b.constant("half", 0.5, np.float32), out="out")
    model = b.model({"x": (onnx_models.FLOAT, ["n", 8])}, {"out": ["n", 8]})
    found = imported(tmp_path, model)
    assert ops(found, "whole") == ["layer_norm", "gelu"]
    assert parameters(graph_of(found)) == 16


def test_a_tied_head_is_held_once(tmp_path):
    b = onnx_models.Builder()
    table = b.weight("wte.weight", 20, 8)
    x = b.add("Gather", table, "ids", out="x")
    b.add("MatMul", x, b.add("Transpose", table, out="turned", perm=[1, 0]), out="logits")
    model = b.model({"ids": (onnx_models.INT, ["n", "s"])}, {"logits": ["n", "s", 20]})
    found = imported(tmp_path, model)
    assert parameters(graph_of(found)) == 20 * 8
    assert any(node.get("tied") for node in found.data["blocks"]["whole"]["nodes"].values())


def test_weights_of_four_bits_in_groups_become_a_rule_of_the_precision(tmp_path):
    b = onnx_models.Builder()
    b.weights.append(onnx.numpy_helper.from_array(np.zeros((48, 2, 16), np.uint8), "q.weight"))
    b.weight("q.scales", 48 * 2)
    b.add("MatMulNBits", "x", "q.weight", "q.scales", out="y", domain="com.microsoft",
          K=64, N=48, bits=4, block_size=32)  # fmt: skip
    model = b.model({"x": (onnx_models.FLOAT, ["n", 64])}, {"y": ["n", 48]}, "com.microsoft")
    found = imported(tmp_path, model)
    assert parameters(graph_of(found)) == 64 * 48
    assert found.data["quantization"] == {
        "modules": [{"match": ["whole.q"], "weights": "int4_g32"}]
    }


def test_what_no_node_is_for_is_refused_by_name_and_count(tmp_path):
    b = onnx_models.Builder()
    x = b.add("Relu", "x", out="a")
    x = b.add("Frobnicate", x, out="b", domain="com.example", name="first")
    x = b.add("Frobnicate", x, out="c", domain="com.example", name="second")
    b.add("NonZero", x, out="y", name="third")
    model = b.model({"x": (onnx_models.FLOAT, ["n", 4])}, {"y": ["m", 4]}, "com.example")
    with pytest.raises(UsageError) as refused:
        imported(tmp_path, model)
    text = str(refused.value)
    assert "2 × com.example.Frobnicate: first, second" in text
    assert "1 × NonZero: third" in text


def test_an_axis_may_be_named_and_fixed(tmp_path):
    model = onnx_models.mlp()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch size/2"
    with pytest.raises(UsageError, match="a side 'batch size/2'"):
        imported(tmp_path, model)
    found = imported(tmp_path, model, axes={"batch size/2": "rows"})
    assert found.data["inputs"] == {"x": ["rows", 32]}
    found = imported(tmp_path, model, axes={"batch size/2": 16})
    assert found.data["inputs"] == {"x": [16, 32]}


def test_external_weights_need_not_be_there(tmp_path):
    file = tmp_path / "big.onnx"
    model = onnx_models.mlp(width=64)
    onnx.save(model, str(file), save_as_external_data=True, location="big.bin", size_threshold=0)
    (tmp_path / "big.bin").unlink()
    found = converted(onnx_export(file), "big", "big.onnx", Options())
    assert parameters(graph_of(found)) == 4 * (64 * 64 + 64) + 64 * 10 + 10


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(1, 400), flip=st.integers(0, 255))
def test_a_broken_file_is_refused_in_words(tmp_path_factory, cut, flip):
    raw = bytearray(onnx_models.mlp(width=4, layers=1).SerializeToString())
    raw[min(cut, len(raw) - 1)] ^= flip
    file = tmp_path_factory.mktemp("broken") / "broken.onnx"
    file.write_bytes(bytes(raw[: max(cut, 20)]))
    with contextlib.suppress(UsageError):
        converted(onnx_export(file), "broken", "broken.onnx", Options())


def test_runs_of_runs_are_a_cycle(tmp_path):
    b, x = onnx_models.Builder(), "x"
    for turn in range(3):
        for layer in range(5):
            x = b.add("Relu", b.linear(x, f"t{turn}.l{layer}", 8, 8), out=f"r{turn}.{layer}")
        x = b.add("Tanh", b.linear(x, f"t{turn}.g", 8, 8, bias=True), out=f"t{turn}")
    found = imported(tmp_path, b.model({"x": (onnx_models.FLOAT, ["n", 8])}, {x: ["n", 8]}))
    assert found.data["sequence"] == [
        {"repeat": 3, "blocks": [{"block": "layer", "times": 5}, {"block": "layer-2"}]}
    ]
    assert parameters(graph_of(found)) == 3 * (5 * 64 + 72)


def test_helpers_of_this_file_stand_on_what_onnx_checks():
    for model in (onnx_models.mlp(), onnx_models.decoder(), onnx_models.tower()):
        onnx.checker.check_model(model)


def test_positions_compared_with_a_constant_hide_nothing(tmp_path):
    model = onnx_models.decoder()
    for node in model.graph.node:
        if node.op_type == "Greater":  # every position is above −1: a mask of padding, so to speak
            node.input[1] = "minus_one"
    found = imported(tmp_path, model)
    assert kv_bytes_per_token(graph_of(found)) == 0


@pytest.mark.parametrize(("upper", "cached"), [(1, 3 * 2 * 32 * 2), (2, 0)])
def test_a_stored_triangle_is_a_mask_that_looks_back(tmp_path, upper, cached):
    model = onnx_models.decoder(causal=False)
    mask = np.triu(np.full((7, 7), -1e9, np.float32), upper).reshape(1, 1, 7, 7)
    held = next(tensor for tensor in model.graph.initializer if tensor.name == "mask")
    model.graph.initializer.remove(held)
    model.graph.initializer.append(onnx.numpy_helper.from_array(mask, "mask"))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[1].dim_value = 7
    assert kv_bytes_per_token(graph_of(imported(tmp_path, model))) == cached


def test_a_learned_bias_of_the_scores_keeps_its_weights(tmp_path):
    b = onnx_models.Builder()
    b.constant("buckets", np.zeros((7, 7)))
    b.weight("relative.weight", 32, 2)
    ids = b.add("Add", "buckets", b.constant("nought", 0), out="ids")
    looked = b.add("Gather", "relative.weight", ids, out="looked")
    bias = b.add("Transpose", looked, out="bias", perm=[2, 0, 1])
    q, k, v = (
        onnx_models.heads_of(b, b.linear("x", f"{part}_proj", 8, 8), part, 2, 4) for part in "qkv"
    )
    turned = b.add("Transpose", k, out="kt", perm=[0, 1, 3, 2])
    scores = b.add("Add", b.add("MatMul", q, turned, out="scores"), bias, out="biased")
    values = b.add("MatMul", b.add("Softmax", scores, out="p"), v, out="values")
    back = b.add("Transpose", values, out="back", perm=[0, 2, 1, 3])
    b.add("Reshape", back, b.constant("rows", [0, 0, 8]), out="y")
    model = b.model({"x": (onnx_models.FLOAT, ["n", 7, 8])}, {"y": ["n", 7, 8]})
    found = imported(tmp_path, model)
    assert parameters(graph_of(found)) == 3 * 8 * 8 + 32 * 2
    assert found.data["blocks"]["whole"]["nodes"]["relative"]["weights"] == 64


def test_a_node_without_what_it_needs_is_refused(tmp_path):
    model = onnx_models.grouped()
    node = next(node for node in model.graph.node if node.op_type == "GroupQueryAttention")
    del node.attribute[:]
    with pytest.raises(UsageError, match="has no num_heads and no kv_num_heads"):
        imported(tmp_path, model)
    model = onnx_models.mlp()
    del model.graph.node[0].input[1]
    with pytest.raises(UsageError, match="lacks inputs"):
        imported(tmp_path, model)
    model = onnx_models.mlp()
    del model.graph.node[-1]
    with pytest.raises(UsageError, match=r"no node writes the output 'head\.z'"):
        imported(tmp_path, model)


def test_what_is_stored_and_no_nodes_is_said(tmp_path):
    model = onnx_models.mlp()
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.ones((3, 4), np.float32), "spare")
    )
    notes = imported(tmp_path, model).notes
    assert [note for note in notes if "12 stored numbers that no output needs" in note]
