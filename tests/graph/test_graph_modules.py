"""Formats of single modules: which nodes a rule means, what changes there, and nothing else."""

import pytest
from graph_samples import TINY
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.dtypes import DTYPES, bytes_per_element, is_quantized
from planner.errors import SpecError
from planner.graph.build import model_graph
from planner.graph.formats import asked
from planner.graph.scheme import scheme
from planner.graph.totals import parameters, weights_bytes
from planner.ops.types import Load, SequenceGroup
from planner.spec.load import load_text

GPU = """\
kind: gpu
name: g
title: Card
vendor: nvidia
architecture: ada
memory: {type: HBM, capacity: 24 GiB, bandwidth: 1 TB/s}
matrix: {bf16: 100 TFLOP/s, fp16: 100 TFLOP/s, fp8: 200 TFLOP/s, int8: 200 TOPS}
vector: 10 TFLOP/s
"""
LOAD = Load((SequenceGroup(2, 3, 5),))
# weights of one layer of the tiny model, hidden 64, two KV heads of 8, MLP of 192
QO, KV, UP = 64 * 64, 64 * 16, 64 * 192


def graph_of(precision: str = "", quantization: str = "", text: str = TINY):
    written = text.replace("sequence:", f"quantization: {{{quantization}}}\nsequence:", 1)
    model = load_text(written if quantization else text, "m.yaml", "model")
    deployment = load_text(
        f"model: m\ngpu: g\nprecision: {{{precision}}}\nstep: {{decode: {{batch: 1, context: 1}}}}\n",
        "d.yaml",
        "deployment",
    )
    card = load_text(GPU, "g.yaml")
    chosen = scheme(asked(deployment, model, card), card, origin=deployment.origin)
    return model_graph(model, model.blocks, chosen)


def weights(graph, label: str = "layer") -> dict[str, str]:
    """Formats of the projections of a block by node."""
    (block,) = (block for block in graph.kinds if block.label == label)
    return {n.id: n.parameters[0].dtype for n in block.nodes if n.op_name == "linear"}


@pytest.mark.parametrize(
    ("match", "changed"),
    [
        ("q_proj", {"q_proj"}),
        ("'*_proj'", {"q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"}),
        ("layer.o_proj", {"o_proj"}),
        ("layer", {"q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"}),
        ("'re:[qkv]_proj'", {"q_proj", "k_proj", "v_proj"}),
        ("'re:.*(up|down)_proj'", {"up_proj", "down_proj"}),
        ("[up_proj, down_proj]", {"up_proj", "down_proj"}),
    ],
)
def test_a_rule_means_nodes_by_name_by_block_or_by_both(match, changed):
    found = weights(graph_of(f"modules: [{{match: {match}, weights: int4}}]"))
    assert {name for name, dtype in found.items() if dtype == "int4"} == changed


def test_the_first_rule_that_matches_counts():
    """A deployment's rules stand before the checkpoint's."""
    modules = "modules: [{match: q_proj, weights: fp8}, {match: '*_proj', weights: int8}]"
    found = weights(graph_of(modules, "weights: awq"))
    assert found["q_proj"] == "fp8"
    assert found["k_proj"] == "int8"


def test_a_checkpoint_is_planned_as_published():
    found = graph_of(
        quantization="weights: awq, ignore: [o_proj], modules: [{match: up_proj, weights: fp8}]"
    )
    assert weights(found) == {
        "q_proj": "awq",
        "k_proj": "awq",
        "v_proj": "awq",
        "o_proj": "bf16",
        "up_proj": "fp8",
        "down_proj": "awq",
    }
    assert weights(found, "head") == {"lm_head": "bf16"}


def test_weights_of_the_deployment_replace_the_checkpoints_rules():
    """Whoever asks for other weights quantises the model himself: exceptions go too."""
    found = weights(graph_of("weights: int8", "weights: awq, ignore: [o_proj]"))
    assert set(found.values()) == {"int8"}
    kept = weights(graph_of("weights: awq", "weights: awq, ignore: [o_proj]"))
    assert kept["o_proj"] == "bf16"


def test_an_lm_head_is_quantised_only_where_a_rule_spells_it_out():
    assert weights(graph_of("weights: fp8"), "head") == {"lm_head": "bf16"}
    assert weights(graph_of("modules: [{match: '*', weights: fp8}]"), "head") == {"lm_head": "bf16"}
    spelt = graph_of("modules: [{match: lm_head, weights: fp8}]")
    assert weights(spelt, "head") == {"lm_head": "fp8"}


def test_layers_count_from_nought_and_split_a_run():
    """Three layers, the middle one in FP8: three runs of two kinds; ends do not count."""
    found = graph_of("modules: [{layers: 1, weights: fp8}]")
    assert [(found.kinds[run.kind].label, run.times) for run in found.sequence] == [
        ("embed", 1),
        ("layer", 1),
        ("layer-2", 1),
        ("layer", 1),
        ("head", 1),
    ]
    assert set(weights(found, "layer").values()) == {"bf16"}
    assert set(weights(found, "layer-2").values()) == {"fp8"}


def test_bytes_of_a_mixed_model_by_hand():
    """Q and K in FP8, V in AWQ (4 + 20/128 bits), the rest BF16; embedding, norm and head BF16."""
    found = graph_of(
        "modules: [{match: [q_proj, k_proj], weights: fp8}, {match: v_proj, weights: awq}]"
    )
    layer = QO + KV + KV * (4 + 20 / 128) / 8 + 2 * (QO + 2 * UP) + 2 * 64
    assert weights_bytes(found) == 3 * layer + 2 * 2 * 96 * 64


def test_two_formats_of_products_quantise_one_tensor_twice():
    """Q in FP8 with a scale a token, K in FP8 blocks, V in INT8: three copies, of their own bytes."""
    found = graph_of(
        "modules: [{match: q_proj, weights: fp8, activations: fp8}, "
        "{match: k_proj, weights: fp8_block, activations: fp8}, "
        "{match: v_proj, weights: int8, activations: int8}]"
    )
    (layer,) = (block for block in found.kinds if block.label == "layer")
    reads = {name: layer.by_id[f"{name}_proj"].inputs[0] for name in "qkv"}
    assert reads == {"q": "h.quant", "k": "h.quant.fp8_group", "v": "h.quant.int8"}
    sizes = [layer.tensors[reads[name]].bytes(LOAD) for name in "qkv"]
    elements = 6 * 64
    assert sizes == [elements, elements * (1 + 4 / 128), elements]
    assert layer.by_id["o_proj"].inputs == ("attended",)


def test_formats_change_no_flops_and_no_parameters():
    plain, mixed = graph_of(), graph_of("weights: awq, modules: [{match: up_proj, weights: fp8}]")
    assert parameters(plain) == parameters(mixed)
    for one, other in zip(plain.kinds, mixed.kinds, strict=True):
        for node in one.nodes:
            ours = node.op.work(one.site(node, LOAD))
            theirs = other.by_id[node.id].op.work(other.site(other.by_id[node.id], LOAD))
            assert ours.matmul_flops == theirs.matmul_flops


RULES = st.dictionaries(
    st.sampled_from(["q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"]),
    st.sampled_from([d for d in DTYPES if d not in {"tf32", "fp32", "fp16"}]),
)


@given(RULES, st.sampled_from(["bf16", "awq", "fp8_block"]))
@settings(max_examples=many(20, 40), deadline=None)
def test_bytes_are_the_sum_of_the_modules_and_flops_stay(rules, base):
    """Whatever the rules: each projection's elements times the bytes of its own format."""
    listed = ", ".join(f"{{match: {name}, weights: {dtype}}}" for name, dtype in rules.items())
    found = graph_of(f"weights: {base}, modules: [{listed}]")
    sizes = {"q_proj": QO, "k_proj": KV, "v_proj": KV, "o_proj": QO, "up_proj": UP, "down_proj": UP}
    layer = sum(n * bytes_per_element(rules.get(name, base)) for name, n in sizes.items())
    assert weights_bytes(found) == pytest.approx(3 * (layer + 2 * 64) + 2 * 2 * 96 * 64)
    flops = sum(
        times * node.op.work(block.site(node, LOAD)).matmul_flops
        for block, times in zip(found.kinds, found.times, strict=True)
        for node in block.nodes
        if node.op_name == "linear"
    )
    assert flops == 2 * (6 * 3 * sum(sizes.values()) + 2 * 64 * 96)


@given(st.sampled_from(DTYPES))
def test_scales_make_a_quantised_format_wider_than_its_bits_never_by_a_third(dtype):
    bits = 8 * bytes_per_element(dtype)
    if is_quantized(dtype):
        whole = 8 if "8" in dtype else 4
        assert whole <= bits < whole * 4 / 3


@pytest.mark.parametrize(
    ("precision", "quantization", "sentence"),
    [
        (
            "modules: [{match: q_prj, weights: fp8}]",
            "",
            "d.yaml:3:31: no node and no block of the model matches 'q_prj' (did you mean 'q_proj'?)",
        ),
        (
            "modules: [{match: [q_proj, nope], weights: fp8}]",
            "",
            "d.yaml:3:40: no node and no block of the model matches 'nope'",
        ),
        (
            "",
            "weights: awq, ignore: [lm_haed]",
            (
                "m.yaml:6:39: no node and no block of the model matches 'lm_haed' "
                "(did you mean 'lm_head'?)"
            ),
        ),
        (
            "modules: [{layers: 2..3, weights: fp8}]",
            "",
            "d.yaml:3:32: there is no layer 3: the model has 3, the first is 0",
        ),
        (
            "modules: [{match: q_proj, activations: fp8}]",
            "",
            "d.yaml:3:52: activations in fp8 need weights in fp8, not in bf16 (set weights: fp8)",
        ),
        (
            "weights: fp8, modules: [{match: q_proj, activations: fp16}]",
            "",
            (
                "d.yaml:3:66: the model's activations are bf16: one module cannot have fp16 "
                "(set precision.activations: fp16)"
            ),
        ),
    ],
)
def test_rules_that_mean_nothing_are_faults_at_their_place(precision, quantization, sentence):
    with pytest.raises(SpecError) as error:
        graph_of(precision, quantization)
    assert str(error.value).splitlines()[0].startswith(sentence)
