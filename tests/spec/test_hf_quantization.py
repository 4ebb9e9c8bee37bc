"""`quantization_config`: every method that checkpoints ship with, in words a spec has."""

import json

import pytest
from hf_configs import LLAMA, sized

from planner.errors import SpecError
from planner.spec import hf
from planner.spec.source import compose

SMALL = sized(LLAMA, (64, 128, 2, 4, 2, 1000), max_position_embeddings=512)


def imported(quantization: dict) -> hf.Imported:
    config = {**SMALL, "quantization_config": quantization}
    return hf.converted(*compose(json.dumps(config), "config.json"))


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
    ("config", "weights", "activations", "kv_cache"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", "fp8", None),
        ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, "fp8", "fp8", None),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, "int4", None, None),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 128}, "int4", None, None),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}, "int4", None, None),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", None, None),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, "mxfp4", None, None),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", "int8", None),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "int4", None, None),
        (compressed(scheme(8, "float"), scheme(8, "float", dynamic=True)), "fp8", "fp8", None),
        (compressed(scheme(8, "int"), scheme(8, "int", dynamic=True)), "int8", "int8", None),
        (compressed(GROUPED), "int4", None, None),
        (compressed(scheme(4, "float", group_size=16), scheme(4, "float", group_size=16)), "nvfp4", "nvfp4", None),
        (compressed(scheme(4, "float", group_size=32)), "mxfp4", None, None),
        (compressed(scheme(8, "float"), kv_cache_scheme=scheme(8, "float")), "fp8", None, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8", "fp8", "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4", "nvfp4", None),
        ({"producer": {"name": "modelopt"}, "quant_algo": "NVFP4"}, "nvfp4", "nvfp4", None),
    ],
)  # fmt: skip
def test_a_method_becomes_formats(config, weights, activations, kv_cache):
    found = imported(config)

    assert found.data["weights"] == weights
    assert (found.stored.activations, found.stored.kv_cache) == (activations, kv_cache)
    told = "\n".join(found.notes)
    assert (f"activations: {activations}" in told) == (activations is not None)
    assert (f"kv_cache: {kv_cache}" in told) == (kv_cache is not None)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        # a 16-bit scale per 32 weights is 4 + 16 / 32 bits; int4 counts 4 + 16 / 128 = 4.125
        ({"quant_method": "awq", "group_size": 32}, "one per 32 weights (4.5 bits a weight)"),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, "one a channel (4 bits a weight)"),
        # an FP32 scale per 128 × 128 weights: 32 / 16384 = 0.00195 bits
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "128 × 128 weights (0.002 bits"),
        # QLoRA: 32 / 64 bits, or 8 / 64 + 32 / (64 · 256) = 0.127 when scales are quantised too
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "scales take 0.5 bits"),
        (
            {"load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            "scales take 0.127 bits a weight; int4 is counted with 0.125",
        ),
        (
            {
                "quant_method": "fp8",
                "modules_to_not_convert": ["lm_head", "layers.0.mlp.down_proj"],
            },
            "kept in 16 bit in the checkpoint: layers.0.mlp.down_proj",
        ),
        ({"quant_method": "gptq", "dynamic": {"-:.*": {}}}, "`dynamic` gives some modules other"),
        ({"quant_method": "gptq", "lm_head": True}, "the LM head is quantised too"),
    ],
)
def test_what_a_spec_cannot_say_is_noted(config, said):
    assert said in "\n".join(imported(config).notes)


def test_groups_of_unlike_formats_are_told():
    config = compressed(scheme(8, "float"), scheme(8, "float"))
    config["config_groups"]["group_1"] = {"targets": ["re:.*down"], "weights": GROUPED}

    assert "group_1 stores other modules in int4; all are counted in fp8" in imported(config).notes


def test_modules_that_no_block_quantises_are_not_told():
    kept = ["lm_head", "model.vision_tower", "re:.*embed_tokens.*", "mlp.gate"]
    assert imported({"quant_method": "awq", "modules_to_not_convert": kept}).notes == ()


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
