"""Precision and quantisation as users write them, right and wrong."""

import pytest

from planner.errors import SpecError
from planner.spec.load import load_text
from planner.spec.types import ModelSpec, layer_numbers

MODEL = "kind: model\nname: m\ntitle: M\nsequence: [{block: embedding}]\n"


def quantization(text: str):
    spec = load_text(f"{MODEL}quantization: {text}\n", "m.yaml", "model")
    assert isinstance(spec, ModelSpec)
    return spec.quantization


def test_a_checkpoint_without_quantisation_has_none():
    spec = load_text(MODEL, "m.yaml", "model")
    assert isinstance(spec, ModelSpec)
    assert spec.quantization is None


def test_a_rule_without_patterns_means_every_module():
    found = quantization("{modules: [{layers: 0, weights: bf16}]}")
    assert found.modules[0].match == "*"


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("7", {7}),
        ("'7'", {7}),
        ("0..2", {0, 1, 2}),
        ("[0, 125]", {0, 125}),
        ("[0..1, 9]", {0, 1, 9}),
    ],
)
def test_layers_are_numbers_and_ranges_both_ends_in(text, layers):
    found = quantization(f"{{modules: [{{layers: {text}, weights: bf16}}]}}")
    assert layer_numbers(found.modules[0].layers) == layers


def test_no_layers_are_all_layers():
    assert layer_numbers(None) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{weights: fp7}", "m.yaml:5:25: quantization.weights: must be one of fp32, "),
        ("{ignored: [lm_head]}", "m.yaml:5:16: quantization.ignored: unknown field"),
        (
            "{ignore: ['re:(']}",
            (
                "m.yaml:5:25: quantization.ignore.0: is no regular expression: missing ), unterminated "
                "subpattern at position 0"
            ),
        ),
        (
            "{modules: [{layers: 2..x}]}",
            (
                "m.yaml:5:35: quantization.modules.0.layers: is no layer number and no range such as "
                "0..2: '2..x'"
            ),
        ),
        (
            "{modules: [{layers: [3..1]}]}",
            (
                "m.yaml:5:36: quantization.modules.0.layers.0: is no layer number and no range such as "
                "0..2: '3..1'"
            ),
        ),
        (
            "{modules: [{layers: true}]}",
            "m.yaml:5:35: quantization.modules.0.layers: expected text or a list, got true",
        ),
        ("{modules: [{match: ''}]}", "m.yaml:5:34: quantization.modules.0.match: "),
    ],
)
def test_what_is_wrong_is_a_fault_at_its_place(text, sentence):
    with pytest.raises(SpecError) as error:
        quantization(text)
    assert str(error.value).splitlines()[0].startswith(sentence)


@pytest.mark.parametrize(
    "text", ["{", "[]", "awq", "{weights: [awq]}", "{modules: {}}", "{modules: [awq]}"]
)
def test_other_shapes_are_faults_too(text):
    with pytest.raises(SpecError):
        quantization(text)
