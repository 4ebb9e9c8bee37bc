"""Hugging Face configs: public ones give the catalogue's graphs; others are told where and why."""

import functools
import json

import pytest
from hf_configs import BF16, CONFIGS, LLAMA, QWEN2, sized
from hf_configs_more import MORE
from hf_towers import CATALOGUE, OTHERS

from planner.errors import SpecError
from planner.graph import totals
from planner.graph.build import model_graph
from planner.graph.types import Block, ModelGraph
from planner.ops.types import Formats
from planner.spec import hf
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import blocks_of
from planner.spec.source import compose
from planner.spec.types import ModelSpec
from planner.spec.write import written

TOWERS = CATALOGUE | {name: OTHERS[name] for name in ("llama-4-scout", "llama-4-maverick")}
PUBLIC = CONFIGS | MORE | TOWERS
CATALOG = Catalog.standard()
BLOCKS = functools.partial(CATALOG.find, "block")
WIDE = Formats("bf16", "bf16", "bf16", "bf16")
SMALL = sized(LLAMA, (64, 128, 2, 4, 2, 1000), max_position_embeddings=512)

MORE_THAN_TRAINED = {"mistral-nemo-12b": 1024000, "internlm3-8b": 6 * 32768}
"""Configs that claim more positions than the maker trained for, which the catalogue has."""


def imported(config: dict, file: str = "config.json") -> hf.Imported:
    return hf.converted(*compose(json.dumps(config, indent=2), file), BLOCKS)


def graph(model: ModelSpec) -> ModelGraph:
    return model_graph(model, blocks_of(model, CATALOG), WIDE)


def nodes(block: Block) -> list[tuple]:
    """All that a block is, but for the places it was written at."""
    parts = [(n.id, n.op, n.inputs, n.outputs, n.parameters, n.matmul_dtype) for n in block.nodes]
    return [(block.label, block.inputs, block.outputs, dict(block.tensors)), *parts]


def faults(config: dict) -> list[str]:
    with pytest.raises(SpecError) as caught:
        imported(config)
    return [str(fault).split("\n")[0] for fault in caught.value.faults]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_config_gives_the_graph_of_the_catalogue(name):
    text = written(imported(PUBLIC[name]).data)
    model = load_text(text, "model.yaml", "model")
    known = CATALOG.find("model", name)

    assert isinstance(model, ModelSpec)
    mine, theirs = graph(model).alone, graph(known).alone  # towers: test_hf_towers.py
    assert [nodes(block) for block in mine.kinds] == [nodes(block) for block in theirs.kinds]
    assert mine.sequence == theirs.sequence
    assert totals.parameters(mine) == totals.parameters(theirs)
    assert totals.kv_bytes_per_token(mine) == totals.kv_bytes_per_token(theirs)
    assert model.max_context == MORE_THAN_TRAINED.get(name, known.max_context)


def test_a_config_says_what_its_model_is_called():
    named = imported(CONFIGS["llama-3.1-8b-instruct"])
    assert (named.data["name"], named.data["title"]) == (
        "llama-3.1-8b-instruct",
        "Llama-3.1-8B-Instruct",
    )
    assert imported(SMALL, "models/Tiny Llama/config.json").data["name"] == "tiny-llama"
    assert imported(SMALL).data["name"] == "imported"


def test_each_layer_has_the_window_that_layer_types_give_it():
    # four layers of which the third sees all keys: 2 local, 1 global, 1 local
    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    config = sized(QWEN2, (64, 128, 4, 4, 2, 1000), layer_types=kinds, sliding_window=256)
    local = {"block": "decoder-swiglu", "label": "local", "with": {"window": 256}}

    assert imported({**config, "use_sliding_window": True}).data["sequence"][1:-1] == [
        {**local, "times": 2},
        {"block": "decoder-swiglu", "label": "global"},
        local,
    ]


def test_qwen_slides_from_max_window_layers_on_and_only_where_it_is_asked_to():
    config = sized(QWEN2, (64, 128, 4, 4, 2, 1000), max_window_layers=3, sliding_window=256)
    on, off = (imported({**config, "use_sliding_window": use}).data for use in (True, False))

    assert [use.get("with") for use in on["sequence"][1:-1]] == [None, {"window": 256}]
    assert on["sequence"][1]["times"] == 3
    assert [use.get("with") for use in off["sequence"][1:-1]] == [None]


@pytest.mark.parametrize(
    ("scaling", "longest"),
    [
        (None, 512),
        ({"type": "linear", "factor": 4.0}, 4 * 512),
        ({"rope_type": "dynamic", "factor": 2.5}, 1280),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}, 1024),
        ({"rope_type": "llama3", "factor": 8.0}, 512),
        ({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}, 512),
    ],
)
def test_the_longest_context_grows_by_the_factor_of_rope_scaling(scaling, longest):
    assert imported({**SMALL, "rope_scaling": scaling}).data["max_context"] == longest


def test_a_text_model_may_stand_beside_its_tower_or_under_a_key_of_its_own():
    text = sized(QWEN2, (3584, 18944, 28, 28, 4, 152064))
    text |= {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl"}
    flat = imported({**text, "image_token_id": 151655})
    known = CATALOG.find("model", "qwen2.5-7b-instruct")

    assert flat.data["dims"] == dict(known.dims)
    assert flat.notes == ()
    inner = {**text, "model_type": "qwen2_5_vl_text", "architectures": None}
    nested = imported({"architectures": text["architectures"], "text_config": inner})
    assert nested.data["dims"] == flat.data["dims"]
    assert nested.notes == ("the text model of text_config alone",)


def test_half_of_a_head_is_turned_and_told():
    config = sized(
        {"architectures": ["GlmForCausalLM"], "attention_bias": True, **BF16},
        (4096, 13696, 40, 32, 2, 151552),
        head_dim=128,
        partial_rotary_factor=0.5,
    )
    assert imported(config).data["options"] == {"qkv_bias": True, "rotary": 64}


def test_every_wrong_field_is_told_at_its_place():
    config = {**SMALL, "hidden_size": "64", "num_hidden_layers": 0, "tie_word_embeddings": "no"}
    lines = json.dumps(config, indent=2).split("\n")

    def at(key: str) -> str:
        row = next(i for i, line in enumerate(lines) if line.startswith(f'  "{key}"'))
        return f"config.json:{row + 1}:{lines[row].index(': ') + 3}: {key}: "

    assert sorted(faults(config)) == sorted(
        [
            f"{at('hidden_size')}expected a whole number, got '64'",
            f"{at('num_hidden_layers')}must be from 1 to 2,000, got 0",
            f"{at('tie_word_embeddings')}expected true or false, got 'no'",
        ]
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_act": "relu2"}, "hidden_act: 'relu2' is another activation"),
        ({"attention_bias": True}, "attention_bias: true adds biases that no block has"),
        ({"mlp_bias": True}, "mlp_bias: true adds biases"),
        ({"num_local_experts": 8}, "num_local_experts: asks for a structure"),
        ({"num_key_value_heads": 3}, "num_key_value_heads: 3 KV heads cannot serve 4 query heads"),
        ({"hidden_size": 66}, "hidden_size: 66 is not divisible by 4 heads (give head_dim)"),
        ({"torch_dtype": "float4"}, "torch_dtype: 'float4' is no format known here"),
        ({"rope_scaling": [1]}, "rope_scaling: expected an object, got a list"),
    ],
)
def test_a_structure_that_no_block_has_is_refused(change, said):
    (fault,) = faults({**SMALL, **change})
    assert said in fault


@pytest.mark.parametrize(
    ("change", "said"),
    [
        # E2B: 20 layers use the KV of others, and each reads an embedding of its own
        ({"num_kv_shared_layers": 20}, "num_kv_shared_layers: 20 is of the small Gemma 4"),
        ({"hidden_size_per_layer_input": 256}, "256 is of the small Gemma 4"),
        ({"attention_k_eq_v": False}, "layers that see all keys have no v_proj"),
        ({"num_global_key_value_heads": 3}, "3 KV heads cannot serve 16 query heads"),
    ],
)
def test_a_gemma_4_that_no_block_has_is_refused(change, said):
    config = PUBLIC["gemma-4-12b-it"]
    (fault,) = faults({**config, "text_config": {**config["text_config"], **change}})
    assert said in fault


def test_an_unknown_architecture_is_told_with_the_nearest_and_the_fields_that_differ():
    config = {**SMALL, "architectures": ["LlamaMoeForCausalLM"], "n_routed_experts": 4}
    (fault,) = faults(config)

    assert "architecture 'LlamaMoeForCausalLM' is not supported" in fault
    assert "the nearest supported is LlamaForCausalLM, which has no n_routed_experts" in fault


def test_fields_that_say_something_and_are_not_read_are_listed():
    notes = imported({**SMALL, "favourite_colour": "blue", "bos_token_id": 7}).notes
    assert notes == ("not read: favourite_colour",)


def test_the_graph_points_into_the_config_where_it_does_not_fit(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SMALL, indent=2))
    model = CATALOG.find("model", str(file))
    row = next(i for i, line in enumerate(file.read_text().split("\n")) if '"vocab_size"' in line)

    fault = model.origin.at("dims", "vocab").fault("no")
    assert (fault.where.file, fault.where.line) == (str(file), row + 1)
