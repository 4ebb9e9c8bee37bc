"""`quantization_config`: every method that checkpoints ship with, in words a spec has."""

import functools
import json

import pytest
from hf_configs import LLAMA, sized
from hf_configs_more import MORE

from planner.errors import SpecError
from planner.graph.build import model_graph
from planner.graph.totals import weights_bytes
from planner.ops.types import Formats
from planner.spec import hf
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of
from planner.spec.source import compose

CATALOG = Catalog.standard()
SMALL = sized(LLAMA, (64, 128, 4, 4, 2, 1000), max_position_embeddings=512)


def read(config: dict) -> hf.Imported:
    blocks = functools.partial(CATALOG.find, "block")
    return hf.converted(*compose(json.dumps(config), "config.json"), blocks)


def imported(quantization: dict) -> hf.Imported:
    return read({**SMALL, "quantization_config": quantization})


def scheme(bits: int, kind: str, **more: object) -> dict:
    return {"num_bits": bits, "type": kind, "symmetric": True, "strategy": "channel", **more}


def compressed(weights: dict, operands: dict | None = None, **more: object) -> dict:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": operands}
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
        "format": "pack-quantized",
        "quantization_status": "compressed",
        **more,
    }


GROUPED = scheme(4, "int", strategy="group", group_size=128)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, ("fp8", "fp8", None)),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, ("fp8_block", "fp8", None)),
        ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, ("fp8", "fp8", None)),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, ("awq", None, None)),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, ("int4_g64", None, None)),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}, ("int4", None, None)),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, ("int4_g32", None, None)),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, ("int8", None, None)),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, ("mxfp4", None, None)),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, ("int8", "int8", None)),
        ({"load_in_4bit": True, "bnb_4bit_use_double_quant": True}, ("nf4", None, None)),
        (compressed(scheme(8, "float"), scheme(8, "float", dynamic=True)), ("fp8", "fp8", None)),
        (compressed(scheme(8, "float", strategy="block"), scheme(8, "float")), ("fp8_block", "fp8", None)),
        (compressed(scheme(8, "int"), scheme(8, "int", dynamic=True)), ("int8", "int8", None)),
        (compressed(GROUPED), ("int4", None, None)),
        (compressed(scheme(4, "float", group_size=16), scheme(4, "float", group_size=16)), ("nvfp4", "nvfp4", None)),
        (compressed(scheme(4, "float", group_size=32)), ("mxfp4", None, None)),
        (compressed(scheme(8, "float"), kv_cache_scheme=scheme(8, "float")), ("fp8", None, "fp8")),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, ("fp8", "fp8", "fp8")),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"}, ("fp8", "fp8", "nvfp4")),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, ("nvfp4", "nvfp4", None)),
        ({"producer": {"name": "modelopt"}, "quant_algo": "NVFP4"}, ("nvfp4", "nvfp4", None)),
    ],
)  # fmt: skip
def test_a_method_becomes_formats(config, said):
    found = imported(config)
    names = ("weights", "activations", "kv_cache")
    wanted = {name: word for name, word in zip(names, said, strict=True) if word}
    assert found.data["quantization"] == wanted
    assert found.data["weights"] == "bf16"
    assert found.notes == ()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        # a 16-bit scale per 16 weights is 4 + 16 / 16 bits; int4 counts 4 + 16 / 128 = 4.125
        ({"quant_method": "awq", "group_size": 16}, "one per 16 weights (5 bits a weight)"),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "one a channel (4 bits a weight)"),
        (
            {"quant_method": "fp8", "weight_block_size": [64, 64]},
            "one per block of 64 × 64 weights",
        ),
        # QLoRA: 32 / 64 bits where scales are not quantised too
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "scales take 0.5 bits a weight"),
        ({"quant_method": "gptq", "dynamic": {"-:.*": {}}}, "`dynamic` gives some modules other"),
        ({"quant_method": "gptq", "lm_head": True}, "the LM head is quantised too"),
    ],
)
def test_what_a_spec_cannot_say_is_noted(config, said):
    assert said in "\n".join(imported(config).notes)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (["lm_head", "model.vision_tower", "re:.*embed_tokens.*", "mlp.gate"], {}),
        (["down_proj"], {"ignore": ["down_proj"]}),
        (["re:.*self_attn.*"], {"ignore": ["q_proj", "k_proj", "v_proj", "o_proj"]}),
        # what is inside of a module is kept with it
        (["model.layers.*.self_attn"], {"ignore": ["q_proj", "k_proj", "v_proj", "o_proj"]}),
        (["qkv_proj"], {"ignore": ["q_proj", "k_proj", "v_proj"]}),
        (
            ["model.layers.0.mlp.down_proj", "model.layers.3.mlp.down_proj"],
            {"modules": [{"match": "down_proj", "layers": ["0", "3"], "weights": "bf16"}]},
        ),
        (
            ["model.layers.0.mlp", "model.layers.1.mlp"],
            {
                "modules": [
                    {
                        "match": ["gate_proj", "up_proj", "down_proj"],
                        "layers": "0..1",
                        "weights": "bf16",
                    }
                ]
            },
        ),
        (["model.layers.2*"], {"modules": [{"layers": "2", "weights": "bf16"}]}),
        (["re:.*layers.[0-1]\\."], {"modules": [{"layers": "0..1", "weights": "bf16"}]}),
    ],
)
def test_modules_kept_wide_are_our_nodes_and_layers(kept, said):
    found = imported({"quant_method": "fp8", "modules_to_not_convert": kept}).data["quantization"]
    assert found == {"weights": "fp8", "activations": "fp8", **said}


def test_patterns_that_mean_nothing_here_are_told():
    found = imported({"quant_method": "fp8", "modules_to_not_convert": ["lm_head", "conv_stem"]})
    assert found.notes == ("kept wide, and in none of the blocks: conv_stem",)


def test_groups_of_unlike_formats_become_rules():
    config = compressed(scheme(8, "float"), scheme(8, "float"))
    config["config_groups"]["group_1"] = {"targets": ["re:.*down_proj"], "weights": GROUPED}

    assert imported(config).data["quantization"] == {
        "weights": "fp8",
        "activations": "fp8",
        "modules": [{"match": "down_proj", "weights": "int4"}],
    }


def test_deepseek_and_gpt_oss_as_they_ship():
    assert read(MORE["deepseek-v3"]).data["quantization"] == {
        "weights": "fp8_block",
        "activations": "fp8",
    }
    # its attention is in no block quantised, so that keeping it wide says nothing more
    assert read(MORE["gpt-oss-20b"]).data["quantization"] == {"weights": "mxfp4"}


def test_every_quantised_model_builds_with_its_formats(tmp_path):
    kept = ["model.layers.1.mlp.down_proj", "re:.*o_proj", "lm_head"]
    config = {**SMALL, "quantization_config": {"quant_method": "fp8", "ignored_layers": kept}}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    model = CATALOG.find("model", str(file))
    graph = model_graph(model, blocks_of(model, CATALOG), Formats("fp8", "fp8", "bf16", "bf16"))
    assert weights_bytes(graph) > 0


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"quant_method": "aqlm"}, "quantization_config.quant_method: 'aqlm' is no quantisation"),
        ({"quant_method": "gtpq"}, "did you mean 'gptq'?"),
        ({}, "'(none)' is no quantisation known here"),
        ({"quant_method": "gptq", "bits": 3}, "quantization_config.bits: weights of 3 bits"),
        ({"quant_method": "fp8", "weight_block_size": [0, 1]}, "weight_block_size: expected two"),
        (compressed(scheme(2, "int")), "weights.num_bits: 2 bits of type 'int' cannot be planned"),
        ({"quant_method": "modelopt", "quant_algo": "W2"}, "quant_algo: 'W2' is unknown (FP8, "),
        ({"quant_method": "compressed-tensors"}, "config_groups: names no group of modules"),
        (
            compressed(GROUPED, sparsity_config={"format": "sparse-24-bitmask"}),
            "sparsity_config.format: sparse weights cannot be planned",
        ),
    ],
)
def test_what_nothing_can_plan_is_refused_at_its_place(config, said):
    with pytest.raises(SpecError, match=r"config\.json:1:") as caught:
        imported(config)
    assert said in str(caught.value)
