"""A planned graph as the program that the lab runs."""

import json

import pytest

from planner.graph.build import model_graph
from planner.graph.program import program
from planner.lab.narrow import narrow
from planner.lab.operators import MAKERS
from planner.lab.refusal import LabRefused
from planner.lab.step import check, needed_bytes
from planner.ops.types import Formats
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

BF16 = Formats("bf16", "bf16", "bf16", "bf16")
LAYER = [
    "input_norm", "q_proj", "k_proj", "v_proj", "rope", "kv_cache_write", "attention", "o_proj",
    "attention_residual", "post_attention_norm", "gate_proj", "up_proj", "act", "act_mul",
    "down_proj", "mlp_residual",
]  # fmt: skip


def program_of(name):
    catalog = Catalog.standard()
    model = catalog.find("model", name)
    return program(model_graph(model, blocks_of(model, catalog), BF16), 4, 256)


def test_a_model_becomes_blocks_of_plain_nodes():
    """Qwen2.5-0.5B by its config: 24 layers, 14 heads of 64 on 2 KV heads, biases on q, k and v."""
    found = program_of("qwen2.5-0.5b-instruct")
    assert json.loads(json.dumps(found)) == found
    assert (found["batch"], found["context"]) == (4, 256)
    assert [(block["label"], block["times"]) for block in found["blocks"]][1] == ("layer", 24)
    layer = {node["id"]: node for node in found["blocks"][1]["nodes"]}
    assert list(layer) == LAYER
    q, kv = layer["q_proj"], layer["k_proj"]
    assert (q["op"], q["depth"], q["features"], q["bias"]) == ("linear", 896, 14 * 64, True)
    assert (kv["depth"], kv["features"]) == (896, 2 * 64)
    attention = layer["attention"]
    heads = {name: attention[name] for name in ("op", "heads", "kv_heads", "head_dim", "window")}
    assert heads == {"op": "attention", "heads": 14, "kv_heads": 2, "head_dim": 64, "window": None}
    assert attention["in"] == [layer["rope"]["out"][0], layer["kv_cache_write"]["out"][0]]
    assert attention["out"] == layer["o_proj"]["in"]
    head = {node["id"]: node for node in found["blocks"][2]["nodes"]}
    assert head["lm_head"]["tied"] is True


@pytest.mark.parametrize("name", Catalog.standard().names("model"))
def test_every_tensor_of_a_program_is_made_before_it_is_read(name):
    for block in program_of(name)["blocks"]:
        made = set(block["inputs"])
        for node in block["nodes"]:
            assert set(node["in"]) <= made
            made |= set(node["out"])
        assert set(block["outputs"]) <= made


def test_an_operator_the_lab_cannot_run_is_named():
    runs = {"blocks": [{"nodes": [{"op": "linear"}, {"op": "conv2d"}, {"op": "all_reduce"}]}]}
    with pytest.raises(LabRefused, match="all_reduce, conv2d"):
        check(runs)


def operators(name: str) -> set[str]:
    return {n["op"] for b in program_of(name)["blocks"] for n in b["nodes"]}


def test_the_lab_runs_most_dense_models_of_the_catalogue():
    """Those with a softcap on their logits or scores are left out, and refused by name; so are
    mixtures of experts, latent attention and recurrent layers.
    """
    other = {"moe", "mla_decode", "mla_sparse", "linear_attention", "selective_scan"}
    used = [operators(name) for name in Catalog.standard().names("model")]
    dense = [ops for ops in used if not ops & other]
    assert sum(ops <= MAKERS.keys() for ops in dense) > 0.9 * len(dense)


def test_latent_attention_is_refused_by_name():
    with pytest.raises(LabRefused, match="mla_cache_write, mla_decode, mla_expand"):
        check(program_of("minicpm3-4b"))


def test_attention_the_lab_has_not_is_refused_by_name():
    with pytest.raises(LabRefused, match="attention without a cache"):
        check(program_of("bge-large-en-v1.5"))
    with pytest.raises(LabRefused, match="chunked attention"):
        check(program_of("llama-4-scout"))


def test_a_step_needs_the_bytes_of_its_weights_and_cache():
    """494 M parameters of 2 bytes, and 12,288 bytes of K and V for each of 4 × 256 tokens.

    Norms and biases are left out: 24 · (2·896 + 896 + 2·128) + 896 parameters of 494,032,768.
    """
    vectors = 24 * (2 * 896 + 896 + 2 * 128) + 896
    expected = 2 * (494_032_768 - vectors) + 12_288 * 4 * 256
    assert needed_bytes(program_of("qwen2.5-0.5b-instruct"), 2) == expected


def test_a_narrow_step_runs_the_same_operators_on_widths_that_fit_together():
    """0.5B has heads of 64: a sixteenth is 4, and 14 heads of 4 are 896 / 16 = 56 features."""
    wide = program_of("qwen2.5-0.5b-instruct")
    thin = narrow(wide)
    assert operators_in(thin) == operators_in(wide)
    nodes = {node["id"]: node for block in thin["blocks"] for node in block["nodes"]}
    attention = next(node for node in nodes.values() if node["op"] == "attention")
    assert (attention["heads"], attention["head_dim"]) == (14, 4)
    assert (nodes["q_proj"]["depth"], nodes["q_proj"]["features"]) == (56, 56)
    assert nodes["down_proj"]["depth"] == 4864 // 16
    assert thin["context"] == 8


def operators_in(program) -> list[str]:
    return [node["op"] for block in program["blocks"] for node in block["nodes"]]


def test_widths_that_share_no_divisor_stay():
    program = {"context": 4, "blocks": [{"nodes": [{"op": "linear", "depth": 7, "features": 64}]}]}
    assert narrow(program) == program
