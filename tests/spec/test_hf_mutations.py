"""Configs in any shape end in a model that builds or in faults at their places."""

import copy
import functools
import json

import pytest
from hf_configs import CONFIGS
from hf_configs_more import MORE
from hf_towers import CATALOGUE, OTHERS
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import many

from planner.cli.common.importing import sizes
from planner.errors import PlannerError
from planner.spec import hf
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.source import compose
from planner.spec.write import written

TOWERS = CATALOGUE | OTHERS
PUBLIC = CONFIGS | MORE | TOWERS
CATALOG = Catalog.standard()
BLOCKS = functools.partial(CATALOG.find, "block")
VISION = sorted({key for config in TOWERS.values() for key in config["vision_config"]})
KEYS = sorted({key for config in PUBLIC.values() for key in config} | {"layer_types", "n_inner"})
QUANTIZATION = st.fixed_dictionaries(
    {},
    optional={
        "quant_method": st.sampled_from(
            ["awq", "gptq", "fp8", "compressed-tensors", "modelopt", 4]
        ),
        "bits": st.sampled_from([4, 8, 3, "4", None]),
        "group_size": st.sampled_from([128, -1, 0, None, "x", [1]]),
        "config_groups": st.sampled_from(
            [None, {}, {"a": None}, {"a": {"weights": {"num_bits": 4}}}, {"a": {"weights": 4}}, []]
        ),
        "weight_block_size": st.sampled_from([[128, 128], [1], "128", None, [True, 1]]),
        "ignore": st.sampled_from([["lm_head"], "lm_head", [1], None]),
        "quant_algo": st.sampled_from(["FP8", "NVFP4", "X", 8, None]),
        "load_in_4bit": st.booleans(),
    },
)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([[], {}, ["full_attention"], [["a"]], {"type": "yarn", "factor": 1e308}])
    | st.sampled_from(["silu", "gelu", "bfloat16", "LlamaForCausalLM", ["LlamaForCausalLM"]])
    | QUANTIZATION
)


@settings(max_examples=many(120, 600), deadline=None)
@given(
    st.sampled_from(sorted(PUBLIC)),
    st.dictionaries(st.sampled_from([*KEYS, "quantization_config"]), VALUES, max_size=3),
    st.sets(st.sampled_from(KEYS), max_size=2),
)
def test_any_field_may_be_wrong_or_missing(name, changes, dropped):
    config = {**copy.deepcopy(PUBLIC[name]), **changes}
    check({key: value for key, value in config.items() if key not in dropped})


@settings(max_examples=many(60, 600), deadline=None)
@given(
    st.sampled_from(sorted(TOWERS)),
    st.dictionaries(st.sampled_from(VISION), VALUES, max_size=3),
    st.sets(st.sampled_from(VISION), max_size=2),
)
def test_any_field_of_a_tower_may_be_wrong_or_missing(name, changes, dropped):
    vision = {**copy.deepcopy(TOWERS[name]["vision_config"]), **changes}
    kept = {key: value for key, value in vision.items() if key not in dropped}
    check({**copy.deepcopy(TOWERS[name]), "vision_config": kept})


def check(config: dict) -> None:
    """A config becomes a model that builds, or faults that name its file."""
    text = json.dumps(config)
    try:
        data, document = compose(text, "config.json")
        if not hf.is_config(data):
            return
        made = hf.converted(data, document, BLOCKS)
        model = hf.model_of(made)
        sizes(model, CATALOG)
    except PlannerError as error:
        assert str(error).startswith("config.json:")  # noqa: PT017 - either outcome is right
        return
    again = load_text(written(made.data, {"": made.notes}), "model.yaml", "model")
    assert again.model_dump() == model.model_dump()


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("phi-2", {"partial_rotary_factor": 1e308}, "partial_rotary_factor: must be at most"),
        (
            "minimax-m2",
            {"attn_type_list": 1},
            "attn_type_list: gives some layers another attention",
        ),
        ("mamba-codestral-7b", {"num_heads": 7}, "does not build: node 'ssm_scan': 7 heads do not"),
    ],
)
def test_odd_figures_are_told_at_the_config(name, changes, said):
    with pytest.raises(PlannerError) as caught:
        measured({**PUBLIC[name], **changes})
    assert str(caught.value).startswith("config.json:1:")
    assert said in str(caught.value)


def measured(config: dict) -> None:
    """Import a config, and build its model."""
    made = hf.converted(*compose(json.dumps(config), "config.json"), BLOCKS)
    sizes(hf.model_of(made), CATALOG)
