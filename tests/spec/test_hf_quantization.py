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


MX = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}
E4M3 = {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}


def quark(weight: object, operand: object, layers: dict | None = None, **more: object) -> dict:
    return {
        "quant_method": "quark",
        "global_quant_config": {"weight": weight, "input_tensors": operand, "bias": None},
        "layer_quant_config": layers or {},
        "exclude": ["lm_head"],
        **more,
    }


def torchao(kind: str, **data: object) -> dict:
    return {"quant_method": "torchao", "quant_type": {"default": {"_type": kind, "_data": data}}}


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
        # vLLM narrows its activations too: ModelOptFp8PbWoLinearMethod
        ({"quant_method": "modelopt", "quant_algo": "fp8_pb_wo"}, ("fp8_block", "fp8", None)),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}, ("nvfp4", None, None)),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "INT8"}, ("fp8", "fp8", "int8")),
        (quark(MX, MX), ("mxfp4", "mxfp4", None)),
        (quark(MX, E4M3), ("mxfp4", "fp8", None)),
        (quark([{**MX, "group_size": 16}, E4M3], [{**MX, "group_size": 16}, E4M3]), ("nvfp4", "nvfp4", None)),
        (quark(E4M3, E4M3), ("fp8", "fp8", None)),
        (quark({**E4M3, "qscheme": "per_block"}, E4M3), ("fp8_block", "fp8", None)),
        (quark({"dtype": "int8", "qscheme": "per_channel"}, {"dtype": "int8"}), ("int8", "int8", None)),
        (quark({"dtype": "uint4", "qscheme": "per_group", "group_size": 32}, None), ("int4_g32", None, None)),
        (
            quark(E4M3, E4M3, {"*k_proj": {"weight": E4M3, "input_tensors": E4M3, "output_tensors": E4M3}},
                  export={"kv_cache_group": ["*k_proj"]}),
            ("fp8", "fp8", "fp8"),
        ),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 64}}, ("int4_g64", None, None)),
        (torchao("Float8DynamicActivationFloat8WeightConfig"), ("fp8", "fp8", None)),
        (torchao("Int8WeightOnlyConfig"), ("int8", None, None)),
        # 32 weights share a scale where nothing is said
        (torchao("Int8DynamicActivationInt4WeightConfig"), ("int4_g32", "int8", None)),
    ],
)  # fmt: skip
def test_a_method_becomes_formats(config, said):
    found = imported(config)
    names = ("weights", "activations", "kv_cache")
    wanted = {name: word for name, word in zip(names, said, strict=True) if word}
    told = {name: word for name, word in found.data["quantization"].items() if name != "scales"}
    assert told == wanted
    assert found.data["weights"] == "bf16"
    assert found.notes == ()


WHOLE = scheme(8, "float", strategy="tensor")


@pytest.mark.parametrize(
    ("config", "scales"),
    [
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "tensor"),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, None),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "tensor"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, None),
        (compressed(WHOLE, {**WHOLE, "dynamic": False}), "tensor"),
        (compressed(WHOLE, {**WHOLE, "dynamic": True}), None),
        # vLLM's kernels for one scale need one of the weights too
        (compressed(scheme(8, "float"), {**WHOLE, "dynamic": False}), None),
        (quark(E4M3, {**E4M3, "is_dynamic": False}), "tensor"),
        (quark(E4M3, {**E4M3, "is_dynamic": True}), None),
        (quark(MX, MX), None),
    ],
)
def test_one_scale_of_all_activations_is_told_where_it_lies_in_the_checkpoint(config, scales):
    assert imported(config).data["quantization"].get("scales") == scales


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
        (compressed(scheme(8, "float", group_size=32)), "scales of FP8 weights, one per 32, are"),
        # HQQ: 16 / 64 bits for a zero point of 16 bits
        ({"quant_method": "hqq"}, "zero point of 16 bits for 64 weights (0.25 bits a weight)"),
        (
            {
                "quant_method": "torchao",
                "quant_type": "int8_weight_only",
                "include_input_output_embeddings": True,
            },
            "embedding and LM head are quantised too",
        ),
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


WIDE_ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        # what no target means stays wide, whichever group comes first
        (
            compressed(scheme(8, "float")) | {"config_groups": {"a": {"targets": ["re:.*mlp.*"], "weights": scheme(8, "float")}}},
            {"weights": "fp8", "ignore": WIDE_ATTENTION},
        ),
        (
            compressed(scheme(8, "float"))
            | {
                "config_groups": {
                    "a": {"targets": ["re:.*down_proj"], "weights": GROUPED},
                    "b": {"targets": ["Linear"], "weights": scheme(8, "float")},
                }
            },
            {"weights": "fp8", "modules": [{"match": "down_proj", "weights": "int4"}]},
        ),
        # GPTQModel: `-:` stays wide, `+:` has bits of its own
        (
            {"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*o_proj": {}, "+:.*\\.0\\.mlp.*": {"bits": 8}}},
            {"weights": "int4", "ignore": ["o_proj"],
             "modules": [{"match": ["gate_proj", "up_proj", "down_proj"], "layers": "0", "weights": "int8"}]},
        ),
        (
            {"quant_method": "auto-round", "bits": 4, "extra_config": {
                "model.layers.1.mlp.down_proj": {"bits": 16}, ".*q_proj": {"bits": 4, "group_size": 32}}},
            {"weights": "int4", "modules": [
                {"match": "down_proj", "layers": "1", "weights": "bf16"}, {"match": "q_proj", "weights": "int4_g32"}]},
        ),
        # two modules in NVFP4, one in FP8, all others as they were
        (
            {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
                **{f"model.layers.{layer}.mlp.down_proj": {"quant_algo": "NVFP4", "group_size": 16} for layer in range(4)},
                **{f"model.layers.{layer}.self_attn.o_proj": {"quant_algo": "FP8"} for layer in range(3)}}},
            {"weights": "nvfp4", "activations": "nvfp4", "ignore": ["q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"],
             "modules": [{"match": "o_proj", "layers": "3", "weights": "bf16"},
                         {"match": "o_proj", "layers": "0..2", "weights": "fp8", "activations": "fp8"}]},
        ),
        (
            quark(E4M3, E4M3, {"*mlp*": {"weight": MX, "input_tensors": MX}}, exclude=["*self_attn*"]),
            {"weights": "fp8", "activations": "fp8", "scales": "tensor", "ignore": WIDE_ATTENTION,
             "modules": [{"match": ["gate_proj", "up_proj", "down_proj"], "weights": "mxfp4", "activations": "mxfp4"}]},
        ),
        (
            {"quant_method": "quark", "global_quant_config": {}, "layer_quant_config": {"*mlp*": {"weight": MX}}},
            {"weights": "mxfp4", "ignore": WIDE_ATTENTION},
        ),
        (
            torchao("ModuleFqnToConfig", module_fqn_to_config={
                "_default": {"_type": "Int4WeightOnlyConfig", "_data": {}},
                "model.layers.1.self_attn.q_proj": None,
                "re:.*down_proj": {"_type": "Int8WeightOnlyConfig"}}),
            {"weights": "int4", "modules": [
                {"match": "q_proj", "layers": "1", "weights": "bf16"}, {"match": "down_proj", "weights": "int8"}]},
        ),
        (
            {"quant_method": "hqq", "skip_modules": ["lm_head"], "quant_config": {
                "mlp.down_proj": {"weight_quant_params": {"nbits": 4, "group_size": 64}},
                "mlp.up_proj": {"weight_quant_params": {"nbits": 8, "group_size": 64}}}},
            {"weights": "int4_g64", "ignore": [*WIDE_ATTENTION, "gate_proj"], "modules": [{"match": "up_proj", "weights": "int8"}]},
        ),
    ],
)  # fmt: skip
def test_modules_have_formats_of_their_own(config, said):
    assert imported(config).data["quantization"] == said


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
            {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "X"},
            "'X' is unkn",
        ),
        (quark({"dtype": "fp6_e3m2"}, None), "weight.dtype: 'fp6_e3m2' cannot be planned"),
        ({"quant_method": "quark"}, "global_quant_config: gives no module a format of weights"),
        ({"quant_method": "torchao", "quant_type": {}}, "quant_type: names no way to quantise"),
        (torchao("UIntXWeightOnlyConfig"), "_type: 'UIntXWeightOnlyConfig' cannot be planned"),
        ({"quant_method": "hqq", "nbits": 3}, "nbits: weights of 3 bits cannot be planned"),
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
